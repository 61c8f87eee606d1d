//! Settings of a stream: retention, tags, metrics, mode, encryption, record size.

use std::collections::BTreeMap;

use super::Kinesis;
use super::error::{Error, Result};
use super::stream::{Change, StreamMode};

const MIN_RETENTION_HOURS: i64 = 24;
const MAX_RETENTION_HOURS: i64 = 8760;
const MAX_TAGS: usize = 50;

/// A shard-level metric of the service's monitoring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Bytes written.
    IncomingBytes,
    /// Records written.
    IncomingRecords,
    /// Bytes read.
    OutgoingBytes,
    /// Records read.
    OutgoingRecords,
    /// Writes refused for their rate.
    WriteProvisionedThroughputExceeded,
    /// Reads refused for their rate.
    ReadProvisionedThroughputExceeded,
    /// How far behind readers are.
    IteratorAgeMilliseconds,
}

impl Metric {
    /// All of them, in the order of the API's documentation.
    pub const ALL: [Self; 7] = [
        Self::IncomingBytes,
        Self::IncomingRecords,
        Self::OutgoingBytes,
        Self::OutgoingRecords,
        Self::WriteProvisionedThroughputExceeded,
        Self::ReadProvisionedThroughputExceeded,
        Self::IteratorAgeMilliseconds,
    ];

    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IncomingBytes => "IncomingBytes",
            Self::IncomingRecords => "IncomingRecords",
            Self::OutgoingBytes => "OutgoingBytes",
            Self::OutgoingRecords => "OutgoingRecords",
            Self::WriteProvisionedThroughputExceeded => "WriteProvisionedThroughputExceeded",
            Self::ReadProvisionedThroughputExceeded => "ReadProvisionedThroughputExceeded",
            Self::IteratorAgeMilliseconds => "IteratorAgeMilliseconds",
        }
    }

    /// The metrics behind a name on the wire; `ALL` stands for each.
    ///
    /// # Errors
    /// `Validation` for an unknown name.
    pub fn parse(name: &str) -> Result<Vec<Self>> {
        if name == "ALL" {
            return Ok(Self::ALL.to_vec());
        }
        let found = Self::ALL.into_iter().find(|metric| metric.name() == name);
        found.map(|metric| vec![metric]).ok_or_else(|| {
            Error::constraint(
                name,
                "shardLevelMetrics",
                "Member must satisfy enum value set",
            )
        })
    }
}

impl Kinesis {
    /// IncreaseStreamRetentionPeriod.
    ///
    /// # Errors
    /// `InvalidArgument` unless it is more than now and at most 8,760 hours.
    pub fn increase_retention(&mut self, stream: &str, hours: i64, now: i64) -> Result<()> {
        let (stream, _) = self.active_stream(stream, now)?;
        retention_in_bounds(hours)?;
        if hours < stream.retention_hours {
            return Err(Error::invalid(format!(
                "Requested retention period ({hours} hours) for stream {} can not be shorter than existing retention period ({} hours). \
                 Use DecreaseStreamRetentionPeriod API.",
                stream.name, stream.retention_hours
            )));
        }
        stream.retention_hours = hours;
        Ok(())
    }

    /// DecreaseStreamRetentionPeriod; older records are gone at once.
    ///
    /// # Errors
    /// `InvalidArgument` unless it is less than now and at least 24 hours.
    pub fn decrease_retention(&mut self, stream: &str, hours: i64, now: i64) -> Result<()> {
        let (stream, _) = self.active_stream(stream, now)?;
        retention_in_bounds(hours)?;
        if hours > stream.retention_hours {
            return Err(Error::invalid(format!(
                "Requested retention period ({hours} hours) for stream {} can not be longer than existing retention period ({} hours). \
                 Use IncreaseStreamRetentionPeriod API.",
                stream.name, stream.retention_hours
            )));
        }
        stream.retention_hours = hours;
        Ok(())
    }

