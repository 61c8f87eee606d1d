//! Rule: what was put, what was delivered, and whether that is as promised.
//!
//! Order is judged by first deliveries: per shard they must rise, and no child may begin before its parents are
//! through. The workers write to files of their own, which are read one after the other; what is read is therefore held
//! back for one look, so that a line that was written first is never judged last.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

use checkpoint::Position;
use serde::Deserialize;

use super::{DemoError, io};

/// A file that grows.
pub(super) struct Tail {
    worker: &'static str,
    path: PathBuf,
    read: u64,
    rest: Vec<u8>,
}

impl Tail {
    pub(super) fn new(worker: &'static str, path: PathBuf) -> Self {
        Tail {
            worker,
            path,
            read: 0,
            rest: Vec::new(),
        }
    }

    /// The lines that have come since the last look. What is no JSON was torn off by a kill.
    fn lines(&mut self) -> std::io::Result<Vec<Delivery>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.read))?;
        self.read += file.read_to_end(&mut self.rest)? as u64;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(Vec::new());
        };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        Ok(whole
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<Line>(line).ok())
            .filter_map(|line| line.delivery(self.worker))
            .collect())
    }
}

#[derive(Deserialize)]
struct Line {
    shard: String,
    sequence: String,
    sub_sequence: u64,
    data: String,
}

impl Line {
    fn delivery(self, worker: &'static str) -> Option<Delivery> {
        Some(Delivery {
            worker,
            shard: self.shard,
            position: Position::at(self.sequence.parse().ok()?, self.sub_sequence),
            number: self.data.parse().ok()?,
        })
    }
}

/// One record, as a worker wrote it.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) worker: &'static str,
    pub(super) shard: String,
    pub(super) position: Position,
    pub(super) number: u64,
}

/// What the demo has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// User records put.
    pub put: u64,
    /// Different user records delivered.
    pub delivered: u64,
    /// Put and not delivered.
    pub lost: u64,
    /// Delivered more than once.
    pub repeated: u64,
    /// Of those, first delivered by a worker that was killed: they lay behind its last checkpoint.
    pub repeated_after_kill: u64,
    /// First deliveries before which a later record of the same shard was delivered.
    pub out_of_order: u64,
    /// Shards that began before a parent was through.
    pub children_before_parents: u64,
    /// All as promised: nothing lost, order kept, and no repeats but those a kill explains.
    pub ok: bool,
}

/// Follows the deliveries.
#[derive(Default)]
pub(super) struct Witness {
    put: u64,
    /// The worker that delivered a record first.
    first: BTreeMap<u64, &'static str>,
    repeats: Vec<u64>,
    shards: BTreeMap<String, ShardLog>,
    held_back: Vec<Delivery>,
    out_of_order: u64,
    look: u64,
}

struct ShardLog {
    /// The last position that was delivered first.
    last: Position,
    /// The looks that showed its first and its last first delivery.
    began: u64,
    ended: u64,
}

impl Witness {
    /// These records were put.
    pub(super) fn put(&mut self, numbers: std::ops::Range<u64>) {
        self.put = self.put.max(numbers.end);
    }

    pub(super) fn records_put(&self) -> u64 {
        self.put
    }

    pub(super) fn delivered(&self) -> u64 {
        self.first.len() as u64
    }

    pub(super) fn repeated(&self) -> u64 {
        self.repeats.len() as u64
    }

    /// Everything that was put has been delivered.
    pub(super) fn all_there(&self) -> bool {
        self.delivered() >= self.put
    }

    /// Reads what the workers have written since the last look.
    pub(super) fn look(&mut self, files: &mut [Tail]) -> Result<(), DemoError> {
        let mut new = Vec::new();
        for file in files {
            let read = file.lines();
            new.extend(read.map_err(io(format!("cannot read {}", file.path.display())))?);
        }
        self.take(new);
        Ok(())
    }

    fn take(&mut self, new: Vec<Delivery>) {
        self.look += 1;
        let mut now = std::mem::take(&mut self.held_back);
        // Of the new lines, those that stand before something held back were written first.
        for delivery in new {
            let before = now
                .iter()
                .any(|held| held.shard == delivery.shard && held.position > delivery.position);
            if before {
                now.push(delivery);
            } else {
                self.held_back.push(delivery);
            }
        }
        now.sort_by(|a, b| (&a.shard, &a.position).cmp(&(&b.shard, &b.position)));
        for delivery in now {
            self.judge(delivery);
        }
    }

