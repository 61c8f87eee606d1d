//! Loop: asks the polling rule, calls the source, reserves bytes. Everything it waits for is kept between calls, so a
//! call of [`Reader::step`] may be dropped at any time and nothing is lost or asked twice.

use std::sync::Arc;

use futures::future::BoxFuture;
use lease::{Shard, ShardId, Time};

use super::meter::Meter;
use crate::{
    budget::{Budget, Reserved},
    clock::Clock,
    handler::progress::Progress,
    limits,
    source::{
        Page, ShardIterator, Source, SourceError,
        polling::{Ask, Polling},
    },
};

/// What a step brought.
pub(super) enum Step {
    /// A page with records, and the bytes it is charged with.
    Page(Page, Reserved),
    /// Something else; ask again.
    Other,
}

enum Answer {
    Iterator(Result<ShardIterator, SourceError>),
    Records(Result<Page, SourceError>, Reserved, Time),
    Shards(Result<Vec<Shard>, SourceError>),
}

/// Reads one shard.
pub(super) struct Reader<S> {
    source: Arc<S>,
    shard: ShardId,
    polling: Polling,
    budget: Budget,
    progress: Arc<Progress>,
    clock: Clock,
    meter: Meter,
    /// No more is read while this many bytes wait for the handler.
    enough: usize,
    /// What the next page is expected to weigh.
    expected: usize,
    call: Option<BoxFuture<'static, Answer>>,
}

/// An idle shard's page is empty, but nobody knows before.
const LEAST_EXPECTED: usize = 16 << 10;
/// What a record takes beside payload and key: its frame in the answer, which it keeps alive (names, digits, arrival; some
/// 160 bytes), and its places in lists. Without it small records would take twice what the budget allows.
const FRAME: usize = 320;

impl<S: Source> Reader<S> {
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a part of the consumer, given once"
    )]
    pub(super) fn new(
        source: Arc<S>,
        shard: ShardId,
        polling: Polling,
        budget: Budget,
        progress: Arc<Progress>,
        clock: Clock,
        meter: Meter,
        batch_bytes: usize,
    ) -> Self {
        Reader {
            source,
            shard,
            polling,
            budget,
            progress,
            clock,
            meter,
            enough: batch_bytes.max(1 << 20),
            expected: LEAST_EXPECTED,
            call: None,
        }
    }

    /// The children, once the shard's end is certain.
    pub(super) fn ended(&self) -> Option<Vec<Shard>> {
        match self.polling.ask(self.clock.mono()) {
            Ask::Ended(children) => Some(children),
            _ => None,
        }
    }

    /// Goes one step: starts a call if it is time, waits for its answer, or waits until it is time. `waiting`: bytes
    /// that are read and not handed over.
    pub(super) async fn step(&mut self, waiting: usize) -> Step {
        if self.call.is_none() {
            if waiting >= self.enough {
                return std::future::pending().await;
            }
            match self.polling.ask(self.clock.mono()) {
                Ask::Ended(_) => return std::future::pending().await,
                Ask::Wait(until) => {
                    self.clock.sleep_until(until).await;
                    return Step::Other;
                }
                ask => self.call = Some(self.start(ask)),
            }
        }
        let call = self.call.as_mut().expect("a call was just started");
        let answer = call.await;
        self.call = None;
        self.answered(answer)
    }

    fn start(&self, ask: Ask) -> BoxFuture<'static, Answer> {
        let source = self.source.clone();
        let shard = self.shard.clone();
        match ask {
            Ask::Iterator(from) => {
                Box::pin(async move { Answer::Iterator(source.iterator(&shard, &from).await) })
            }
            Ask::Records(iterator, limit) => {
                let (budget, expected, clock) =
                    (self.budget.clone(), self.expected, self.clock.clone());
                Box::pin(async move {
                    let reserved = budget.reserve(expected).await;
                    let sent = clock.mono();
                    Answer::Records(source.records(&iterator, limit).await, reserved, sent)
                })
            }
            Ask::Shards | Ask::Wait(_) | Ask::Ended(_) => {
                Box::pin(async move { Answer::Shards(source.list_shards().await) })
            }
        }
    }

    fn answered(&mut self, answer: Answer) -> Step {
        let now = self.clock.mono();
        match answer {
            Answer::Iterator(Ok(iterator)) => self.polling.iterator(iterator),
            Answer::Shards(Ok(shards)) => self.polling.shards(shards, now),
            Answer::Records(Ok(page), reserved, sent) => {
                return self.page(page, reserved, sent, now);
            }
            Answer::Records(Err(error), _, sent) => {
                self.meter.read_failed(&error, Some(now.since(sent)));
                self.failed(&error, now);
            }
            Answer::Iterator(Err(error)) | Answer::Shards(Err(error)) => {
                self.meter.read_failed(&error, None);
                self.failed(&error, now);
            }
        }
        Step::Other
    }

    fn page(&mut self, page: Page, mut reserved: Reserved, sent: Time, now: Time) -> Step {
        let accepted = self.polling.page(&page, sent, now);
        self.progress.failing(None);
        let bytes = page.bytes();
        self.meter
            .page(page.records.len(), bytes, accepted.behind, now.since(sent));
        let most = usize::try_from(limits::GET_RECORDS_MOST_BYTES).unwrap_or(usize::MAX);
        let weight = bytes + page.records.len() * FRAME;
        self.expected = (weight + weight / 4).clamp(LEAST_EXPECTED, most);
        if page.records.is_empty() {
            return Step::Other;
        }
        reserved.set(weight);
        Step::Page(page, reserved)
    }

    fn failed(&mut self, error: &SourceError, now: Time) {
        self.polling.failed(error, now);
        match error {
            // Part of the day's work.
            SourceError::ExpiredIterator | SourceError::Throttled(_) => {
                tracing::debug!(shard = %self.shard, "{error}");
            }
            _ => {
                self.progress.failing(Some(now));
                let failures = self.polling.failures();
                // A thousand shards fail together: each says so less and less often.
                if failures.is_power_of_two() {
                    tracing::warn!(shard = %self.shard, failures, "cannot read: {error}");
                } else {
                    tracing::debug!(shard = %self.shard, failures, "cannot read: {error}");
                }
            }
        }
    }
}
