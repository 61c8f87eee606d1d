//! Loop: the data plane of one held shard – read, unpack, hand over, settle – in one task.
//!
//! ```text
//! Reader (poll, page) ─▶ Inbox (skip, unpack, batch) ─▶ Processor ─▶ Progress (watermark) ─▶ coordinator pulls
//! ```
//! While a batch is handled the reader goes on, within the byte budget. Before each call of the handler the belief in
//! the lease is checked against the clock. The task never talks to the table: it reports, and is told to stop.

mod halting;
mod lifecycle;
pub(crate) mod meter;
mod reader;
mod report;

use std::{pin::pin, sync::Arc, time::Duration};

use checkpoint::{Deaggregator, HashRange, HashRangePolicy};
use lease::{Lease, Shard, Time, leases::Halt};
use tokio::sync::{mpsc, watch};

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
use halting::{End, Halting};
use meter::Meter;
use reader::{Reader, Step};
use report::LastWord;
pub(crate) use report::Report;

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

/// Reads one shard until its end, or until told to stop; reports exactly once that it is over.
pub(crate) async fn consume<S: Source, P: Processor>(parts: Parts<S, P>) {
    let (key, tenure, reports) = (
        parts.lease.key.clone(),
        parts.context.tenure,
        parts.reports.clone(),
    );
    let mut last_word = LastWord::stopped(key.clone(), tenure, reports);
    if let End::Ended(children) = Consumer::new(parts).run().await {
        last_word.say(Report::ShardEnded {
            key,
            tenure,
            children,
        });
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
            From::resuming(&lease),
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
            self.part().await;
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
                step = self.reader.step(self.inbox.bytes()) => take_in(&mut self.inbox, step, &self.clock),
                () = self.clock.sleep_until(due) => {}
            }
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
                    let records = parcel.batch.records.len();
                    self.progress
                        .handled(&parcel.position, records, parcel.bytes);
                    self.meter.shard().batch_delivered(records, parcel.bytes);
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
                        take_in(&mut self.inbox, step, &self.clock);
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
}

enum Next {
    Parcel(Parcel),
    End(Vec<Shard>),
    Told,
}

fn take_in(inbox: &mut Inbox, step: Step, clock: &Clock) {
    if let Step::Page(page, reserved) = step {
        inbox.push(page.records, page.behind, reserved, clock.mono());
    }
}

#[cfg(test)]
mod tests;
