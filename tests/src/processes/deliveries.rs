//! What the workers wrote: every line of their files, when it was seen, and what may be said of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    time::{Duration, Instant},
};

use super::World;

/// One line of a worker's file.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Whose.
    pub worker: String,
    /// Of which shard.
    pub shard: String,
    /// Its sequence number.
    pub sequence: String,
    /// Its sub-sequence number.
    pub sub_sequence: u64,
    /// Its data; here, a number.
    pub data: String,
    /// When it was read.
    pub seen: Instant,
}

impl Delivery {
    /// Its place in the shard, comparable.
    fn place(&self) -> (usize, &str, u64) {
        (self.sequence.len(), &self.sequence, self.sub_sequence)
    }
}

/// A file that grows, and how far it was read.
pub(super) struct Tail {
    pub(super) worker: String,
    path: PathBuf,
    at: u64,
    rest: Vec<u8>,
}

impl Tail {
    pub(super) fn new(worker: &str, path: PathBuf) -> Self {
        Tail {
            worker: worker.to_owned(),
            path,
            at: 0,
            rest: Vec::new(),
        }
    }

    fn read(&mut self, seen: Instant) -> Vec<Delivery> {
        let Ok(mut file) = File::open(&self.path) else {
            return Vec::new();
        };
        file.seek(SeekFrom::Start(self.at)).expect("a plain file");
        self.at += file.read_to_end(&mut self.rest).expect("a plain file") as u64;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        whole
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
            .map(|line| Delivery {
                worker: self.worker.clone(),
                shard: text(&line["shard"]),
                sequence: text(&line["sequence"]),
                sub_sequence: line["sub_sequence"].as_u64().unwrap_or_default(),
                data: text(&line["data"]),
                seen,
            })
            .collect()
    }
}

impl World {
    /// Reads what the workers write, for this long.
    pub fn watch(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let seen = Instant::now();
            for tail in &mut self.tails {
                self.deliveries.extend(tail.read(seen));
            }
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The numbers of records that were put and not delivered.
    pub fn missing(&self) -> Vec<u64> {
        let delivered: BTreeSet<u64> = self
            .deliveries
            .iter()
            .filter_map(|delivery| delivery.data.parse().ok())
            .collect();
        let made = self.put().len() as u64;
        (0..made)
            .filter(|number| !delivered.contains(number))
            .collect()
    }

    /// The longest time between a put after `from` and its first delivery.
    pub fn longest_wait(&self, from: Instant) -> Duration {
        self.longest_wait_between(from, from + Duration::from_secs(86_400))
    }

    /// The longest time between a put in this span and its first delivery.
    pub fn longest_wait_between(&self, from: Instant, to: Instant) -> Duration {
        let put = self.put();
        let mut first: BTreeMap<usize, Instant> = BTreeMap::new();
        for delivery in &self.deliveries {
            if let Ok(number) = delivery.data.parse() {
                first.entry(number).or_insert(delivery.seen);
            }
        }
        first
            .iter()
            .filter(|(number, _)| (from..to).contains(&put[**number].at))
            .map(|(number, seen)| seen.saturating_duration_since(put[*number].at))
            .max()
            .unwrap_or_default()
    }

    /// Per shard, first deliveries rise – over all workers, in the order in which they were seen.
    pub fn assert_order(&self) {
        let disorder = self.disorder();
        assert!(disorder.is_empty(), "{disorder:#?}");
    }

    /// First deliveries that come after a later record of their shard was delivered.
    ///
    /// Files of different workers are read one after the other, so within one look nothing is known about their order:
    /// what was seen together is judged in the order of the shard.
    pub fn disorder(&self) -> Vec<String> {
        let mut looks: Vec<&Delivery> = self.deliveries.iter().collect();
        looks.sort_by_key(|delivery| (delivery.seen, delivery.place()));
        let mut last: BTreeMap<&str, (usize, &str, u64)> = BTreeMap::new();
        let mut known = BTreeSet::new();
        let mut wrong = Vec::new();
        for delivery in looks {
            let place = delivery.place();
            if !known.insert((delivery.shard.as_str(), place)) {
                continue;
            }
            match last.get(delivery.shard.as_str()) {
                Some(before) if *before > place => {
                    wrong.push(format!("{}: {place:?} after {before:?}", delivery.shard));
                }
                _ => {
                    last.insert(&delivery.shard, place);
                }
            }
        }
        wrong
    }

    /// The same record, handed over more than once: how often over all.
    pub fn repeats(&self) -> usize {
        let mut known = BTreeSet::new();
        self.deliveries
            .iter()
            .filter(|delivery| {
                !known.insert((&delivery.shard, &delivery.sequence, delivery.sub_sequence))
            })
            .count()
    }
}
