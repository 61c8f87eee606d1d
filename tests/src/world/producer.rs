//! Puts records of every kind, and knows what is to become of each.
//!
//! It aggregates by the shards as it last saw them, as the KPL does; so after a reshard some aggregates hold records of
//! two shards.

use std::sync::Arc;

use bytes::Bytes;
use checkpoint::{Aggregator, HashKey, HashRange, Position, PutRecord};
use lease::ShardId;
use md5::{Digest as _, Md5};
use shardkeeper::local::model::{PutEntry, ShardInfo};
use std::time::Duration;

use super::{
    history::{Event, Fate},
    kinesis::number,
    processor::text,
    stage::{STREAM, Scene},
};

/// A producer.
#[derive(Debug)]
pub struct Producer {
    scene: Arc<Scene>,
    shards: Vec<ShardInfo>,
}

/// A user record to put.
struct Item {
    key: String,
    explicit: Option<u128>,
    text: String,
}

impl Item {
    fn hash_key(&self) -> u128 {
        self.explicit
            .unwrap_or_else(|| HashKey::of_partition_key(&self.key).0)
    }
}

impl Producer {
    /// A producer that knows the shards as they are.
    pub fn new(scene: Arc<Scene>) -> Self {
        let mut producer = Producer {
            scene,
            shards: Vec::new(),
        };
        producer.look();
        producer
    }

    /// Puts records for ever.
    pub async fn run(mut self) {
        loop {
            if self.scene.dice.chance(0.3) {
                self.look();
            }
            self.put_something();
            let wait = self
                .scene
                .dice
                .between(Duration::ZERO, self.scene.plan.put_every);
            tokio::time::sleep(wait + Duration::from_millis(1)).await;
        }
    }

    /// A last plain record for every open shard.
    pub fn coda(&mut self) {
        self.look();
        for shard in self.shards.clone() {
            let mut item = self.item();
            item.explicit = Some(shard.starting_hash_key);
            self.put_plain(&item);
        }
    }

    fn look(&mut self) {
        let mut shards = self.scene.shards();
        shards.retain(|shard| shard.ending_sequence.is_none());
        self.shards = shards;
    }

    /// A record with a payload like no other.
    fn item(&self) -> Item {
        let dice = &self.scene.dice;
        Item {
            key: format!("customer-{}", dice.below(40)),
            explicit: None,
            text: format!("{:08x}", dice.number() >> 32),
        }
    }

    fn put_something(&mut self) {
        let (dice, plan) = (&self.scene.dice, &self.scene.plan);
        if !dice.chance(plan.aggregated) {
            let mut item = self.item();
            if dice.chance(0.3) {
                item.explicit = Some(u128::from(dice.number()) << 64 | u128::from(dice.number()));
            }
            return self.put_plain(&item);
        }
        let items = self.related_items();
        if !dice.chance(plan.malformed) {
            return self.put_packed(&items);
        }
        match dice.below(3) {
            0 => self.put_with_wrong_digest(&items),
            1 => self.put_poisoned(&items),
            _ => self.put_empty(&items[0]),
        }
    }

    /// Items that belong to one shard as this producer knows them; sometimes a stranger among them.
    fn related_items(&self) -> Vec<Item> {
        let dice = &self.scene.dice;
        let shard = &self.shards[dice.index(self.shards.len())];
        let (start, end) = (shard.starting_hash_key, shard.ending_hash_key);
        let count = 2 + dice.below(6);
        let items = (0..count).map(|_| {
            let mut item = self.item();
            let drawn = u128::from(dice.number()) << 64 | u128::from(dice.number());
            let related = start + drawn % (end - start).max(1);
            item.explicit = (!dice.chance(0.05)).then_some(related);
            item
        });
        items.collect()
    }

    fn put_plain(&self, item: &Item) {
        let mut entry = PutEntry::new(item.key.as_str(), item.text.clone());
        entry.explicit_hash_key = item.explicit.map(|key| key.to_string());
        self.put(entry, |_| vec![(item.text.clone(), Fate::Deliver)]);
    }