    /// AddTagsToStream, TagResource.
    ///
    /// # Errors
    /// `ResourceNotFound`; `InvalidArgument` beyond 50 tags.
    pub fn add_tags(
        &mut self,
        stream: &str,
        tags: BTreeMap<String, String>,
        now: i64,
    ) -> Result<()> {
        let stream = self.stream(stream, now)?;
        let new = tags
            .keys()
            .filter(|key| !stream.tags.contains_key(*key))
            .count();
        if stream.tags.len() + new > MAX_TAGS {
            return Err(Error::invalid(format!(
                "Failed to add tags to stream {}: more than {MAX_TAGS} tags",
                stream.name
            )));
        }
        stream.tags.extend(tags);
        Ok(())
    }

    /// RemoveTagsFromStream, UntagResource; keys that are not there are no error.
    ///
    /// # Errors
    /// `ResourceNotFound`.
    pub fn remove_tags(&mut self, stream: &str, keys: &[String], now: i64) -> Result<()> {
        let stream = self.stream(stream, now)?;
        stream.tags.retain(|key, _| !keys.contains(key));
        Ok(())
    }

    /// ListTagsForStream: at most `limit` tags after the given key, and whether there are more.
    ///
    /// # Errors
    /// `ResourceNotFound`.
    pub fn list_tags(
        &mut self,
        stream: &str,
        after: Option<&str>,
        limit: usize,
        now: i64,
    ) -> Result<(Vec<(String, String)>, bool)> {
        let stream = self.stream(stream, now)?;
        let mut rest = stream
            .tags
            .iter()
            .filter(|(key, _)| after.is_none_or(|after| key.as_str() > after));
        let page = rest
            .by_ref()
            .take(limit)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        Ok((page, rest.next().is_some()))
    }

    /// Enable- and DisableEnhancedMonitoring; answers the metrics before and after.
    ///
    /// # Errors
    /// `ResourceNotFound`, `ResourceInUse`.
    pub fn set_metrics(
        &mut self,
        stream: &str,
        metrics: &[Metric],
        on: bool,
        now: i64,
    ) -> Result<(Vec<Metric>, Vec<Metric>)> {
        let (stream, _) = self.active_stream(stream, now)?;
        let before = stream.metrics.iter().copied().collect();
        for metric in metrics {
            if on {
                stream.metrics.insert(*metric);
            } else {
                stream.metrics.remove(metric);
            }
        }
        Ok((before, stream.metrics.iter().copied().collect()))
    }

    /// UpdateStreamMode.
    ///
    /// # Errors
    /// `ResourceNotFound`, `ResourceInUse`.
    pub fn update_mode(&mut self, stream: &str, mode: StreamMode, now: i64) -> Result<()> {
        let (stream, options) = self.active_stream(stream, now)?;
        stream.begin(Change::Mode(mode), now + options.update_ms);
        stream.settle(now);
        Ok(())
    }

    /// StartStreamEncryption (with a key) and StopStreamEncryption (without): marks the records put afterwards.
    ///
    /// # Errors
    /// `ResourceNotFound`, `ResourceInUse`.
    pub fn set_encryption(&mut self, stream: &str, key: Option<String>, now: i64) -> Result<()> {
        let (stream, options) = self.active_stream(stream, now)?;
        stream.begin(Change::Encryption(key), now + options.update_ms);
        stream.settle(now);
        Ok(())
    }

    /// UpdateMaxRecordSize, in KiB.
    ///
    /// # Errors
    /// `Validation` outside 1,024..=10,240.
    pub fn update_max_record_size(&mut self, stream: &str, kib: u64, now: i64) -> Result<()> {
        if !(1024..=10_240).contains(&kib) {
            return Err(Error::constraint(
                kib,
                "maxRecordSizeInKiB",
                "Member must have value between 1024 and 10240",
            ));
        }
        let (stream, _) = self.active_stream(stream, now)?;
        stream.max_record_bytes = kib << 10;
        Ok(())
    }
}

