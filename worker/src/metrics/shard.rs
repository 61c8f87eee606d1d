//! The metrics of one shard while it is held: handles made once per tenure, so that a batch costs a few atomic adds.
//!
//! Gauges of a shard must vanish when the shard is given up (an old iterator age would alarm for ever), and must be
//! combined when the shard label is switched off. So they are not handles but numbers kept here; the exporter folds
//! them into the recorder at each scrape, and what is no longer held is no longer there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use metrics::{Counter, Histogram, Label};

use super::labels::{Deaggregation, ReadResult};
use super::table::Metric;
use super::{
    BATCHES_DELIVERED, BYTES_DELIVERED, BYTES_READ, CHECKPOINT_LAG, CHECKPOINTS_WRITTEN,
    DEAGGREGATION, GET_RECORDS, GET_RECORDS_SECONDS, HANDLER_ERRORS, HANDLER_IN_PROGRESS,
    HANDLER_SECONDS, ITERATOR_AGE, LEASE_RENEWAL_AGE, RECORDS_DELIVERED, RECORDS_READ,
    RECORDS_SKIPPED, RETENTION_LEFT, SHARD_ENDS, label,
};

/// Which labels say where an event happened. Fewer labels, fewer series: counters add up, gauges show the worst shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShardLabels {
    /// `stream` and `shard`.
    #[default]
    Shard,
    /// `stream` alone.
    Stream,
    /// Neither.
    Off,
}

/// How the gauges of several shards become one.
#[derive(Debug, Clone, Copy)]
enum Fold {
    /// The worst is the greatest.
    Max,
    /// The worst is the least.
    Min,
    /// They add up.
    Sum,
}

/// The gauges of a shard, and how each folds. A gauge's index here is its index in [`Held::gauges`].
const GAUGES: [(Metric, Fold); 5] = [
    (ITERATOR_AGE, Fold::Max),
    (RETENTION_LEFT, Fold::Min),
    (HANDLER_IN_PROGRESS, Fold::Max),
    (CHECKPOINT_LAG, Fold::Sum),
    (LEASE_RENEWAL_AGE, Fold::Max),
];
const AGE: usize = 0;
const RETENTION: usize = 1;
const IN_PROGRESS: usize = 2;
const LAG: usize = 3;
const RENEWAL: usize = 4;

/// The gauges of a shard that is held: bits of an `f64`, NaN until first set.
#[derive(Debug)]
struct Held {
    stream: Arc<str>,
    shard: Arc<str>,
    gauges: [AtomicU64; GAUGES.len()],
}

/// The shards held, and how they are labelled.
#[derive(Debug, Default)]
pub(super) struct Registry {
    labels: ShardLabels,
    held: Mutex<Vec<Weak<Held>>>,
}

/// The registry [`super::install`] made; one without an exporter otherwise.
static INSTALLED: OnceLock<Arc<Registry>> = OnceLock::new();

impl Registry {
    pub(super) fn new(labels: ShardLabels) -> Arc<Self> {
        Arc::new(Registry {
            labels,
            held: Mutex::default(),
        })
    }

    /// Makes this the registry of [`ShardMetrics::new`]; false if there already is one.
    pub(super) fn install(self: &Arc<Self>) -> bool {
        INSTALLED.set(self.clone()).is_ok()
    }

    /// Starts the metrics of a shard.
    pub(super) fn shard(&self, stream: &str, shard: &str) -> ShardMetrics {
        let unset = || AtomicU64::new(f64::NAN.to_bits());
        let held = Arc::new(Held {
            stream: stream.into(),
            shard: shard.into(),
            gauges: std::array::from_fn(|_| unset()),
        });
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        drop(all);
        ShardMetrics::register(held, self.labels)
    }

    /// Writes the gauges of the shards held now into the recorder. A gauge nobody has set yet does not appear.
    pub(super) fn publish(&self) {
        let all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held: Vec<Arc<Held>> = all.iter().filter_map(Weak::upgrade).collect();
        drop(all);
        let mut groups: Vec<(Vec<Label>, Vec<&Held>)> = Vec::new();
        let mut by_labels = std::collections::HashMap::new();
        for one in &held {
            let labels = where_labels(&one.stream, &one.shard, self.labels);
            let group = *by_labels.entry(labels.clone()).or_insert(groups.len());
            if group == groups.len() {
                groups.push((labels, Vec::new()));
            }
            groups[group].1.push(one.as_ref());
        }
        for (labels, members) in groups {
            for (index, (metric, fold)) in GAUGES.iter().enumerate() {
                let values = members
                    .iter()
                    .map(|one| f64::from_bits(one.gauges[index].load(Ordering::Relaxed)));
                if let Some(value) = values
                    .filter(|value| !value.is_nan())
                    .reduce(|a, b| fold.of(a, b))
                {
                    metric.gauge(labels.clone()).set(value);
                }
            }
        }
    }
}

impl Fold {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Fold::Max => a.max(b),
            Fold::Min => a.min(b),
            Fold::Sum => a + b,
        }
    }
}

fn where_labels(stream: &Arc<str>, shard: &Arc<str>, labels: ShardLabels) -> Vec<Label> {
    let stream = Label::new("stream", stream.clone());
    match labels {
        ShardLabels::Shard => vec![stream, Label::new("shard", shard.clone())],
        ShardLabels::Stream => vec![stream],
        ShardLabels::Off => Vec::new(),
    }
}

