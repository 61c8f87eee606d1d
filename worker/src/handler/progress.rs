//! How far a shard is: shared by its consumer, its processor and the coordinator.
//!
//! The coordinator pulls the watermark whenever it writes the row anyway, so a checkpoint costs no write of its own. A
//! processor that wants one *now* asks through its [`Checkpointer`] and is answered when it is stored.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use checkpoint::{Position, SequenceNumber, SettleThroughError, Tracker, UserRecord};
use lease::{LeaseKey, Time, renew::Tenure};
use tokio::sync::{mpsc, oneshot, watch};

use super::lag::Lag;
use crate::consumer::Report;

/// Why a checkpoint was not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// Outside of what lies between the last checkpoint and the last record handed over; nothing has changed.
    #[error(transparent)]
    OutOfRange(#[from] SettleThroughError),
    /// The lease is lost. Stop working on the shard.
    #[error("the lease is lost: another worker reads the shard, or will soon")]
    LeaseLost,
}

/// The shared state of one tenure.
#[derive(Debug)]
pub(crate) struct Progress {
    tracker: Mutex<Tracker>,
    lag: Mutex<Lag>,
    /// Of payload, handled.
    bytes: AtomicU64,
    /// The processor has its say about the end of the shard: all records are handed over.
    at_end: AtomicBool,
    /// What was handed over before the end of the shard, once that is reached.
    before_end: OnceLock<Option<Position>>,
    /// End of belief, on the worker's clock.
    valid_until: watch::Sender<Time>,
    /// When the handler call in progress began, microseconds; 0: none.
    busy_since: AtomicU64,
    /// Since when reading fails, microseconds; 0: it does not.
    failing_since: AtomicU64,
}

fn micros(at: Time) -> u64 {
    u64::try_from(at.since_origin().as_micros()).unwrap_or(u64::MAX)
}

fn time(micros: u64) -> Time {
    Time::new(Duration::from_micros(micros))
}

impl Progress {
    pub(crate) fn new(resumed_at: Position, valid_until: Time) -> Self {
        Progress {
            tracker: Mutex::new(Tracker::new(Some(resumed_at))),
            lag: Mutex::default(),
            bytes: AtomicU64::new(0),
            at_end: AtomicBool::new(false),
            before_end: OnceLock::new(),
            valid_until: watch::Sender::new(valid_until),
            busy_since: AtomicU64::new(0),
            failing_since: AtomicU64::new(0),
        }
    }

