//! Loop: the data plane of one held shard – read, unpack, hand over, settle – in one task.
//!
//! ```text
//! Reader (poll, page) ─▶ Inbox (skip, unpack, batch) ─▶ Processor ─▶ Progress (watermark) ─▶ coordinator pulls
//! ```
//! While a batch is handled the reader goes on, within the byte budget. Before each call of the handler the belief in
//! the lease is checked against the clock. The task never talks to the table: it reports, and is told to stop.

pub(crate) mod meter;
mod reader;

use std::{pin::pin, sync::Arc, time::Duration};

use checkpoint::{Deaggregator, HashRange, HashRangePolicy, Position};
use lease::{Lease, LeaseKey, Shard, Time, leases::Halt, renew::Tenure};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    backoff::{Backoff, Random},
    budget::Budget,
    clock::Clock,
    delivery::{BatchLimits, Inbox, Parcel},
    handler::{
        Batch, Checkpointer, Commit, HandlerError, Processor, ShardContext, progress::Progress,
    },
    source::{
        From, Source,
        polling::{Pace, Polling},
    },
};
use meter::Meter;
use reader::{Reader, Step};

/// What a consumer tells the coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    /// A processor wants its watermark stored now.
    Checkpoint {
        key: LeaseKey,
        tenure: Tenure,
        position: Position,
        stored: oneshot::Sender<bool>,
    },
    /// The last record is settled; the task is over.
    ShardEnded {
        key: LeaseKey,
        tenure: Tenure,
        children: Vec<Shard>,
    },
    /// The task is over.
    Stopped { key: LeaseKey, tenure: Tenure },
}

/// How records are handed over; the same for every shard of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// How often to poll.
    pub pace: Pace,
    /// How large a batch may be.
    pub batch: BatchLimits,
    /// The shortest and the longest wait before a failed batch is handed over again.
    pub retry: (Duration, Duration),
    /// What happens to user records of another shard.
    pub hash_range: HashRangePolicy,
    /// How long unread data is kept, for the metric that warns of loss.
    pub retention: Option<Duration>,
}

/// Everything a consumer is made of.
pub(crate) struct Parts<S, P> {
    pub(crate) context: ShardContext,
    pub(crate) lease: Box<Lease>,
    pub(crate) delivery: Delivery,
    pub(crate) source: Arc<S>,
    pub(crate) processor: P,
    pub(crate) progress: Arc<Progress>,
    pub(crate) reports: mpsc::UnboundedSender<Report>,
    pub(crate) halt: watch::Receiver<Option<Halt>>,
    pub(crate) budget: Budget,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) meter: Meter,
    /// How long a processor may take to part from a lost lease: until then the shard cannot be read here again.
    pub(crate) patience: Duration,
}

/// Why the loop ended.
enum End {
    Ended(Vec<Shard>),
    Drained,
    Lost,
    Cancelled,
}

/// Reads one shard until its end, or until told to stop; reports exactly once that it is over.
pub(crate) async fn consume<S: Source, P: Processor>(parts: Parts<S, P>) {
    let (key, tenure, reports) = (
        parts.lease.key.clone(),
        parts.context.tenure,
        parts.reports.clone(),
    );
    // Also when the processor panics, or the task is aborted.
    let mut last_word = LastWord {
        report: Some(Report::Stopped {
            key: key.clone(),
            tenure,
        }),
        reports,
    };
    if let End::Ended(children) = Consumer::new(parts).run().await {
        last_word.report = Some(Report::ShardEnded {
            key,
            tenure,
            children,
        });
    }
}

struct LastWord {
    report: Option<Report>,
    reports: mpsc::UnboundedSender<Report>,
}

impl Drop for LastWord {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            // Nobody listens any more: the worker is gone.
            let _ = self.reports.send(report);
        }
    }
}

struct Consumer<S, P> {
    context: ShardContext,
    processor: P,
    checkpointer: Checkpointer,
    progress: Arc<Progress>,
    reader: Reader<S>,
    inbox: Inbox,
    halt: Halting,
    clock: Clock,
    retry: Backoff,
    meter: Meter,
    patience: Duration,
}

/// What the consumer was told.
struct Halting(watch::Receiver<Option<Halt>>);

impl Halting {
    fn told(&self) -> Option<Halt> {
        *self.0.borrow()
    }

    /// Whether everything that runs is to be cut off.
    fn cuts(&self) -> bool {
        matches!(self.told(), Some(Halt::Lost | Halt::Cancel))
    }

    fn drains(&self) -> bool {
        self.told().is_some()
    }

    /// Waits until told something new. A coordinator that is gone says nothing more; it aborts this task.
    async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn until_cut(&mut self) {
        while !self.cuts() {
            self.changed().await;
        }
    }
}

