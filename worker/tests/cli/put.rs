//! `put`: what goes in comes out, and what cannot go in is named.

mod generated;
mod lines;
mod refused;
mod trouble;

use std::collections::BTreeSet;

use checkpoint::UserRecord;

use crate::world::{World, text};

fn payloads<'a>(records: impl IntoIterator<Item = &'a UserRecord>) -> Vec<String> {
    records
        .into_iter()
        .map(|record| text(&record.data))
        .collect()
}

/// The payloads in all shards of `orders`, sorted.
fn sorted_payloads(world: &World) -> Vec<String> {
    let mut found = payloads(world.user_records("orders").values().flatten());
    found.sort_unstable();
    found
}

/// The records of a stream's only shard.
fn only_shard(world: &World, stream: &str) -> Vec<UserRecord> {
    let mut shards = world.user_records(stream);
    let records = shards.remove("shardId-000000000000").expect("a shard");
    assert!(shards.is_empty(), "{stream} has more shards");
    records
}

fn numbers(count: u64) -> BTreeSet<u64> {
    (1..=count).collect()
}

/// Generated records begin with their number.
fn number(record: &UserRecord) -> u64 {
    let text = text(&record.data);
    let digits = text.split(' ').next().expect("a number");
    digits.parse().expect("a number")
}

/// The numbers of all generated records in `orders`.
fn numbers_put(world: &World) -> BTreeSet<u64> {
    let shards = world.user_records("orders");
    shards.values().flatten().map(number).collect()
}
