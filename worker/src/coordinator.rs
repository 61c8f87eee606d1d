//! Loop: the control plane – one task per worker, the only writer of lease rows.
//!
//! It executes what the state machine ([`lease::leases::Leases`]) says, hands every answer back, starts and stops the
//! consumers, and watches that they make progress. All calls to the table are polled here, each with a deadline of its
//! own: one that hangs delays one row.

pub(crate) mod calls;
pub(crate) mod herd;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, future::OptionFuture, stream::FuturesUnordered};
use lease::{
    Table, TableError,
    leases::{Action, Caller, Event, Fatal, Leases, Made, News, Now},
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    admin::Health, clock::Clock, consumer::Report, handler::ProcessorFactory, metrics, run::Pulse,
    source::Source,
};
use calls::{Answer, Calls};
use herd::Herd;

/// How the control plane ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Everything is handed over.
    Gone,
    /// The deadline passed first.
    Deadline,
    /// Told to leave at once.
    AtOnce,
    /// This worker must not go on.
    Fatal(Fatal),
}

/// What can be said to a worker from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Work.
    No,
    /// Hand everything over, then end.
    Drain,
    /// End at once.
    Now,
}

pub(crate) struct Coordinator<T, S, F: ProcessorFactory> {
    pub(crate) leases: Leases,
    pub(crate) calls: Calls<T, S>,
    pub(crate) herd: Herd<S, F>,
    pub(crate) reports: mpsc::UnboundedReceiver<Report>,
    pub(crate) clock: Clock,
    pub(crate) health: Health,
    pub(crate) pulse: Arc<Pulse>,
    /// When the table last answered a list well.
    pub(crate) table_answered: lease::Time,
    pub(crate) deadline: Duration,
    pub(crate) callers: Callers,
}

/// Processors that wait for a checkpoint.
#[derive(Default)]
pub(crate) struct Callers {
    waiting: std::collections::BTreeMap<u64, oneshot::Sender<bool>>,
    last: u64,
}

impl Callers {
    fn add(&mut self, stored: oneshot::Sender<bool>) -> Caller {
        self.last += 1;
        self.waiting.insert(self.last, stored);
        Caller(self.last)
    }

    fn answer(&mut self, caller: Caller, stored: bool) {
        if let Some(waiting) = self.waiting.remove(&caller.0) {
            // A processor that was cut off waits no more.
            let _ = waiting.send(stored);
        }
    }
}

/// How often progress is looked at when nothing else happens.
const BEAT: Duration = Duration::from_secs(1);

type Call = futures::future::BoxFuture<'static, Answer>;

/// Waits for the write that removes this worker's own row: without it peers would go on to offer leases to a worker that
/// is gone. A second order to stop is obeyed at once.
async fn take_leave(farewell: Option<Call>, stop: &mut tokio::sync::watch::Receiver<Stop>) {
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop == Stop::Now) => {}
        _ = OptionFuture::from(farewell) => {}
    }
}

impl<T: Table, S: Source, F: ProcessorFactory> Coordinator<T, S, F> {
    /// Works until told to stop.
    pub(crate) async fn run(mut self, mut stop: tokio::sync::watch::Receiver<Stop>) -> Ended {
        let mut under_way: FuturesUnordered<Call> = FuturesUnordered::new();
        let mut next_beat = self.clock.mono();
        let mut deadline = lease::Time::NEVER;
        let mut last_chance = lease::Time::NEVER;
        loop {
            let now = self.now();
            if *stop.borrow() == Stop::Drain && deadline == lease::Time::NEVER {
                deadline = now.mono + self.deadline;
                last_chance = now.mono + self.deadline.mul_f64(0.9);
                metrics::worker_state(metrics::WorkerState::Draining);
                self.leases.handle(Event::Leave, now);
            }
            if *stop.borrow() == Stop::Now {
                return Ended::AtOnce;
            }
            if now.mono >= deadline {
                return Ended::Deadline;
            }
            if now.mono >= last_chance {
                last_chance = lease::Time::NEVER;
                self.leases.handle(Event::CutShort, now);
            }
            if now.mono >= next_beat {
                next_beat = now.mono + BEAT;
                self.beat(now);
            }
            let herd = &self.herd;
            let mut farewell = None;
            for action in self
                .leases
                .step(|key, tenure| herd.handled(key, tenure), now)
            {
                match action {
                    Action::RemoveWorker { updated: None, .. } => {
                        farewell = self.calls.start(action, now.wall);
                    }
                    Action::Gone => {
                        take_leave(farewell, &mut stop).await;
                        return Ended::Gone;
                    }
                    Action::Fatal(fatal) => return Ended::Fatal(fatal),
                    action => self.act(action, &mut under_way),
                }
            }
            let timeout = self
                .leases
                .timeout()
                .min(next_beat)
                .min(deadline)
                .min(last_chance);
            tokio::select! {
                biased;
                changed = stop.changed() => if changed.is_err() { return Ended::AtOnce },
                Some(answer) = under_way.next() => self.answered(answer),
                Some(report) = self.reports.recv() => self.reported(report),
                () = self.clock.sleep_until(timeout) => {}
            }
            // Whatever else has come meanwhile is taken in before the machine steps again.
            while let Ok(report) = self.reports.try_recv() {
                self.reported(report);
            }
            while let Some(Some(answer)) = futures::FutureExt::now_or_never(under_way.next()) {
                self.answered(answer);
            }
        }
    }

    fn now(&self) -> Now {
        Now {
            mono: self.clock.mono(),
            wall: self.clock.wall(),
        }
    }