impl<S: Source, P: Processor> Consumer<S, P> {
    fn new(parts: Parts<S, P>) -> Self {
        let Parts {
            context,
            lease,
            delivery,
            source,
            processor,
            progress,
            reports,
            halt,
            budget,
            clock,
            mut random,
            meter,
            patience,
        } = parts;
        let range = lease.range.unwrap_or(HashRange::FULL);
        let polling = Polling::new(
            lease.shard.clone(),
            start(&lease),
            delivery.pace,
            random.fork(),
            clock.mono(),
        );
        Consumer {
            checkpointer: Checkpointer {
                key: lease.key.clone(),
                tenure: context.tenure,
                progress: progress.clone(),
                reports,
            },
            reader: Reader::new(
                source,
                context.shard.clone(),
                polling,
                budget,
                progress.clone(),
                clock.clone(),
                meter.clone(),
                delivery.batch.bytes,
            ),
            inbox: Inbox::new(
                Deaggregator::new(range, delivery.hash_range),
                delivery.batch,
                lease.checkpoint.clone(),
            ),
            retry: Backoff::new(delivery.retry.0, delivery.retry.1, random),
            halt: Halting(halt),
            context,
            processor,
            progress,
            clock,
            meter,
            patience,
        }
    }

    async fn run(mut self) -> End {
        let end = self.read_to_the_end().await;
        if let End::Lost = end {
            let until = self.clock.mono() + self.patience;
            tokio::select! {
                biased;
                () = self.processor.lease_lost() => {}
                () = self.clock.sleep_until(until) => tracing::error!(
                    stream = %self.context.stream,
                    shard = %self.context.shard,
                    "handler does not return from lease_lost and is cut off"
                ),
            }
        }
        end
    }

    async fn read_to_the_end(&mut self) -> End {
        if let Some(end) = self.initialize().await {
            return end;
        }
        loop {
            match self.next_parcel().await {
                Next::Parcel(parcel) => {
                    if let Some(end) = self.deliver(parcel).await {
                        return end;
                    }
                }
                Next::End(children) => return self.end_shard(children).await,
                Next::Told => return self.stop().await,
            }
        }
    }

    async fn initialize(&mut self) -> Option<End> {
        loop {
            let context = self.context.clone();
            self.progress.busy(Some(self.clock.mono()));
            let result = {
                let call = self.processor.initialize(&context);
                cut_off(&mut self.halt, call).await
            };
            self.progress.busy(None);
            match result {
                None => return Some(self.cut()),
                Some(Ok(())) => {
                    self.retry.succeeded();
                    return None;
                }
                Some(Err(error)) => {
                    if let Some(end) = self.wait_after_failure("initialize", &error).await {
                        return Some(end);
                    }
                }
            }
        }
    }

    /// Waits for a batch, the end of the shard, or an order to stop.
    async fn next_parcel(&mut self) -> Next {
        loop {
            if self.halt.drains() {
                return Next::Told;
            }
            let now = self.clock.mono();
            let at_end = self.reader.ended();
            if let Some(parcel) = self.inbox.next(at_end.is_some(), now) {
                return Next::Parcel(parcel);
            }
            if let Some(position) = self.inbox.take_barren() {
                self.progress.pass(&position);
            }
            self.count();
            if let Some(children) = at_end {
                return Next::End(children);
            }
            let due = self.inbox.due().unwrap_or(Time::NEVER);
            tokio::select! {
                biased;
                () = self.halt.changed() => {}
                step = self.reader.step(self.inbox.bytes()) => self.take_in(step),
                () = self.clock.sleep_until(due) => {}
            }
        }
    }

    fn take_in(&mut self, step: Step) {
        if let Step::Page(page, reserved) = step {
            let now = self.clock.mono();
            self.inbox.push(page.records, page.behind, reserved, now);
        }
    }

    fn count(&mut self) {
        let counts = self.inbox.take_counts();
        self.meter.unpacked(&counts);
    }

    /// Hands a batch over until it succeeds.
    async fn deliver(&mut self, mut parcel: Parcel) -> Option<End> {
        self.count();
        self.progress.hand_over(&parcel.position);
        if let Some(barren) = &parcel.barren {
            self.progress.pass(barren);
        }
        loop {
            if let Some(end) = self.until_believed().await {
                return Some(end);
            }
            match self.hand_over(&parcel.batch).await {
                None => return Some(self.cut()),
                Some(Ok(())) => {
                    self.retry.succeeded();
                    if self.processor.commit() == Commit::Auto {
                        self.progress.settle_all();
                    }
                    self.meter
                        .shard()
                        .batch_delivered(parcel.batch.records.len(), parcel.bytes);
                    return None;
                }
                Some(Err(error)) => {
                    let end = self.wait_after_failure("process", &error).await;
                    if end.is_some() {
                        return end;
                    }
                    parcel.batch.attempt = parcel.batch.attempt.saturating_add(1);
                }
            }
        }
    }

