//! Rule: held rows on their way out, to an heir or to nobody – and how long anybody is waited for.
//!
//! ```text
//!  row names an heir ─▶ Waiting ─▶ heir answers ─▶ Draining ─▶ consumer gone ─▶ Drained ─▶ last write
//!                          │ no answer                │ too slow
//!                          ▼                          ▼
//!                  taken back, reading goes on       Cut ─▶ still there: the hold is given up, the row expires
//! ```
//! Reading goes on until the heir has answered, so no shard stands still for one that is dead. A Java worker never
//! answers and is not waited for. Who leaves takes nothing back: what no heir wants goes to nobody.

use super::{Action, Halt, Leases, Loss, News, Now};
use crate::{
    id::LeaseKey,
    renew::{Held, Phase, Stage},
    time::Time,
    timing::Timing,
};

/// When something must happen to a lease on its way out.
pub(super) fn patience_ends(held: &Held, timing: Timing) -> Time {
    match held.phase {
        Phase::HandOver { .. } if held.writing() => Time::NEVER,
        Phase::HandOver {
            since,
            stage: Stage::Offered | Stage::Waiting,
            ..
        } => since + timing.heir_patience(),
        Phase::HandOver {
            since,
            stage: Stage::Draining | Stage::Cut,
            ..
        }
        | Phase::Leaving {
            since,
            stage: Stage::Draining | Stage::Cut,
        } => since + timing.drain_patience(),
        _ => Time::NEVER,
    }
}

impl Leases {
    /// What was waited for did not come in time.
    pub(super) fn lose_patience(&mut self, key: &LeaseKey, now: Now) {
        let leaving = self.leaving;
        let Some(held) = self.held.get_mut(key) else {
            return;
        };
        match held.phase.clone() {
            Phase::HandOver {
                to,
                stage: Stage::Offered | Stage::Waiting,
                ..
            } if leaving => {
                // Nobody answers: the row goes to nobody, so that whoever lives can take it.
                held.phase = Phase::Leaving {
                    since: now.mono,
                    stage: Stage::Draining,
                };
                self.out
                    .push(Action::Tell(News::HeirSilent(key.clone(), to)));
                self.halt(key, Halt::Drain);
            }
            Phase::HandOver {
                to,
                stage: Stage::Waiting,
                ..
            } => {
                held.phase = Phase::HandOver {
                    to: to.clone(),
                    since: now.mono,
                    stage: Stage::Waiting,
                };
                if let Some(write) = held.revert(now.mono) {
                    self.out
                        .push(Action::Tell(News::HeirSilent(key.clone(), to)));
                    self.send(write, None, now);
                }
            }
            // A handler that does not even let itself be cut off (it blocks its thread) keeps no shard for ever: the row
            // is renewed no more, and others take it after the failover time.
            Phase::HandOver {
                stage: Stage::Cut, ..
            }
            | Phase::Leaving {
                stage: Stage::Cut, ..
            } => self.lose(key, Loss::Stuck, now),
            Phase::HandOver { to, .. } => {
                held.phase = Phase::HandOver {
                    to,
                    since: now.mono,
                    stage: Stage::Cut,
                };
                self.halt(key, Halt::Cancel);
            }
            Phase::Leaving { .. } => {
                held.phase = Phase::Leaving {
                    since: now.mono,
                    stage: Stage::Cut,
                };
                self.halt(key, Halt::Cancel);
            }
            Phase::Blocked | Phase::Running | Phase::Ended { .. } => {}
        }
    }

    /// An heir is named. One that never answers (a Java worker) is not waited for.
    pub(super) fn hand_over_begun(&mut self, key: &LeaseKey) {
        let Some(Phase::HandOver { to, stage, .. }) =
            self.held.get(key).map(|held| held.phase.clone())
        else {
            return;
        };
        if stage == Stage::Drained {
            self.held.get_mut(key).expect("looked at above").hurry();
        } else if stage == Stage::Waiting && self.sight.workers.is_java(&to) {
            self.drain_for_heir(key);
        }
    }

    /// Heirs that have answered: reading stops, the row follows.
    pub(super) fn drain_for_ready_heirs(&mut self) {
        let ready = self.keys_of_held(|held| {
            held.lease.heir_ready
                && matches!(
                    held.phase,
                    Phase::HandOver {
                        stage: Stage::Waiting,
                        ..
                    }
                )
        });
        for key in ready {
            self.drain_for_heir(&key);
        }
    }

    fn drain_for_heir(&mut self, key: &LeaseKey) {
        let Some(held) = self.held.get_mut(key) else {
            return;
        };
        if let Phase::HandOver { stage, .. } = &mut held.phase {
            *stage = Stage::Draining;
            self.halt(key, Halt::Drain);
        }
    }
}