/// The metrics of one shard during one tenure. Clones are the same shard; its gauges vanish with the last of them.
#[derive(Clone)]
pub struct ShardMetrics {
    held: Arc<Held>,
    records_read: Counter,
    bytes_read: Counter,
    get_records: [Counter; ReadResult::ALL.len()],
    get_records_seconds: Histogram,
    deaggregation: [Counter; Deaggregation::ALL.len()],
    records_skipped: Counter,
    shard_ends: Counter,
    records_delivered: Counter,
    bytes_delivered: Counter,
    batches_delivered: Counter,
    handler_seconds: Histogram,
    handler_errors: Counter,
    checkpoints_written: Counter,
}

impl std::fmt::Debug for ShardMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ShardMetrics")
            .field(&self.held.stream)
            .field(&self.held.shard)
            .finish()
    }
}

impl ShardMetrics {
    /// Starts the metrics of a shard. Make one per tenure: it looks every handle up once.
    pub fn new(stream: &str, shard: &str) -> Self {
        INSTALLED.get_or_init(Arc::default).shard(stream, shard)
    }

    fn register(held: Arc<Held>, switch: ShardLabels) -> Self {
        let here = || where_labels(&held.stream, &held.shard, switch);
        let of_stream = || {
            let coarser = if switch == ShardLabels::Shard {
                ShardLabels::Stream
            } else {
                switch
            };
            where_labels(&held.stream, &held.shard, coarser)
        };
        let with_result = |metric: Metric, result: &'static str| {
            let mut labels = of_stream();
            labels.push(label("result", result));
            metric.counter(labels)
        };
        ShardMetrics {
            records_read: RECORDS_READ.counter(here()),
            bytes_read: BYTES_READ.counter(here()),
            get_records: std::array::from_fn(|at| {
                with_result(GET_RECORDS, ReadResult::ALL[at].as_str())
            }),
            get_records_seconds: GET_RECORDS_SECONDS.histogram(of_stream()),
            deaggregation: std::array::from_fn(|at| {
                with_result(DEAGGREGATION, Deaggregation::ALL[at].as_str())
            }),
            records_skipped: RECORDS_SKIPPED.counter(here()),
            shard_ends: SHARD_ENDS.counter(of_stream()),
            records_delivered: RECORDS_DELIVERED.counter(here()),
            bytes_delivered: BYTES_DELIVERED.counter(here()),
            batches_delivered: BATCHES_DELIVERED.counter(here()),
            handler_seconds: HANDLER_SECONDS.histogram(of_stream()),
            handler_errors: HANDLER_ERRORS.counter(here()),
            checkpoints_written: CHECKPOINTS_WRITTEN.counter(here()),
            held,
        }
    }

    /// A GetRecords call ended so after `elapsed`.
    pub fn get_records_ended(&self, result: ReadResult, elapsed: Duration) {
        self.get_records[result as usize].increment(1);
        self.get_records_seconds.record(elapsed.as_secs_f64());
    }

    /// Kinesis records arrived.
    pub fn records_read(&self, records: usize, bytes: usize) {
        self.records_read.increment(records as u64);
        self.bytes_read.increment(bytes as u64);
    }

    /// The age the last read reported. `retention` is the stream's, if known: what is left of it is shown.
    pub fn iterator_age(&self, age: Duration, retention: Option<Duration>) {
        self.set(AGE, age.as_secs_f64());
        if let Some(retention) = retention {
            self.set(RETENTION, retention.saturating_sub(age).as_secs_f64());
        }
    }

    /// Taking records apart came so often to this.
    pub fn deaggregated(&self, result: Deaggregation, count: usize) {
        self.deaggregation[result as usize].increment(count as u64);
    }

    /// User records at or before the checkpoint were skipped.
    pub fn records_skipped(&self, count: usize) {
        self.records_skipped.increment(count as u64);
    }

    /// The shard was read to its end.
    pub fn shard_ended(&self) {
        self.shard_ends.increment(1);
    }

    /// The handler settled a batch.
    pub fn batch_delivered(&self, records: usize, bytes: usize) {
        self.batches_delivered.increment(1);
        self.records_delivered.increment(records as u64);
        self.bytes_delivered.increment(bytes as u64);
    }

    /// A call of the handler ended after `elapsed`.
    pub fn handler_ended(&self, failed: bool, elapsed: Duration) {
        self.handler_seconds.record(elapsed.as_secs_f64());
        self.handler_errors.increment(u64::from(failed));
        self.set(IN_PROGRESS, 0.0);
    }

    /// The handler call in progress has lasted so long.
    pub fn handler_in_progress(&self, age: Duration) {
        self.set(IN_PROGRESS, age.as_secs_f64());
    }

    /// A checkpoint was stored.
    pub fn checkpoint_written(&self) {
        self.checkpoints_written.increment(1);
    }

    /// So many user records are handled and beyond the stored checkpoint.
    pub fn checkpoint_lag(&self, records: u64) {
        self.set(LAG, records as f64);
    }

    /// The last good renewal was sent so long ago.
    pub fn lease_renewal_age(&self, age: Duration) {
        self.set(RENEWAL, age.as_secs_f64());
    }

    fn set(&self, gauge: usize, value: f64) {
        self.held.gauges[gauge].store(value.to_bits(), Ordering::Relaxed);
    }
}
