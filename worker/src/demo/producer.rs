//! Puts user records into the embedded Kinesis: plain ones and KPL aggregates, keys over all shards, and goes on through
//! splits and merges. As the KPL does, it aggregates only what belongs to the same shard.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use checkpoint::{AddError, Aggregator, HashKey, PutRecord};

use super::{DemoError, STREAM};
use crate::{
    backoff::Random,
    clock::system_wall,
    local::{
        SharedKinesis,
        model::{PutEntry, ShardFilter, ShardInfo},
    },
};

pub(super) struct Producer {
    kinesis: SharedKinesis,
    rate: u32,
    random: Random,
    made: u64,
}

/// Payload bytes of an aggregate at most.
const AGGREGATE: usize = 4 << 10;

impl Producer {
    pub(super) fn new(kinesis: SharedKinesis, rate: u32, random: Random) -> Self {
        Producer {
            kinesis,
            rate,
            random,
            made: 0,
        }
    }

    /// Puts what is due by now. Returns the numbers of the records that were put.
    pub(super) fn produce(&mut self, at: Duration) -> Result<std::ops::Range<u64>, DemoError> {
        let due = (at.as_secs_f64() * f64::from(self.rate)) as u64;
        let first = self.made;
        let mut groups: BTreeMap<String, Aggregator> = BTreeMap::new();
        let kinesis = self.kinesis.clone();
        let mut kinesis = kinesis.lock();
        let now = system_wall();
        let open = kinesis
            .list_shards(STREAM, &ShardFilter::AtLatest, None, 10_000, now)?
            .shards;
        while self.made < due {
            let key = format!("customer-{}", self.random.number() % 1_000);
            let data = Bytes::from(self.made.to_string());
            self.made += 1;
            if self.random.fraction() < 0.4 {
                kinesis.put_record(STREAM, &PutEntry::new(key, data), now)?;
                continue;
            }
            let shard = shard_of(&open, &key).shard_id.clone();
            let group = groups
                .entry(shard)
                .or_insert_with(|| Aggregator::new(AGGREGATE));
            let record = PutRecord {
                partition_key: key,
                explicit_hash_key: None,
                data,
            };
            if let Err(AddError::Full { record, .. } | AddError::TooLarge { record, .. }) =
                group.add(record)
            {
                put(&mut kinesis, group, now)?;
                group
                    .add(record)
                    .expect("an empty aggregate has room for a small record");
            }
        }
        for group in groups.values_mut() {
            put(&mut kinesis, group, now)?;
        }
        Ok(first..self.made)
    }
}

fn put(
    kinesis: &mut crate::local::model::Kinesis,
    group: &mut Aggregator,
    now: i64,
) -> Result<(), DemoError> {
    let Some(aggregate) = group.finish() else {
        return Ok(());
    };
    let entry = PutEntry {
        partition_key: aggregate.partition_key,
        explicit_hash_key: Some(aggregate.explicit_hash_key.0.to_string()),
        data: aggregate.data,
    };
    kinesis.put_record(STREAM, &entry, now)?;
    Ok(())
}

fn shard_of<'a>(open: &'a [ShardInfo], key: &str) -> &'a ShardInfo {
    let HashKey(hash) = HashKey::of_partition_key(key);
    open.iter()
        .find(|shard| (shard.starting_hash_key..=shard.ending_hash_key).contains(&hash))
        .expect("open shards cover all hash keys")
}

fn open(kinesis: &SharedKinesis) -> Result<Vec<ShardInfo>, DemoError> {
    let page =
        kinesis
            .lock()
            .list_shards(STREAM, &ShardFilter::AtLatest, None, 10_000, system_wall())?;
    let mut shards = page.shards;
    shards.sort_by_key(|shard| shard.starting_hash_key);
    Ok(shards)
}

/// Splits the first open shard in the middle.
pub(super) fn split(kinesis: &SharedKinesis) -> Result<String, DemoError> {
    let shards = open(kinesis)?;
    let shard = &shards[0];
    let middle =
        shard.starting_hash_key + (shard.ending_hash_key - shard.starting_hash_key) / 2 + 1;
    kinesis
        .lock()
        .split_shard(STREAM, &shard.shard_id, middle, system_wall())?;
    Ok(shard.shard_id.clone())
}

/// Merges the last two open shards.
pub(super) fn merge(kinesis: &SharedKinesis) -> Result<(String, String), DemoError> {
    let mut shards = open(kinesis)?;
    let (Some(last), Some(before)) = (shards.pop(), shards.pop()) else {
        unreachable!("the demo has more than two open shards");
    };
    kinesis
        .lock()
        .merge_shards(STREAM, &before.shard_id, &last.shard_id, system_wall())?;
    Ok((before.shard_id, last.shard_id))
}

/// Every shard with its parents.
pub(super) fn parents(kinesis: &SharedKinesis) -> Result<BTreeMap<String, Vec<String>>, DemoError> {
    let page = kinesis.lock().list_shards(
        STREAM,
        &ShardFilter::FromTrimHorizon,
        None,
        10_000,
        system_wall(),
    )?;
    Ok(page
        .shards
        .into_iter()
        .map(|shard| {
            let parents = [shard.parent, shard.adjacent_parent];
            (shard.shard_id, parents.into_iter().flatten().collect())
        })
        .collect())
}