    /// Waits out a belief that has ended: the lease may be somebody else's by now (`Some`: it is), or the answer to a
    /// renewal that was sent in time is late.
    async fn until_believed(&mut self) -> Option<End> {
        let mut belief = self.progress.belief();
        loop {
            if self.halt.cuts() {
                return Some(self.cut());
            }
            let until = *belief.borrow_and_update();
            if self.clock.mono() < until {
                return None;
            }
            tokio::select! {
                biased;
                () = self.halt.changed() => {}
                _ = belief.changed() => {}
            }
        }
    }

    /// Calls the handler; the reader goes on meanwhile. `None`: cut off.
    async fn hand_over(&mut self, batch: &Batch) -> Option<Result<(), HandlerError>> {
        let began = self.clock.mono();
        self.progress.busy(Some(began));
        let result = {
            let mut call = pin!(self.processor.process(batch, &self.checkpointer));
            loop {
                let reading = !self.halt.drains();
                tokio::select! {
                    biased;
                    () = self.halt.changed() => if self.halt.cuts() { break None },
                    result = &mut call => break Some(result),
                    step = self.reader.step(self.inbox.bytes()), if reading => {
                        if let Step::Page(page, reserved) = step {
                            let now = self.clock.mono();
                            self.inbox.push(page.records, page.behind, reserved, now);
                        }
                    }
                }
            }
        };
        self.progress.busy(None);
        let took = self.clock.mono().since(began);
        self.meter
            .shard()
            .handler_ended(!matches!(result, Some(Ok(()))), took);
        result
    }

    /// Waits before another try; ends early when told to stop.
    async fn wait_after_failure(&mut self, call: &str, error: &HandlerError) -> Option<End> {
        let wait = self.retry.next_wait();
        tracing::warn!(
            stream = %self.context.stream,
            shard = %self.context.shard,
            failures = self.retry.failures(),
            retry_in = ?wait,
            "handler failed in {call}: {error}"
        );
        let until = self.clock.mono() + wait;
        loop {
            if self.halt.drains() {
                return Some(self.stop().await);
            }
            tokio::select! {
                biased;
                () = self.halt.changed() => {}
                () = self.clock.sleep_until(until) => return None,
            }
        }
    }

    /// Everything is handed over: the processor has the last word before the end is settled.
    async fn end_shard(&mut self, children: Vec<Shard>) -> End {
        self.progress.reach_end();
        loop {
            self.progress.busy(Some(self.clock.mono()));
            let result = {
                let call = self.processor.shard_ended(&self.checkpointer);
                cut_off(&mut self.halt, call).await
            };
            self.progress.busy(None);
            let error = match result {
                None => return self.cut(),
                Some(Ok(())) if self.processor.commit() == Commit::Auto => {
                    self.progress.settle_all();
                    return End::Ended(children);
                }
                Some(Ok(())) if self.progress.ended() => return End::Ended(children),
                Some(Ok(())) => {
                    "the shard has ended, but the processor did not checkpoint its end".into()
                }
                Some(Err(error)) => error,
            };
            if let Some(end) = self.wait_after_failure("shard_ended", &error).await {
                return end;
            }
        }
    }

    /// Told to drain: the batch in hand is complete, the processor has its last chance to checkpoint.
    async fn stop(&mut self) -> End {
        if !self.halt.cuts() {
            let result = {
                let call = self.processor.shutdown_requested(&self.checkpointer);
                cut_off(&mut self.halt, call).await
            };
            match result {
                Some(Ok(())) => return End::Drained,
                Some(Err(error)) => {
                    tracing::warn!(shard = %self.context.shard, "handler failed in shutdown_requested: {error}");
                    return End::Drained;
                }
                None => {}
            }
        }
        self.cut()
    }

    fn cut(&self) -> End {
        match self.halt.told() {
            Some(Halt::Lost) => End::Lost,
            _ => End::Cancelled,
        }
    }
}

enum Next {
    Parcel(Parcel),
    End(Vec<Shard>),
    Told,
}

/// Runs a call of the processor until it is done or cut off (`None`).
async fn cut_off<T>(halt: &mut Halting, call: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = halt.until_cut() => None,
        result = call => Some(result),
    }
}

/// Where the reader of a lease begins.
///
/// A stored number means AT, not after: the rest of its aggregate has to come again, and what is done is skipped.
/// `LATEST` is where the row was pinned; a sentinel without a pin is read from the beginning, which loses nothing.
fn start(lease: &Lease) -> From {
    match (&lease.checkpoint, lease.pinned) {
        (Position::At { sequence, .. }, _) => From::At(sequence.clone()),
        (Position::Latest | Position::AtTimestamp, Some(pinned)) => From::AtTimestamp(pinned),
        _ => From::TrimHorizon,
    }
}

#[cfg(test)]
mod tests;