    fn put_packed(&self, items: &[Item]) {
        let mut aggregator = Aggregator::new(1 << 20);
        for item in items {
            let record = PutRecord {
                partition_key: item.key.clone(),
                explicit_hash_key: item.explicit.map(HashKey),
                data: Bytes::from(item.text.clone()),
            };
            aggregator.add(record).expect("a few small records fit");
        }
        let packed = aggregator.finish().expect("records were added");
        let entry = PutEntry::new(packed.partition_key, packed.data).at(packed.explicit_hash_key.0);
        self.put(entry, |range| judge(items, range, items.len()));
    }

    /// Looks like an aggregate, but is none: handed over as it is.
    fn put_with_wrong_digest(&self, items: &[Item]) {
        let mut payload = encode(items, None);
        if let Some(last) = payload.last_mut() {
            *last ^= 0xff;
        }
        let whole = text(&payload);
        let entry = PutEntry::new("a", payload).at(items[0].hash_key());
        self.put(entry, |_| vec![(whole.clone(), Fate::Deliver)]);
    }

    /// One of the items names a key that is not there.
    fn put_poisoned(&self, items: &[Item]) {
        let bad = self.scene.dice.index(items.len());
        let entry = PutEntry::new("a", encode(items, Some(bad))).at(items[0].hash_key());
        self.put(entry, |range| judge(items, range, bad));
    }

    fn put_empty(&self, item: &Item) {
        let entry = PutEntry::new("a", encode(&[], None)).at(item.hash_key());
        self.put(entry, |_| Vec::new());
    }

    /// Puts a Kinesis record and notes its user records; `fates` is told the range of the shard it went to.
    fn put(&self, entry: PutEntry, fates: impl Fn(HashRange) -> Vec<(String, Fate)>) {
        let scene = &self.scene;
        scene.note_shards();
        let arrival = scene.epoch_millis();
        // A producer over its rate gives this record up.
        let Ok(placed) = scene.kinesis.lock().put_record(STREAM, &entry, arrival) else {
            return;
        };
        let shards = scene.shards();
        let shard = shards
            .iter()
            .find(|shard| shard.shard_id == placed.shard_id);
        let shard = shard.expect("the record was put into one of them");
        let range = HashRange {
            start: HashKey(shard.starting_hash_key),
            end: HashKey(shard.ending_hash_key),
        };
        for (index, (text, fate)) in fates(range).into_iter().enumerate() {
            scene.record(Event::Put {
                shard: ShardId::from(placed.shard_id.as_str()),
                position: Position::at(number(placed.sequence_number), index as u64),
                text,
                arrival,
                fate,
            });
        }
    }
}

/// What becomes of the items of an aggregate in a shard of this range, if item `bad` and all behind it are unreadable.
fn judge(items: &[Item], range: HashRange, bad: usize) -> Vec<(String, Fate)> {
    let fate = |(index, item): (usize, &Item)| {
        let fate = if index >= bad {
            Fate::Poisoned
        } else if range.contains(HashKey(item.hash_key())) {
            Fate::Deliver
        } else {
            Fate::OutOfRange
        };
        (item.text.clone(), fate)
    };
    items.iter().enumerate().map(fate).collect()
}

/// An aggregate made by hand, so that it can be wrong. Item `bad` names a partition key that is not there.
fn encode(items: &[Item], bad: Option<usize>) -> Vec<u8> {
    let mut body = Vec::new();
    field(&mut body, 1, b"nobody");
    for item in items {
        field(&mut body, 2, item.hash_key().to_string().as_bytes());
    }
    for (index, item) in items.iter().enumerate() {
        let key = if bad == Some(index) { 99 } else { 0 };
        let explicit = u8::try_from(index).expect("a few items");
        let mut record = vec![0x08, key, 0x10, explicit];
        field(&mut record, 3, item.text.as_bytes());
        field(&mut body, 3, &record);
    }
    let mut payload = vec![0xF3, 0x89, 0x9A, 0xC2];
    payload.extend_from_slice(&body);
    payload.extend_from_slice(&Md5::digest(&body));
    payload
}

/// Appends a protobuf field of bytes, at most 127 of them.
fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    out.push(u8::try_from(bytes.len()).expect("short"));
    out.extend_from_slice(bytes);
}