    fn judge(&mut self, delivery: Delivery) {
        if self.first.contains_key(&delivery.number) {
            self.repeats.push(delivery.number);
            return;
        }
        self.first.insert(delivery.number, delivery.worker);
        let look = self.look;
        match self.shards.get_mut(&delivery.shard) {
            None => {
                let log = ShardLog {
                    last: delivery.position,
                    began: look,
                    ended: look,
                };
                self.shards.insert(delivery.shard, log);
            }
            Some(log) if delivery.position > log.last => {
                log.last = delivery.position;
                log.ended = look;
            }
            Some(log) => {
                log.ended = look;
                self.out_of_order += 1;
            }
        }
    }

    /// Counts everything. `killed`: the workers whose repeats are explained.
    pub(super) fn proof(
        &mut self,
        parents: &BTreeMap<String, Vec<String>>,
        killed: &BTreeSet<&str>,
    ) -> Proof {
        self.take(Vec::new());
        let explained = self
            .repeats
            .iter()
            .filter(|number| {
                self.first
                    .get(number)
                    .is_some_and(|worker| killed.contains(worker))
            })
            .count() as u64;
        let too_early = parents
            .iter()
            .filter_map(|(child, parents)| Some((self.shards.get(child)?, parents)))
            .filter(|(child, parents)| {
                parents
                    .iter()
                    .filter_map(|parent| self.shards.get(parent))
                    .any(|parent| parent.ended > child.began)
            })
            .count() as u64;
        let lost = self.put - self.delivered().min(self.put);
        Proof {
            put: self.put,
            delivered: self.delivered(),
            lost,
            repeated: self.repeated(),
            repeated_after_kill: explained,
            out_of_order: self.out_of_order,
            children_before_parents: too_early,
            ok: lost == 0
                && self.out_of_order == 0
                && too_early == 0
                && explained == self.repeated()
                && self.delivered() == self.put,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(worker: &'static str, shard: &str, sequence: u128, number: u64) -> Delivery {
        Delivery {
            worker,
            shard: shard.to_owned(),
            position: Position::at(sequence.into(), 0),
            number,
        }
    }

    fn proof(looks: Vec<Vec<Delivery>>, put: u64) -> Proof {
        let mut witness = Witness::default();
        witness.put(0..put);
        for look in looks {
            witness.take(look);
        }
        let parents = BTreeMap::from([
            ("child".to_owned(), vec!["parent".to_owned()]),
            ("parent".to_owned(), vec![]),
        ]);
        witness.proof(&parents, &BTreeSet::from(["killed"]))
    }

    #[test]
    fn a_good_history_is_proven() {
        let looks = vec![
            vec![delivery("killed", "parent", 1, 0)],
            // Written by the heir before, read after the killed worker's file.
            vec![
                delivery("heir", "parent", 3, 2),
                delivery("heir", "parent", 2, 1),
            ],
            vec![delivery("heir", "parent", 1, 0)],
            vec![delivery("heir", "child", 1, 3)],
        ];
        let proof = proof(looks, 4);
        assert!(proof.ok, "{proof:?}");
        assert_eq!((proof.repeated, proof.repeated_after_kill), (1, 1));
    }

    #[test]
    fn every_kind_of_fault_is_seen() {
        let good = |number| delivery("heir", "parent", u128::from(number) + 1, number);
        let lost = proof(vec![vec![good(0)], vec![good(2)]], 3);
        assert_eq!((lost.lost, lost.ok), (1, false));

        let order = proof(vec![vec![good(1)], vec![], vec![], vec![good(0)]], 2);
        assert_eq!((order.out_of_order, order.ok), (1, false));

        let early = proof(
            vec![vec![delivery("heir", "child", 1, 1)], vec![], vec![good(0)]],
            2,
        );
        assert_eq!((early.children_before_parents, early.ok), (1, false));

        let repeat = proof(vec![vec![good(0)], vec![], vec![good(0)]], 1);
        assert_eq!(
            (repeat.repeated, repeat.repeated_after_kill, repeat.ok),
            (1, 0, false)
        );
    }
}
