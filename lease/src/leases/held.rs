//! Rule: held rows – when they are written, what an answer means for them, how a hold ends.
//!
//! What the holder of one row writes, and what an answer says, is the rule of [`crate::renew`]; here follows what that
//! means for the worker. A hold ends as intended (released, handed over, finished), or it is lost: to somebody else, to
//! time, or with its row. Either way whoever waits for a checkpoint is answered, and the table is looked at soon.

use checkpoint::Position;

use super::{Action, Fatal, Halt, Handled, Leases, Loss, News, Now, hand_over::patience_ends};
use crate::{
    id::LeaseKey,
    lease::Lease,
    renew::{Held, Next, Outcome, Tenure},
    table::TableError,
};

impl Leases {
    /// Beliefs that have run out, and patience with heirs and slow consumers.
    pub(super) fn expire(&mut self, now: Now) {
        for key in self.held.due(Held::valid_until, now.mono) {
            self.lose(&key, Loss::Expired, now);
        }
        let timing = self.settings.timing;
        let patience = |held: &Held| patience_ends(held, timing);
        for key in self.held.due(patience, now.mono) {
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

    /// The writes of held rows that are due.
    pub(super) fn write_held<H: Into<Handled>>(
        &mut self,
        handled: &impl Fn(&LeaseKey, Tenure) -> H,
        now: Now,
    ) {
        for key in self.held.due(Held::due, now.mono) {
            let held = self.held.get_mut(&key).expect("its key was just listed");
            let Handled { watermark, bytes } = handled(&key, held.tenure).into();
            held.handled(bytes);
            let next = held.next(watermark.as_ref(), now.mono);
            let stored = held.lease.checkpoint.clone();
            match next {
                Some(Next::Write(write)) => self.send(write, None, now),
                Some(Next::Read) => {
                    self.reads.insert(key.clone(), (held.tenure, now.mono));
                    self.out.push(Action::Read(key));
                }
                None => {
                    self.stored(&key, &stored);
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
        let Some((tenure, asked)) = self.reads.remove(key) else {
            return;
        };
        let Some(held) = self.held.get_mut(key).filter(|held| held.tenure == tenure) else {
            return;
        };
        match &result {
            Ok(Some(row)) => self.sight.wrote(row, asked, now.mono),
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
            Outcome::Released(row) => {
                self.let_go(key, &before, &row, News::Released(key.clone()), now);
            }
            Outcome::HandedOver(row) => {
                let to = row
                    .owner
                    .clone()
                    .expect("a row that was handed over has an owner");
                self.let_go(
                    key,
                    &before,
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
                self.let_go(key, &before, &row, News::Finished(key.clone()), now);
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
        self.tell_stored(key, &before, &stored);
        // A caller whose position was not stored yet wants the next write at once.
        if self.stored(key, &stored)
            && let Some(held) = self.held.get_mut(key)
        {
            held.hurry();
        }
    }

    fn tell_stored(&mut self, key: &LeaseKey, before: &Position, stored: &Position) {
        if stored != before {
            let news = News::Stored(key.clone(), stored.clone());
            self.out.push(Action::Tell(news));
        }
    }

    /// A hold that ended as intended.
    fn let_go(&mut self, key: &LeaseKey, before: &Position, row: &Lease, news: News, now: Now) {
        self.stored(key, &row.checkpoint);
        self.callers.lost(key, &mut self.out);
        self.held.remove(key);
        self.tell_stored(key, before, &row.checkpoint);
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
        self.callers.lost(key, &mut self.out);
        self.out.push(Action::Tell(News::Lost {
            key: key.clone(),
            why,
        }));
        self.lists.hurry(now.mono);
        self.replan = true;
    }
}
