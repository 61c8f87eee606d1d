//! Leaving: every lease goes to an heir that is awake, with its last position; then the worker's own row goes.
//!
//! Reading goes on until the heir has answered, so no shard stands still while peers run. Without peers, or when none
//! answers, leases go back to nobody. Rows that are seized by a write that was under way go back at once.

use super::{Action, Halt, Leases, Now, writes::Purpose};
use crate::{
    assign::{self, Role},
    id::LeaseKey,
    renew::{Held, Phase, Stage},
    write::Write,
};

impl Leases {
    pub(super) fn leave(&mut self, now: Now) {
        if self.leaving {
            return;
        }
        // Heirs are chosen before this worker stops counting itself among the living.
        let running: Vec<LeaseKey> = self
            .held
            .iter()
            .filter(|(_, held)| held.phase == Phase::Running)
            .map(|(key, _)| key.clone())
            .collect();
        let heirs = assign::heirs(&self.scene(Role::Follower, now), running.clone());
        self.leaving = true;
        self.own_row.next = now.mono;
        self.writes.clear_queue();
        self.entitled.clear();
        self.lists.hurry(now.mono);
        for (key, to) in &heirs {
            if let Some(held) = self.held.get_mut(key) {
                held.phase = Phase::HandOver {
                    to: to.clone(),
                    since: now.mono,
                    stage: Stage::Offered,
                };
            }
        }
        self.offer();
        let inherited = |key: &LeaseKey| heirs.iter().any(|(row, _)| row == key);
        let others: Vec<LeaseKey> = self
            .held
            .iter()
            .filter(|(key, held)| {
                matches!(held.phase, Phase::Running | Phase::Blocked) && !inherited(key)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in others {
            self.let_nobody(&key, now);
        }
    }

    /// Writes hand-overs that the rows do not show yet; again, where a write failed or another was under way.
    pub(super) fn offer(&mut self) {
        let offered: Vec<Write> = self
            .held
            .iter()
            .filter_map(|(key, held)| match &held.phase {
                Phase::HandOver {
                    to,
                    stage: Stage::Offered,
                    ..
                } if !self.avoid.contains_key(key) => Some(Write::HandOff {
                    key: key.clone(),
                    from: self.settings.me.clone(),
                    to: to.clone(),
                }),
                _ => None,
            })
            .collect();
        for write in offered {
            self.enqueue(write, Purpose::Fleet);
        }
    }

    /// Gives a lease back to nobody, after the batch in hand.
    pub(super) fn let_nobody(&mut self, key: &LeaseKey, now: Now) {
        let Some(held) = self.held.get_mut(key) else {
            return;
        };
        held.phase = Phase::Leaving {
            since: now.mono,
            stage: Stage::Draining,
        };
        self.halt(key, Halt::Drain);
    }

    /// Nothing waits any longer: neither for heirs nor for consumers.
    pub(super) fn cut_short(&mut self, now: Now) {
        let keys: Vec<LeaseKey> = self.held.keys().cloned().collect();
        for key in keys {
            let Some(held) = self.held.get_mut(&key) else {
                continue;
            };
            match &mut held.phase {
                Phase::HandOver { stage, .. } | Phase::Leaving { stage, .. } => {
                    if *stage == Stage::Waiting {
                        *stage = Stage::Draining;
                    }
                }
                Phase::Running | Phase::Blocked => {
                    held.phase = Phase::Leaving {
                        since: now.mono,
                        stage: Stage::Draining,
                    };
                }
                Phase::Ended { .. } => continue,
            }
            self.halt(&key, Halt::Cancel);
        }
    }

    /// Whether everything is handed over by now.
    pub(super) fn advance_leaving(&mut self, now: Now) {
        if !self.leaving || self.gone {
            return;
        }
        // A hand-over that was taken back late, or a row that was seized late.
        let idle = |held: &Held| matches!(held.phase, Phase::Running | Phase::Blocked);
        for key in self.keys_of_held(idle) {
            self.let_nobody(&key, now);
        }
        let done = self.held.is_empty()
            && self.winding_down.is_empty()
            && self.writes.is_empty()
            && !self.leader.writing()
            && !self.leader.holds(now.mono);
        if done {
            self.gone = true;
            self.out.push(Action::RemoveWorker {
                id: self.settings.me.clone(),
                updated: None,
            });
            self.out.push(Action::Gone);
        }
    }
}