    fn act(&mut self, action: Action, under_way: &mut FuturesUnordered<Call>) {
        match action {
            Action::Start {
                lease,
                tenure,
                valid_until,
            } => self.start(lease, tenure, valid_until),
            Action::Believe { key, until } => self.herd.believe(&key, until),
            Action::Stop { key, halt } => self.herd.halt(&key, halt),
            Action::Answer { caller, stored } => self.callers.answer(caller, stored),
            Action::Tell(news) => self.tell(&news),
            Action::Gone | Action::Fatal(_) => unreachable!("ends the loop"),
            call => under_way.extend(self.calls.start(call, self.clock.wall())),
        }
    }

    fn start(&mut self, lease: Box<lease::Lease>, tenure: u64, valid_until: lease::Time) {
        match self.leases.stream_of(&lease) {
            Some(stream) => self.herd.start(stream, lease, tenure, valid_until),
            None => {
                let now = self.now();
                let key = lease.key.clone();
                tracing::error!(lease = %key, "this lease is of a stream that is not configured here");
                self.leases.handle(Event::Stopped { key, tenure }, now);
            }
        }
    }

    fn answered(&mut self, answer: Answer) {
        let now = self.now();
        match answer {
            Answer::Nothing => {}
            Answer::Event(event) => {
                if let Event::Listed(result) = &*event {
                    self.health.table_reachable(result.is_ok());
                    if result.is_ok() {
                        self.table_answered = now.mono;
                        self.health.leases_loaded();
                    }
                }
                self.leases.handle(*event, now);
            }
        }
    }

    fn reported(&mut self, report: Report) {
        let event = match report {
            Report::Checkpoint {
                key,
                tenure,
                position,
                stored,
            } => Event::Checkpoint {
                key,
                tenure,
                position,
                caller: self.callers.add(stored),
            },
            Report::ShardEnded {
                key,
                tenure,
                children,
            } => {
                self.herd.ended(&key, tenure, true);
                Event::ShardEnded {
                    key,
                    tenure,
                    children,
                }
            }
            Report::Stopped { key, tenure } => {
                self.herd.ended(&key, tenure, false);
                Event::Stopped { key, tenure }
            }
        };
        let now = self.now();
        self.leases.handle(event, now);
    }

    /// Once a second: shards without progress, and the gauges.
    fn beat(&mut self, now: Now) {
        for (key, tenure) in self.herd.stuck(now.mono) {
            self.leases.handle(Event::Stuck { key, tenure }, now);
        }
        self.pulse.beat(now.mono);
        let mut held = 0;
        for lease in self.leases.held() {
            held += 1;
            self.herd
                .renewed(&lease.lease.key, now.mono.since(lease.renewed()));
        }
        metrics::leases_held(held);
        let fleet = self.leases.fleet(now);
        metrics::fleet_seen(metrics::FleetView {
            workers: fleet.workers,
            unassigned: fleet.unassigned,
            expired: fleet.expired,
            blocked_on_parent: fleet.blocked,
        });
        let silent = now.mono.since(self.table_answered);
        metrics::table_unreachable(if silent > BEAT * 10 {
            silent
        } else {
            Duration::ZERO
        });
        self.herd.measure(now.mono);
    }

    fn tell(&mut self, news: &News) {
        match news {
            News::Took { key, how, from } => {
                metrics::lease_taken();
                let from = from.as_ref().map(tracing::field::display);
                tracing::info!(lease = %key, from, "lease held ({how})");
            }
            News::Lost { key, why } => {
                metrics::lease_lost();
                tracing::warn!(lease = %key, ?why, "lease lost");
            }
            News::Released(key) => {
                metrics::lease_released();
                tracing::info!(lease = %key, "lease released");
            }
            News::HandedOver { key, to } => {
                metrics::lease_handed_off();
                tracing::info!(lease = %key, to = %to, "lease handed over");
            }
            News::Finished(key) => {
                self.herd.finished(key);
                tracing::info!(lease = %key, "shard read to its end");
            }
            News::Stored(key, position) => {
                self.herd.stored(key, position);
                tracing::debug!(lease = %key, %position, "checkpoint stored");
            }
            News::Created { key, from, why } => {
                match why {
                    Made::First => {}
                    Made::Child => metrics::child_created(),
                    Made::Repair => metrics::hole_repaired(),
                }
                tracing::info!(lease = %key, %from, ?why, "lease row made");
            }
            News::Deleted(key) => tracing::info!(lease = %key, "finished lease row removed"),
            News::Leads(true) => tracing::info!("this worker leads"),
            News::Leads(false) => tracing::info!("this worker no longer leads"),
            other => self.warn(other),
        }
        if let News::Leads(leads) = news {
            metrics::is_leader(*leads);
        }
    }

    fn warn(&self, news: &News) {
        match news {
            News::ListFailed(error) => tracing::warn!("cannot read the lease table: {error}"),
            News::WriteFailed(key, operation, error @ TableError::Throttled(_)) => {
                tracing::debug!(lease = %key, operation, "{error}");
            }
            News::WriteFailed(key, operation, error) => {
                tracing::warn!(lease = %key, operation, "cannot write a lease row: {error}");
            }
            News::Unreadable(key, reason) => {
                tracing::error!(lease = %key, "this row cannot be read and is left alone: {reason}");
            }
            News::NoTimestamp(key) => tracing::warn!(
                lease = %key,
                "the row says AT_TIMESTAMP, but neither it nor the configuration says which: reading from the beginning"
            ),
            News::HeirSilent(key, heir) => {
                tracing::warn!(lease = %key, heir = %heir, "the heir does not answer");
            }
            News::Stuck(key) => {
                tracing::error!(lease = %key, "no progress for too long: the lease is given up");
            }
            _ => {}
        }
    }
}