fn retention_in_bounds(hours: i64) -> Result<()> {
    if (MIN_RETENTION_HOURS..=MAX_RETENTION_HOURS).contains(&hours) {
        return Ok(());
    }
    let bound = if hours < MIN_RETENTION_HOURS {
        format!("Minimum allowed retention period is {MIN_RETENTION_HOURS} hours")
    } else {
        format!("Maximum allowed retention period is {MAX_RETENTION_HOURS} hours")
    };
    Err(Error::invalid(format!(
        "{bound}. Requested retention period ({hours} hours) is not allowed."
    )))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T0, put, with_stream};
    use super::super::{Code, ModelOptions, PutEntry, StreamStatus};
    use super::*;

    #[test]
    fn retention_moves_within_its_bounds_and_in_its_direction() {
        type Call = fn(&mut Kinesis, &str, i64, i64) -> Result<()>;
        let (up, down): (Call, Call) = (Kinesis::increase_retention, Kinesis::decrease_retention);
        let bad = Err(Code::InvalidArgument);
        for (call, hours, expect) in [
            (up, 48, Ok(())),
            (up, 24, bad),
            (up, 8761, bad),
            (up, 8760, Ok(())),
            (down, 8761, bad),
            (down, 23, bad),
            (down, 24, Ok(())),
        ] {
            let mut kinesis = with_stream(1, ModelOptions::default());
            kinesis.increase_retention("s", 30, T0).expect("increased");
            assert_eq!(
                call(&mut kinesis, "s", hours, T0).map_err(|e| e.code),
                expect,
                "{hours}"
            );
            let now = kinesis
                .describe_stream_summary("s", T0)
                .expect("described")
                .retention_hours;
            assert_eq!(now, if expect.is_ok() { hours } else { 30 });
        }
    }

    #[test]
    fn tags_come_in_pages_and_go() {
        let mut kinesis = with_stream(1, ModelOptions::default());
        let tags = |keys: &[&str]| {
            keys.iter()
                .map(|k| ((*k).to_owned(), "v".to_owned()))
                .collect()
        };
        kinesis
            .add_tags("s", tags(&["b", "a", "c"]), T0)
            .expect("tagged");
        kinesis
            .remove_tags("s", &["b".to_owned(), "none".to_owned()], T0)
            .expect("untagged");
        let (page, more) = kinesis.list_tags("s", None, 1, T0).expect("listed");
        assert_eq!((page, more), (vec![("a".to_owned(), "v".to_owned())], true));
        let (page, more) = kinesis.list_tags("s", Some("a"), 1, T0).expect("listed");
        assert_eq!(
            (page, more),
            (vec![("c".to_owned(), "v".to_owned())], false)
        );
        let many = (0..49).map(|i| (i.to_string(), String::new())).collect();
        assert_eq!(
            kinesis.add_tags("s", many, T0).map_err(|e| e.code),
            Err(Code::InvalidArgument),
            "51 in all"
        );
    }

    #[test]
    fn mode_and_encryption_take_effect_after_updating() {
        let mut kinesis = with_stream(
            1,
            ModelOptions {
                update_ms: 100,
                ..ModelOptions::default()
            },
        );
        kinesis
            .update_mode("s", StreamMode::OnDemand, T0)
            .expect("begun");
        let summary = kinesis
            .describe_stream_summary("s", T0 + 99)
            .expect("described");
        assert_eq!(
            (summary.status, summary.mode),
            (StreamStatus::Updating, StreamMode::Provisioned)
        );
        assert_eq!(
            kinesis
                .describe_stream_summary("s", T0 + 100)
                .map(|s| s.mode),
            Ok(StreamMode::OnDemand)
        );
        kinesis
            .set_encryption("s", Some("key".to_owned()), T0 + 100)
            .expect("begun");
        put(&mut kinesis, "plain", T0 + 199);
        let encrypted = |k: &mut Kinesis, at| {
            k.put_record("s", &PutEntry::new("k", "x"), at)
                .expect("put")
                .encrypted
        };
        assert!(!encrypted(&mut kinesis, T0 + 199) && encrypted(&mut kinesis, T0 + 200));
    }

    #[test]
    fn metrics_are_switched_by_name() {
        let mut kinesis = with_stream(1, ModelOptions::default());
        let all = Metric::parse("ALL").expect("all");
        assert_eq!(
            kinesis.set_metrics("s", &all, true, T0),
            Ok((vec![], Metric::ALL.to_vec()))
        );
        let (_, after) = kinesis
            .set_metrics("s", &[Metric::IncomingBytes], false, T0)
            .expect("set");
        assert_eq!(after, Metric::ALL[1..]);
        for metric in Metric::ALL {
            assert_eq!(Metric::parse(metric.name()), Ok(vec![metric]));
        }
        assert!(Metric::parse("Nonsense").is_err());
    }
}
