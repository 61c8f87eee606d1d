//! Held rows: their writes, their answers, and the consumers behind them.

use checkpoint::Position;

use super::{Action, Caller, Fatal, Halt, Leases, Loss, News, Now, writes::Purpose};
use crate::{
    id::LeaseKey,
    lease::Lease,
    renew::{Held, Next, Outcome, Phase, Stage, Tenure},
    shard::Shard,
    sync::{self, Start},
    table::TableError,
    time::Time,
};

impl Leases {
    /// Beliefs that have run out, and patience with heirs and slow consumers.
    pub(super) fn expire(&mut self, now: Now) {
        let over = |held: &Held| now.mono >= held.valid_until();
        for key in self.keys_of_held(over) {
            self.lose(&key, Loss::Expired, now);
        }
        let impatient = self.keys_of_held(|held| now.mono >= self.patience_ends(held));
        for key in impatient {
            self.lose_patience(&key, now);
        }
    }

    pub(super) fn keys_of_held(&self, which: impl Fn(&Held) -> bool) -> Vec<LeaseKey> {
        self.held
            .iter()
            .filter(|(_, held)| which(held))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// When something must happen to a lease on its way out.
    pub(super) fn patience_ends(&self, held: &Held) -> Time {
        let timing = self.settings.timing;
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

    fn lose_patience(&mut self, key: &LeaseKey, now: Now) {
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

    /// The writes of held rows that are due.
    pub(super) fn write_held(
        &mut self,
        watermark: &impl Fn(&LeaseKey, Tenure) -> Option<Position>,
        now: Now,
    ) {
        let due = self.keys_of_held(|held| now.mono >= held.due());
        for key in due {
            let held = self.held.get_mut(&key).expect("its key was just listed");
            let settled = watermark(&key, held.tenure);
            let next = held.next(settled.as_ref(), now.mono);
            let stored = held.lease.checkpoint.clone();
            match next {
                Some(Next::Write(write)) => self.send(write, None, now),
                Some(Next::Read) => {
                    self.reads.insert(key.clone(), held.tenure);
                    self.out.push(Action::Read(key));
                }
                None => {
                    self.answer_callers(&key, &stored);
                }
            }
        }
    }

    pub(super) fn held_answered(
        &mut self,
        key: &LeaseKey,
        result: Result<Option<Lease>, TableError>,
        now: Now,
    ) {
        let Some(held) = self.held.get_mut(key) else {
            return;
        };
        let before = held.lease.checkpoint.clone();
        let outcome = held.answered(result, now.mono);
        self.turned_out(key, before, outcome, now);
    }

    pub(super) fn read(
        &mut self,
        key: &LeaseKey,
        result: Result<Option<Lease>, TableError>,
        now: Now,
    ) {
        let asked = self.reads.remove(key);
        let Some(held) = self
            .held
            .get_mut(key)
            .filter(|held| Some(held.tenure) == asked)
        else {
            return;
        };
        match &result {
            Ok(Some(row)) => self.sight.wrote(row, held.renewed(), now.mono),
            Ok(None) => self.sight.deleted(key, now.mono),
            Err(_) => {}
        }
        let before = held.lease.checkpoint.clone();
        let outcome = held.read(result, now.mono);
        self.turned_out(key, before, outcome, now);
    }

    pub(super) fn turned_out(
        &mut self,
        key: &LeaseKey,
        before: Position,
        outcome: Outcome,
        now: Now,
    ) {
        match outcome {
            Outcome::Open => {}
            Outcome::Held => self.still_held(key, before),
            Outcome::HandOver => {
                self.still_held(key, before);
                self.hand_over_begun(key);
                // Where one row is handed over, others may be too.
                self.lists.hurry(now.mono);
            }
            Outcome::Lost(row) => self.lost_to(key, row, now),
            Outcome::Released(row) => self.let_go(key, &row, News::Released(key.clone()), now),
            Outcome::HandedOver(row) => {
                let to = row
                    .owner
                    .clone()
                    .expect("a row that was handed over has an owner");
                self.let_go(
                    key,
                    &row,
                    News::HandedOver {
                        key: key.clone(),
                        to,
                    },
                    now,
                );
            }
            Outcome::Finished(row) => {
                if !self.leaving {
                    let until = now.mono + self.settings.timing.heir_patience();
                    let key = |child| LeaseKey::of(row.stream.as_ref(), child);
                    let children = row.children.iter().map(|child| (key(child), until));
                    self.entitled.extend(children);
                }
                self.let_go(key, &row, News::Finished(key.clone()), now);
            }
        }
    }

    fn still_held(&mut self, key: &LeaseKey, before: Position) {
        let held = &self.held[key];
        let stored = held.lease.checkpoint.clone();
        let until = held.valid_until();
        self.out.push(Action::Believe {
            key: key.clone(),
            until,
        });
        if stored != before {
            self.out
                .push(Action::Tell(News::Stored(key.clone(), stored.clone())));
        }
        // A caller whose position was not stored yet wants the next write at once.
        if self.answer_callers(key, &stored)
            && let Some(held) = self.held.get_mut(key)
        {
            held.hurry();
        }
    }

    /// A hold that ended as intended.
    fn let_go(&mut self, key: &LeaseKey, row: &Lease, news: News, now: Now) {
        self.answer_callers(key, &row.checkpoint);
        self.fail_callers(key);
        self.held.remove(key);
        self.out.push(Action::Tell(News::Stored(
            key.clone(),
            row.checkpoint.clone(),
        )));
        self.out.push(Action::Tell(news));
        self.lists.hurry(now.mono);
        self.replan = true;
    }

    pub(super) fn lost_to(&mut self, key: &LeaseKey, row: Option<Box<Lease>>, now: Now) {
        let Some(row) = row else {
            return self.lose(key, Loss::Deleted, now);
        };
        let me = &self.settings.me;
        let other_run = row
            .session
            .as_ref()
            .is_some_and(|session| *session != self.settings.session);
        // Once the belief is over, anybody may have had the row in between and given it back.
        let believed = self
            .held
            .get(key)
            .is_some_and(|held| now.mono < held.valid_until());
        if row.reader() == Some(me) && other_run && believed {
            self.out
                .push(Action::Fatal(Fatal::DuplicateWorker(me.clone())));
        }
        self.lose(key, Loss::To(row.owner.clone()), now);
    }

    /// A hold that ended otherwise than intended.
    pub(super) fn lose(&mut self, key: &LeaseKey, why: Loss, now: Now) {
        let Some(held) = self.held.remove(key) else {
            return;
        };
        self.wind_down(key, &held, Halt::Lost);
        self.fail_callers(key);
        self.out.push(Action::Tell(News::Lost {
            key: key.clone(),
            why,
        }));
        self.lists.hurry(now.mono);
        self.replan = true;
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

    /// Tells the consumer to stop; without one the row is ready at once.
    pub(super) fn halt(&mut self, key: &LeaseKey, halt: Halt) {
        let Some(held) = self.held.get_mut(key) else {
            return;
        };
        if self.winding_down.get(key) == Some(&held.tenure) || held.started {
            self.winding_down.insert(key.clone(), held.tenure);
            self.out.push(Action::Stop {
                key: key.clone(),
                halt,
            });
        } else {
            Self::drained(held);
        }
    }

    fn drained(held: &mut Held) {
        if let Phase::HandOver { stage, .. } | Phase::Leaving { stage, .. } = &mut held.phase {
            *stage = Stage::Drained;
        }
    }

    /// The consumer of a row that is no longer held goes too.
    pub(super) fn wind_down(&mut self, key: &LeaseKey, held: &Held, halt: Halt) {
        if held.started {
            self.winding_down.insert(key.clone(), held.tenure);
            self.out.push(Action::Stop {
                key: key.clone(),
                halt,
            });
        }
    }

    /// A row that was seized by a write sent at `sent`.
    pub(super) fn seized(&mut self, row: Lease, sent: Time, how: &'static str, now: Now) {
        let key = row.key.clone();
        self.entitled.remove(&key);
        if row.ended() || now.mono >= self.settings.timing.valid_until(sent) {
            return;
        }
        self.out.push(Action::Tell(News::Took {
            key: key.clone(),
            how,
            from: None,
        }));
        let held = Held::new(
            row,
            self.settings.session.clone(),
            sent,
            true,
            self.settings.timing,
        );
        self.held.insert(key.clone(), held);
        if self.leaving {
            self.let_nobody(&key, now);
        } else {
            self.start_if_possible(&key);
        }
    }

    /// Starts the consumers of rows whose parents are done by now.
    pub(super) fn start_blocked(&mut self) {
        for key in self.keys_of_held(|held| held.phase == Phase::Blocked) {
            self.start_if_possible(&key);
        }
    }

    fn start_if_possible(&mut self, key: &LeaseKey) {
        let Some(held) = self.held.get(key) else {
            return;
        };
        if self.winding_down.contains_key(key) || !self.startable(&held.lease) {
            return;
        }
        let no_timestamp =
            held.lease.checkpoint == Position::AtTimestamp && held.lease.pinned.is_none();
        let range = self.listed_range(&held.lease);
        let held = self.held.get_mut(key).expect("looked at above");
        held.phase = Phase::Running;
        held.started = true;
        let mut lease = Box::new(held.lease.clone());
        // Rows of old KCL versions lack it, and without it user records of a sibling would be handed over (hazard H36).
        lease.range = lease.range.or(range);
        self.out.push(Action::Start {
            lease,
            tenure: held.tenure,
            valid_until: held.valid_until(),
        });
        if no_timestamp {
            self.out.push(Action::Tell(News::NoTimestamp(key.clone())));
        }
    }

    /// Where a row without a pin is pinned when it is seized.
    pub(super) fn pin(&self, lease: &Lease, now: Now) -> Option<i64> {
        if lease.pinned.is_some() {
            return None;
        }
        match lease.checkpoint {
            Position::Latest => Some(now.wall),
            Position::AtTimestamp => {
                match self.stream_of(lease).map(|n| self.streams[n].spec.start) {
                    Some(Start::AtTimestamp(at)) => Some(at),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    pub(super) fn checkpoint(
        &mut self,
        key: LeaseKey,
        tenure: Tenure,
        position: Position,
        caller: Caller,
    ) {
        match self.held.get_mut(&key).filter(|held| held.tenure == tenure) {
            Some(held) if held.lease.checkpoint < position => {
                held.hurry();
                self.callers.push((key, position, caller));
            }
            Some(_) => self.out.push(Action::Answer {
                caller,
                stored: true,
            }),
            None => self.out.push(Action::Answer {
                caller,
                stored: false,
            }),
        }
    }

    /// Answers the callers of a row whose position is stored by now. Returns whether others still wait.
    pub(super) fn answer_callers(&mut self, key: &LeaseKey, stored: &Position) -> bool {
        let out = &mut self.out;
        let mut open = false;
        self.callers.retain(|(row, position, caller)| {
            let done = row == key && position <= stored;
            open |= row == key && !done;
            if done {
                out.push(Action::Answer {
                    caller: *caller,
                    stored: true,
                });
            }
            !done
        });
        open
    }

    /// The row is no longer held: whoever still waits is told that the position is not stored.
    pub(super) fn fail_callers(&mut self, key: &LeaseKey) {
        let out = &mut self.out;
        self.callers.retain(|(row, _, caller)| {
            if row == key {
                out.push(Action::Answer {
                    caller: *caller,
                    stored: false,
                });
            }
            row != key
        });
    }

    pub(super) fn shard_ended(
        &mut self,
        key: &LeaseKey,
        tenure: Tenure,
        children: Vec<Shard>,
        now: Now,
    ) {
        self.winding_down.remove(key);
        self.replan = true;
        let Some(held) = self.held.get_mut(key).filter(|held| held.tenure == tenure) else {
            return;
        };
        held.started = false;
        let rows: Vec<Lease> = children
            .iter()
            .map(|child| sync::child(&held.lease, child, now.wall))
            .collect();
        held.phase = Phase::Ended {
            todo: rows.clone(),
            children: children.into_iter().map(|child| child.id).collect(),
        };
        for row in rows {
            if self.sight.row(&row.key).is_some() {
                self.child_made(key, &row.key, now);
            } else {
                self.enqueue(
                    crate::write::Write::Create(Box::new(row)),
                    Purpose::ChildOf(key.clone()),
                );
            }
        }
    }

    /// A child's row is there.
    pub(super) fn child_made(&mut self, parent: &LeaseKey, child: &LeaseKey, _: Now) {
        if let Some(held) = self.held.get_mut(parent)
            && let Phase::Ended { todo, .. } = &mut held.phase
        {
            todo.retain(|row| row.key != *child);
        }
    }

    /// Rows of children that are still missing are asked for again.
    pub(super) fn ask_for_children(&mut self) {
        let mut missing = Vec::new();
        for (key, held) in &self.held {
            if let Phase::Ended { todo, .. } = &held.phase {
                missing.extend(todo.iter().map(|row| (key.clone(), row.clone())));
            }
        }
        for (parent, row) in missing {
            self.enqueue(
                crate::write::Write::Create(Box::new(row)),
                Purpose::ChildOf(parent),
            );
        }
    }

    pub(super) fn stopped(&mut self, key: &LeaseKey, tenure: Tenure, now: Now) {
        if self.winding_down.get(key) == Some(&tenure) {
            self.winding_down.remove(key);
        }
        self.replan = true;
        let Some(held) = self.held.get_mut(key).filter(|held| held.tenure == tenure) else {
            return;
        };
        held.started = false;
        match &held.phase {
            Phase::HandOver { .. } | Phase::Leaving { .. } => Self::drained(held),
            // A consumer that ends by itself: the lease goes back, so that somebody reads the shard.
            Phase::Running => {
                self.avoid
                    .insert(key.clone(), now.mono + self.settings.timing.avoid_for());
                held.phase = Phase::Leaving {
                    since: now.mono,
                    stage: Stage::Drained,
                };
            }
            Phase::Blocked | Phase::Ended { .. } => {}
        }
    }

    pub(super) fn stuck(&mut self, key: &LeaseKey, tenure: Tenure, now: Now) {
        let Some(held) = self.held.get_mut(key).filter(|held| held.tenure == tenure) else {
            return;
        };
        self.avoid
            .insert(key.clone(), now.mono + self.settings.timing.avoid_for());
        if matches!(held.phase, Phase::Running) {
            held.phase = Phase::Leaving {
                since: now.mono,
                stage: Stage::Cut,
            };
        }
        self.out.push(Action::Tell(News::Stuck(key.clone())));
        self.halt(key, Halt::Cancel);
    }
}
