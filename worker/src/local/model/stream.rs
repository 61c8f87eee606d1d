//! A stream: its state, what it is changing into, and its shards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::consumer::Consumer;
use super::error::{Error, Result};
use super::reshard::{self, Reshard};
use super::settings::Metric;
use super::shard::{Shard, shard_index};

const HOUR_MS: i64 = 3_600_000;

/// Where a stream is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamStatus {
    /// Not yet usable.
    Creating,
    /// Being deleted; gone soon.
    Deleting,
    /// Usable and open to changes.
    Active,
    /// Usable; a change is under way, no other may start.
    Updating,
}

impl StreamStatus {
    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Creating => "CREATING",
            Self::Deleting => "DELETING",
            Self::Active => "ACTIVE",
            Self::Updating => "UPDATING",
        }
    }
}

/// Who decides the number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMode {
    /// The user.
    Provisioned,
    /// The service; such a stream begins with four shards.
    OnDemand,
}

impl StreamMode {
    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Provisioned => "PROVISIONED",
            Self::OnDemand => "ON_DEMAND",
        }
    }

    /// Reads the name on the wire.
    ///
    /// # Errors
    /// `Validation` for any other text.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "PROVISIONED" => Ok(Self::Provisioned),
            "ON_DEMAND" => Ok(Self::OnDemand),
            _ => Err(Error::constraint(
                name,
                "streamModeDetails.streamMode",
                "Member must satisfy enum value set: [PROVISIONED, ON_DEMAND]",
            )),
        }
    }
}

/// A stream as DescribeStreamSummary tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSummary {
    /// Its name.
    pub name: String,
    /// Its ARN.
    pub arn: String,
    /// Where it is in its life.
    pub status: StreamStatus,
    /// Who decides the number of shards.
    pub mode: StreamMode,
    /// When CreateStream was called, epoch milliseconds.
    pub created_ms: i64,
    /// How long records are kept, hours.
    pub retention_hours: i64,
    /// Shards that take records.
    pub open_shards: usize,
    /// Registered consumers.
    pub consumers: usize,
    /// The key it is encrypted with.
    pub encryption_key: Option<String>,
    /// Shard-level metrics that are on.
    pub metrics: Vec<Metric>,
    /// Payload and key bytes of one record at most.
    pub max_record_bytes: u64,
}

/// What becomes of the stream when its current state ends.
#[derive(Debug)]
pub(crate) enum Change {
    Create,
    Delete,
    Reshard(Reshard),
    Mode(StreamMode),
    Encryption(Option<String>),
}

#[derive(Debug)]
struct Pending {
    at: i64,
    change: Change,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub id: i64,
    pub name: Arc<str>,
    pub arn: String,
    pub created: i64,
    pub mode: StreamMode,
    pub retention_hours: i64,
    pub shards: Vec<Shard>,
    pub consumers: BTreeMap<String, Consumer>,
    pub tags: BTreeMap<String, String>,
    pub metrics: BTreeSet<Metric>,
    pub encryption_key: Option<String>,
    pub max_record_bytes: u64,
    pending: Option<Pending>,
}

impl Stream {
    pub(crate) fn new(
        id: i64,
        name: Arc<str>,
        arn: String,
        mode: StreamMode,
        shard_count: u32,
        now: i64,
    ) -> Self {
        let mut shards = Vec::new();
        for (index, hash) in (0..).zip(reshard::even_ranges(shard_count)) {
            shards.push(Shard::new(index, hash, now, &[]));
        }
        Self {
            id,
            name,
            arn,
            created: now,
            mode,
            retention_hours: 24,
            shards,
            consumers: BTreeMap::new(),
            tags: BTreeMap::new(),
            metrics: BTreeSet::new(),
            encryption_key: None,
            max_record_bytes: 1 << 20,
            pending: None,
        }
    }

    pub(crate) fn status(&self) -> StreamStatus {
        match self.pending.as_ref().map(|p| &p.change) {
            None => StreamStatus::Active,
            Some(Change::Create) => StreamStatus::Creating,
            Some(Change::Delete) => StreamStatus::Deleting,
            Some(Change::Reshard(_) | Change::Mode(_) | Change::Encryption(_)) => {
                StreamStatus::Updating
            }
        }
    }

    /// When the change under way completes.
    pub(crate) fn changes_at(&self) -> Option<i64> {
        self.pending.as_ref().map(|pending| pending.at)
    }

    /// Begins a change that completes at `at`.
    pub(crate) fn begin(&mut self, change: Change, at: i64) {
        self.pending = Some(Pending { at, change });
    }

    /// Completes what is due at `now`; true once the stream is gone.
    pub(crate) fn settle(&mut self, now: i64) -> bool {
        let Some(due) = self.pending.take_if(|p| p.at <= now) else {
            self.consumers.retain(|_, consumer| !consumer.settle(now));
            return false;
        };
        match due.change {
            Change::Create => {}
            Change::Delete => {
                self.shards
                    .iter()
                    .for_each(|shard| shard.bell.notify_waiters());
                return true;
            }
            Change::Reshard(reshard) => reshard::carry_out(&mut self.shards, &reshard, due.at),
            Change::Mode(mode) => self.mode = mode,
            Change::Encryption(key) => self.encryption_key = key,
        }
        self.consumers.retain(|_, consumer| !consumer.settle(now));
        false
    }

    /// Records that arrived before this moment are gone.
    pub(crate) fn trim_before(&self, now: i64) -> i64 {
        now.saturating_sub(self.retention_hours.saturating_mul(HOUR_MS))
    }

    /// The shards that still hold, or may get, records.
    pub(crate) fn known_shards(&self, now: i64) -> impl Iterator<Item = &Shard> {
        let trim_before = self.trim_before(now);
        self.shards
            .iter()
            .filter(move |shard| !shard.is_expired(trim_before))
    }

    pub(crate) fn open_shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().filter(|shard| shard.is_open())
    }

    pub(crate) fn open_count(&self) -> usize {
        self.open_shards().count()
    }

    /// The shard of this id, trimmed to what retention leaves.
    pub(crate) fn shard(&mut self, id: &str, account: &str, now: i64) -> Result<&mut Shard> {
        let trim_before = self.trim_before(now);
        let name = self.name.clone();
        let shard = shard_index(id).and_then(|index| self.shards.get_mut(index as usize));
        let shard = shard.filter(|shard| !shard.is_expired(trim_before));
        let shard = shard.ok_or_else(|| {
            Error::not_found(format!(
                "Shard {id} in stream {name} under account {account} does not exist"
            ))
        })?;
        shard.trim(trim_before);
        Ok(shard)
    }

    pub(crate) fn summary(&self) -> StreamSummary {
        let creating = self.status() == StreamStatus::Creating;
        StreamSummary {
            name: self.name.to_string(),
            arn: self.arn.clone(),
            status: self.status(),
            mode: self.mode,
            created_ms: self.created,
            retention_hours: self.retention_hours,
            open_shards: if creating { 0 } else { self.open_count() },
            consumers: self.consumers.len(),
            encryption_key: self.encryption_key.clone(),
            metrics: self.metrics.iter().copied().collect(),
            max_record_bytes: self.max_record_bytes,
        }
    }
}
