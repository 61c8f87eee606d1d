//! Rule: when the table is looked at, how, and what a list means for what is held.
//!
//! The leader and its deputy look often, others now and then, whoever waits for news of its own several times a second.
//! A list is consistent where something does not fit, and where news is waited for. A large table takes time to read:
//! at most two thirds of the time are spent on it.

use std::time::Duration;

use super::{Action, Fatal, Leases, Loss, News, Now};
use crate::{
    assign::Role,
    id::LeaseKey,
    leader::Sighting,
    renew::{Outcome, Phase, Stage},
    table::{Consistency, TableError, View},
    time::Time,
    timing::Timing,
};

/// The lists of the table: the one under way, and when the next is due.
#[derive(Debug)]
pub(super) struct Lists {
    asked: Option<(Time, Consistency)>,
    next: Time,
    /// A failed list is not repeated at once, whatever is in a hurry.
    not_before: Time,
    last_took: Duration,
    failures: u32,
}

impl Lists {
    pub(super) fn new(now: Time) -> Self {
        Lists {
            asked: None,
            next: now,
            not_before: Time::ZERO,
            last_took: Duration::ZERO,
            failures: 0,
        }
    }

    /// When the next list is to be asked for.
    pub(super) fn due(&self) -> Time {
        if self.asked.is_some() {
            return Time::NEVER;
        }
        self.next.max(self.not_before)
    }

    /// Looks again as soon as possible.
    pub(super) fn hurry(&mut self, now: Time) {
        self.next = self.next.min(now);
    }

    /// What was asked for, now that there is an answer.
    fn answered(&mut self, now: Time) -> Option<(Time, Consistency)> {
        let asked = self.asked.take()?;
        self.last_took = now.since(asked.0);
        Some(asked)
    }

    fn failed(&mut self, timing: &Timing, now: Time) {
        self.failures += 1;
        let wait = timing.retry_after(self.failures, u64::from(self.failures));
        self.not_before = now + wait.min(timing.list_again_within());
        self.next = self.not_before;
    }

    /// The pause from one list to the next that are `every` apart if the table is small.
    fn pause(&self, every: Duration, timing: &Timing) -> Duration {
        every.max((self.last_took / 2).min(timing.request_timeout()))
    }

    /// How long a list takes. An answer that took longer than any call may was held up by a pause of this process.
    fn reading_time(&self, timing: &Timing) -> Duration {
        self.last_took.min(timing.request_timeout())
    }
}

impl Leases {
    /// Reads the table, when it is time.
    pub(super) fn look(&mut self, now: Now) {
        if now.mono >= self.lists.due() {
            let certain = self.sight.doubtful() || !self.sight.loaded() || self.waits();
            let consistency = if certain {
                Consistency::Strong
            } else {
                Consistency::Eventual
            };
            self.lists.asked = Some((now.mono, consistency));
            self.out.push(Action::List(consistency));
        }
    }

    /// The next look must be consistent, and soon.
    pub(super) fn doubt(&mut self, now: Now) {
        self.sight.doubt();
        self.lists.hurry(now.mono);
    }

    pub(super) fn listed(&mut self, result: Result<View, TableError>, now: Now) {
        let Some((sent, consistency)) = self.lists.answered(now.mono) else {
            return;
        };
        match result {
            Ok(view) => self.see(view, sent, consistency, now),
            Err(error) => {
                self.lists.failed(&self.settings.timing, now.mono);
                self.out.push(Action::Tell(News::ListFailed(error)));
            }
        }
    }

    fn see(&mut self, view: View, sent: Time, consistency: Consistency, now: Now) {
        self.lists.failures = 0;
        for bad in self.sight.saw_unreadable(&view.unreadable) {
            self.out
                .push(Action::Tell(News::Unreadable(bad.key, bad.reason)));
        }
        let sighting = self.leader.observed(view.lock.as_ref(), sent, now.mono);
        if sighting == Sighting::Twin && consistency == Consistency::Strong {
            let me = self.settings.me.clone();
            self.out.push(Action::Fatal(Fatal::DuplicateWorker(me)));
        }
        let timing = self.settings.timing;
        let pace =
            self.lists.pause(self.look_every(now), &timing) + self.lists.reading_time(&timing);
        let gap = timing.gap(pace);
        let gone = self.sight.update(view, (sent, consistency), now.mono, gap);
        self.look_at_held(&gone, consistency, now);
        self.replan = true;
        if sighting == Sighting::Twin {
            self.sight.doubt();
        }
        self.lists.next = now.mono + self.lists.pause(self.look_every(now), &timing);
    }

    /// A list may show that a held row is lost or on its way, earlier than the next renewal.
    fn look_at_held(&mut self, gone: &[LeaseKey], consistency: Consistency, now: Now) {
        for key in gone {
            let certain = consistency == Consistency::Strong && !self.sight.unreadable(key);
            if certain && self.held.get(key).is_some_and(|held| !held.writing()) {
                self.lose(key, Loss::Deleted, now);
            } else if self.held.contains_key(key) {
                self.sight.doubt();
            }
        }
        let keys: Vec<LeaseKey> = self.held.keys().cloned().collect();
        for key in keys {
            let Some(row) = self.sight.row(&key).cloned() else {
                continue;
            };
            let held = self.held.get_mut(&key).expect("its key was just listed");
            let before = held.lease.clone();
            let outcome = held.observed(&row, now.mono);
            if outcome != Outcome::Held || held.lease.counter != before.counter {
                self.turned_out(&key, before.checkpoint, outcome, now);
            }
        }
    }

    fn look_every(&self, now: Now) -> Duration {
        let timing = self.settings.timing;
        if self.waits() || (self.held.is_empty() && now.mono < self.joined + timing.join_patience())
        {
            return timing.wait_every();
        }
        match self.role(now) {
            Role::Leader | Role::Deputy => timing.watch_every(),
            Role::Follower => timing.follow_every(),
        }
    }

    /// News of its own is expected any moment.
    fn waits(&self) -> bool {
        let me = &self.settings.me;
        self.leaving
            || self
                .entitled
                .keys()
                .any(|key| self.sight.row(key).is_some_and(|row| self.startable(row)))
            || self.held.values().any(|held| {
                matches!(
                    held.phase,
                    Phase::HandOver {
                        stage: Stage::Offered | Stage::Waiting,
                        ..
                    }
                )
            })
            || self.sight.rows().any(|lease| {
                lease.owner.as_ref() == Some(me)
                    && lease.handing_over()
                    && lease.reader() != Some(me)
            })
    }
}