    /// A batch that ends at `position` is handled.
    pub(crate) fn handled(&self, position: &Position, records: usize, bytes: usize) {
        self.lag().handled(position.detached(), records as u64);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of payload of all batches that are handled.
    pub(crate) fn handled_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// This position is in the table.
    pub(crate) fn stored(&self, position: &Position) {
        self.lag().stored(position);
    }

    /// User records that are handled and not yet covered by a stored position.
    pub(crate) fn not_stored(&self) -> u64 {
        self.lag().records()
    }

    fn lag(&self) -> MutexGuard<'_, Lag> {
        self.lag.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Tracker) -> T) -> T {
        act(&mut self.tracker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Everything up to there may be stored. The shard's end is stored in its own way, after its children's rows; whoever
    /// must leave before that has still settled the last record.
    pub(crate) fn watermark(&self) -> Option<Position> {
        self.with(|tracker| tracker.watermark().cloned())
            .and_then(|position| self.before_the_end(position))
    }

    fn before_the_end(&self, position: Position) -> Option<Position> {
        match position {
            Position::ShardEnd => self.before_end.get()?.clone(),
            position => Some(position),
        }
    }

    /// Whether the end of the shard is settled.
    pub(crate) fn ended(&self) -> bool {
        self.with(|tracker| tracker.watermark() == Some(&Position::ShardEnd))
    }

    /// Records up to there are handed over from now on.
    pub(crate) fn hand_over(&self, position: &Position) {
        let position = position.detached();
        self.with(|tracker| {
            if tracker.largest() < Some(&position) {
                tracker.admit(position).expect("it is the largest");
            }
        });
    }

    /// Nothing up to there is left to hand over behind what was: done by itself, and no answer of the handler.
    pub(crate) fn pass(&self, position: &Position) {
        let position = position.detached();
        self.with(|tracker| {
            if tracker.largest() < Some(&position) {
                let ticket = tracker.admit(position).expect("it is the largest");
                tracker.settle(ticket).expect("it was just given out");
            }
        });
    }

    /// Everything that was handed over is done.
    pub(crate) fn settle_all(&self) {
        self.with(|tracker| {
            if let Some(largest) = tracker.largest().cloned()
                && tracker.unsettled() > 0
            {
                tracker
                    .settle_through(&largest)
                    .expect("the largest admitted position is in range");
            }
        });
    }

    /// All records are handed over; the end can be checkpointed from now on.
    pub(crate) fn reach_end(&self) {
        self.before_end
            .get_or_init(|| self.with(|tracker| tracker.largest().cloned()));
        self.hand_over(&Position::ShardEnd);
        self.at_end.store(true, Ordering::Release);
    }

    /// A processor that is told to go has no more say about the end: what it checkpoints from here on is records, which
    /// are stored, while the end would only be once its task is over. Who reads on finds the end again.
    pub(crate) fn leave_end(&self) {
        self.at_end.store(false, Ordering::Release);
    }

    fn settle_through(&self, position: &Position) -> Result<Position, SettleThroughError> {
        let at_end = self.at_end.load(Ordering::Acquire);
        self.with(|tracker| {
            let position = position.detached();
            tracker.settle_through(&position)?;
            // At the shard's end, a checkpoint of the last record is a checkpoint of the end.
            if at_end && tracker.oldest_unsettled() == Some(&Position::ShardEnd) {
                tracker.settle_through(&Position::ShardEnd)?;
            }
            Ok(tracker.watermark().cloned().unwrap_or(position))
        })
    }

    /// The last that can be checkpointed now.
    fn largest(&self) -> Option<Position> {
        let largest = self.with(|tracker| tracker.largest().cloned())?;
        if self.at_end.load(Ordering::Acquire) {
            Some(largest)
        } else {
            self.before_the_end(largest)
        }
    }

    pub(crate) fn believe(&self, until: Time) {
        self.valid_until.send_replace(until);
    }

    /// The end of belief, now and whenever it changes.
    pub(crate) fn belief(&self) -> watch::Receiver<Time> {
        self.valid_until.subscribe()
    }

    /// Notes that a handler call begins (`Some`) or is over.
    pub(crate) fn busy(&self, since: Option<Time>) {
        let since = since.map_or(0, |at| micros(at).max(1));
        self.busy_since.store(since, Ordering::Relaxed);
    }

    /// Notes that reading fails (`Some`: now) or works.
    pub(crate) fn failing(&self, now: Option<Time>) {
        match now {
            None => self.failing_since.store(0, Ordering::Relaxed),
            Some(now) => {
                let at = micros(now).max(1);
                let _ = self.failing_since.compare_exchange(
                    0,
                    at,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
        }
    }

    /// How long the handler call in progress has been running.
    pub(crate) fn busy_for(&self, now: Time) -> Duration {
        age(self.busy_since.load(Ordering::Relaxed), now)
    }

    /// How long reading has been failing.
    pub(crate) fn failing_for(&self, now: Time) -> Duration {
        age(self.failing_since.load(Ordering::Relaxed), now)
    }
}

fn age(since: u64, now: Time) -> Duration {
    if since == 0 {
        Duration::ZERO
    } else {
        now.since(time(since))
    }
}

/// Stores positions on behalf of a processor. Each call returns when the position is in the table.
///
/// The four calls are the KCL's. None goes back behind the last checkpoint or beyond the last record handed over.
/// During [`shard_ended`](crate::handler::Processor::shard_ended), a checkpoint at or behind the last record means the
/// end of the shard, which the worker stores after the rows of the children; the call returns before that.
#[derive(Clone, Debug)]
pub struct Checkpointer {
    pub(crate) key: LeaseKey,
    pub(crate) tenure: Tenure,
    pub(crate) progress: Arc<Progress>,
    pub(crate) reports: mpsc::UnboundedSender<Report>,
}

impl Checkpointer {
    /// Everything handed over so far is done, up to its last user record.
    pub async fn checkpoint(&self) -> Result<(), CheckpointError> {
        match self.progress.largest() {
            Some(position) => self.store(&position).await,
            None => Ok(()),
        }
    }

    /// Everything up to and including this user record is done.
    pub async fn checkpoint_record(&self, record: &UserRecord) -> Result<(), CheckpointError> {
        self.store(&record.position()).await
    }

    /// Everything up to this sequence number with sub-sequence number 0 is done: inside an aggregate, the first user
    /// record only. The others come again after a restart.
    pub async fn checkpoint_sequence(
        &self,
        sequence: &SequenceNumber,
    ) -> Result<(), CheckpointError> {
        self.store(&Position::at(sequence.clone(), 0)).await
    }

    /// Everything up to exactly this position is done.
    pub async fn checkpoint_at(
        &self,
        sequence: &SequenceNumber,
        sub_sequence: u64,
    ) -> Result<(), CheckpointError> {
        self.store(&Position::at(sequence.clone(), sub_sequence))
            .await
    }

    /// How far it is stored, or will be with the next renewal.
    pub fn watermark(&self) -> Option<Position> {
        self.progress.watermark()
    }

    async fn store(&self, position: &Position) -> Result<(), CheckpointError> {
        let position = self.progress.settle_through(position)?;
        if position == Position::ShardEnd {
            return Ok(());
        }
        let (stored, answer) = oneshot::channel();
        let report = Report::Checkpoint {
            key: self.key.clone(),
            tenure: self.tenure,
            position,
            stored,
        };
        if self.reports.send(report).is_err() {
            return Err(CheckpointError::LeaseLost);
        }
        match answer.await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(CheckpointError::LeaseLost),
        }
    }
}
