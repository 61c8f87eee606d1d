//! Word: the rows this worker holds, and which of them have something to do by a given time.
//!
//! Most turns of the machine concern one row of a thousand. So the rows are also kept in the order of their next
//! deadline; whoever gets a row to change it has it sorted in anew before the order is asked for again.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Index,
};

use super::hand_over::patience_ends;
use crate::{id::LeaseKey, renew::Held, time::Time, timing::Timing};

/// Held rows by key.
#[derive(Debug)]
pub(super) struct Holdings {
    rows: BTreeMap<LeaseKey, Held>,
    timing: Timing,
    /// Every row that is not in `touched`, by its deadline.
    order: BTreeSet<(Time, LeaseKey)>,
    /// The deadline under which a row stands in `order`.
    sorted: BTreeMap<LeaseKey, Time>,
    /// Rows that may have another deadline by now.
    touched: BTreeSet<LeaseKey>,
}

impl Holdings {
    pub(super) fn new(timing: Timing) -> Self {
        Holdings {
            rows: BTreeMap::new(),
            timing,
            order: BTreeSet::new(),
            sorted: BTreeMap::new(),
            touched: BTreeSet::new(),
        }
    }

    pub(super) fn get(&self, key: &LeaseKey) -> Option<&Held> {
        self.rows.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &LeaseKey) -> Option<&mut Held> {
        if self.rows.contains_key(key) {
            self.touch(key);
        }
        self.rows.get_mut(key)
    }

    pub(super) fn insert(&mut self, key: LeaseKey, held: Held) {
        self.touch(&key);
        self.rows.insert(key, held);
    }

    pub(super) fn remove(&mut self, key: &LeaseKey) -> Option<Held> {
        self.touch(key);
        self.rows.remove(key)
    }

    pub(super) fn contains_key(&self, key: &LeaseKey) -> bool {
        self.rows.contains_key(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &LeaseKey> {
        self.rows.keys()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Held> {
        self.rows.values()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&LeaseKey, &Held)> {
        self.rows.iter()
    }

    /// The keys of the rows for which `deadline` – one of those that make up [`wake`] – has passed; in their order.
    pub(super) fn due(&mut self, deadline: impl Fn(&Held) -> Time, now: Time) -> Vec<LeaseKey> {
        self.sort();
        let passed = self.order.iter().take_while(|(wake, _)| *wake <= now);
        let mut keys: Vec<LeaseKey> = passed
            .filter(|(_, key)| deadline(&self.rows[key]) <= now)
            .map(|(_, key)| key.clone())
            .collect();
        keys.sort_unstable();
        keys
    }

    /// When the next row has something to do.
    pub(super) fn next_due(&self) -> Time {
        let sorted = self.order.first().map(|(wake, _)| *wake);
        let touched = self.touched.iter().filter_map(|key| self.rows.get(key));
        touched
            .map(|held| wake(held, self.timing))
            .chain(sorted)
            .min()
            .unwrap_or(Time::NEVER)
    }

    fn touch(&mut self, key: &LeaseKey) {
        if !self.touched.contains(key) {
            self.touched.insert(key.clone());
            if let Some(wake) = self.sorted.remove(key) {
                self.order.remove(&(wake, key.clone()));
            }
        }
    }

    fn sort(&mut self) {
        while let Some(key) = self.touched.pop_first() {
            if let Some(held) = self.rows.get(&key) {
                let wake = wake(held, self.timing);
                self.order.insert((wake, key.clone()));
                self.sorted.insert(key, wake);
            }
        }
    }
}

/// When a row has something to do at the latest, of whatever kind.
fn wake(held: &Held, timing: Timing) -> Time {
    held.due()
        .min(held.valid_until())
        .min(patience_ends(held, timing))
}

impl Index<&LeaseKey> for Holdings {
    type Output = Held;

    fn index(&self, key: &LeaseKey) -> &Held {
        &self.rows[key]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use checkpoint::Position;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        lease::Lease,
        renew::{Phase, Stage},
    };

    fn timing() -> Timing {
        Timing::new(Duration::from_secs(10), Duration::from_secs(5))
    }

    fn at(seconds: u64) -> Time {
        Time::new(Duration::from_secs(100 + seconds))
    }

    fn held(key: u8, sent: u64) -> Held {
        let shard = format!("shard-{key}");
        let mut row = Lease::new(None, shard.as_str().into(), Position::TrimHorizon);
        row.owner = Some("me".into());
        row.counter = 7;
        Held::new(row, "session".into(), at(sent), false, timing())
    }

    fn change(held: &mut Held, how: u8, now: Time) {
        match how {
            0 => held.hurry(),
            1 => {
                // An answer that never comes leaves the write under way.
                let _ = held.next(None, now);
            }
            _ => {
                held.phase = Phase::Leaving {
                    since: now,
                    stage: Stage::Draining,
                };
            }
        }
    }

    proptest! {
        /// Whatever happened to the rows, the order says what a look at every one of them says.
        #[test]
        fn says_what_a_look_at_every_row_says(
            turns in prop::collection::vec((0u8..4, 0u8..6, 0u8..4), 1..60),
        ) {
            let mut holdings = Holdings::new(timing());
            for (second, (key, what, how)) in (0u64..).zip(turns) {
                let now = at(second);
                let row = held(key, second);
                let name = row.lease.key.clone();
                match what {
                    0 => holdings.insert(name, row),
                    1 => { holdings.remove(&name); }
                    _ => if let Some(held) = holdings.get_mut(&name) { change(held, how, now) },
                }
                let all = holdings.values().map(|held| wake(held, timing())).min();
                prop_assert_eq!(holdings.next_due(), all.unwrap_or(Time::NEVER));
                if how == 3 {
                    continue; // Several changes in a row.
                }
                for deadline in [Held::due, Held::valid_until, |held: &Held| patience_ends(held, timing())] {
                    let looked: Vec<LeaseKey> = holdings
                        .iter()
                        .filter(|(_, held)| deadline(held) <= now)
                        .map(|(key, _)| key.clone())
                        .collect();
                    prop_assert_eq!(holdings.due(deadline, now), looked);
                }
            }
        }
    }
}
