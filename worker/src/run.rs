//! One worker, from parts to its end. Whatever the outside can vary is a parameter: the table, the streams, the
//! processors, the clocks, the seed of all randomness, and when to stop – so that a simulated worker is this very function.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use lease::{
    Consistency, Session, Shards, Table, TableError, Time, Timing, WorkerId,
    belongs::{self, Foreign, Known},
    leases::{Fatal, Leases, Now, Settings, Stream as LeaseStream},
};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    task::AbortHandle,
};

use crate::{
    admin::Health,
    backoff::{Backoff, Random},
    budget::Budget,
    clock::Clock,
    coordinator::{
        Callers, Coordinator, Ended,
        calls::Calls,
        herd::{Herd, Pasture},
    },
    handler::ProcessorFactory,
    metrics,
    source::{Source, SourceError},
};
pub use crate::{consumer::Delivery, coordinator::Stop};

/// One stream to read.
#[derive(Debug)]
pub struct Stream<S> {
    /// Its name, for logs and metrics.
    pub name: String,
    /// How it is known to the lease table.
    pub lease: LeaseStream,
    /// Where it is read from.
    pub source: Arc<S>,
    /// How its records are handed over.
    pub delivery: Delivery,
}

/// Everything a worker is made of.
#[derive(Debug)]
pub struct Worker<T, S, F> {
    /// This worker's id, unique among the processes of the application.
    pub id: WorkerId,
    /// The lease table; it exists.
    pub table: Arc<T>,
    /// The streams.
    pub streams: Vec<Stream<S>>,
    /// Makes the processors.
    pub processors: F,
    /// The intervals of the lease protocol.
    pub timing: Timing,
    /// Never hold more leases.
    pub max_leases: usize,
    /// Bytes that may be read ahead of the handlers.
    pub budget: Budget,
    /// A shard whose handler, or reader, makes no progress for this long is given up.
    pub stuck_after: Duration,
    /// How long handing everything over may take.
    pub deadline: Duration,
    /// The clocks.
    pub clock: Clock,
    /// Seeds all randomness. Must differ from run to run: the session's name is drawn from it.
    pub seed: u64,
    /// Where the consumers run.
    pub data: DataPlane,
    /// What the probes ask.
    pub health: Health,
    /// The control plane's sign of life.
    pub pulse: Arc<Pulse>,
}

/// Runs the consumers. A runtime's [`Handle`] becomes one; it may be another runtime than the caller's, so that a handler
/// that blocks its thread cannot keep leases from being renewed.
#[derive(Clone)]
pub struct DataPlane(Arc<Spawn>);

type Spawn = dyn Fn(BoxFuture<'static, ()>) -> AbortHandle + Send + Sync;

impl DataPlane {
    /// Runs every consumer as `spawn` does; aborting by the handle must end it.
    pub fn new(
        spawn: impl Fn(BoxFuture<'static, ()>) -> AbortHandle + Send + Sync + 'static,
    ) -> Self {
        DataPlane(Arc::new(spawn))
    }

    pub(crate) fn spawn(&self, consumer: BoxFuture<'static, ()>) -> AbortHandle {
        (self.0)(consumer)
    }
}

impl From<Handle> for DataPlane {
    fn from(runtime: Handle) -> Self {
        DataPlane::new(move |consumer| runtime.spawn(consumer).abort_handle())
    }
}

impl fmt::Debug for DataPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataPlane").finish_non_exhaustive()
    }
}

/// When the control plane last turned.
#[derive(Debug, Default)]
pub struct Pulse(AtomicU64);

impl Pulse {
    pub(crate) fn beat(&self, now: Time) {
        let millis = u64::try_from(now.since_origin().as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis, Ordering::Relaxed);
    }

    /// How long ago that was.
    pub fn age(&self, now: Time) -> Duration {
        now.since(Time::new(Duration::from_millis(
            self.0.load(Ordering::Relaxed),
        )))
    }
}

/// How a worker ended, if it did as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Told to stop; everything was handed over.
    Drained,
    /// Told to stop; the deadline passed before everything was handed over. What was not handed over is found by
    /// others after the failover time. Nothing is lost.
    DeadlinePassed,
    /// Told to end at once. As above.
    AtOnce,
}

/// Why a worker could not work.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The lease table is of another application or stream. Nothing was changed.
    #[error("the lease table is not this application's: {0}")]
    Foreign(#[from] Foreign),
    /// A stream does not exist.
    #[error("stream {stream} does not exist: {reason}")]
    NoStream {
        /// Its name.
        stream: String,
        /// What Kinesis said.
        reason: String,
    },
    /// A stream or the table may not be used.
    #[error("{what}: {reason}")]
    Refused {
        /// What was refused.
        what: String,
        /// What AWS said.
        reason: String,
    },
    /// Another process has the same worker id.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

impl<T: Table, S: Source, F: ProcessorFactory> Worker<T, S, F> {
    /// Works until `stop` says otherwise.
    ///
    /// # Errors
    /// When the table or a stream cannot be this application's, or another process has this worker's id. Faults that
    /// may pass – throttles, no connection – are no errors: the worker goes on trying, and says so in its log.
    pub async fn run(self, mut stop: watch::Receiver<Stop>) -> Result<Outcome, RunError> {
        metrics::worker_state(metrics::WorkerState::Starting);
        metrics::buffer_limit(usize::try_from(self.budget.limit()).unwrap_or(usize::MAX));
        let mut random = Random::seeded(self.seed);
        let session = Session::from(random.word());
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop != Stop::No) => return Ok(Outcome::Drained),
            checked = self.preflight(random.fork()) => checked?,
        }
        metrics::worker_state(metrics::WorkerState::Running);
        match self.coordinator(session, random).run(stop).await {
            Ended::Gone => Ok(Outcome::Drained),
            Ended::Deadline => Ok(Outcome::DeadlinePassed),
            Ended::AtOnce => Ok(Outcome::AtOnce),
            Ended::Fatal(fatal) => Err(fatal.into()),
        }
    }

    /// Makes sure that the table and the streams belong together before anything is written.
    async fn preflight(&self, random: Random) -> Result<(), RunError> {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5), random);
        loop {
            self.pulse.beat(self.clock.mono());
            match self.check().await? {
                Checked::Good => return Ok(()),
                Checked::NotNow(reason) => {
                    let wait = backoff.next_wait();
                    tracing::warn!(retry_in = ?wait, "cannot start yet: {reason}");
                    self.clock.sleep_until(self.clock.mono() + wait).await;
                }
            }
        }
    }

    async fn check(&self) -> Result<Checked, RunError> {
        let patience = self.timing.failover();
        let lists = futures::future::join_all(self.streams.iter().map(|stream| {
            let listing = stream.source.list_shards();
            async move { tokio::time::timeout(patience, listing).await }
        }));
        let view = tokio::time::timeout(patience, self.table.list(Consistency::Strong));
        let (view, lists) = futures::future::join(view, lists).await;
        let view = match view {
            Ok(Ok(view)) => view,
            Ok(Err(TableError::Refused(reason))) => {
                let what = "the lease table cannot be read".to_owned();
                return Err(RunError::Refused { what, reason });
            }
            Ok(Err(error)) => return Ok(Checked::NotNow(format!("the lease table: {error}"))),
            Err(_) => return Ok(Checked::NotNow("the lease table does not answer".into())),
        };
        let mut shards = Vec::new();
        for (stream, listed) in self.streams.iter().zip(lists) {
            match listed {
                Ok(Ok(listed)) if listed.is_empty() => {
                    return Ok(Checked::NotNow(format!(
                        "stream {} has no shards",
                        stream.name
                    )));
                }
                Ok(Ok(listed)) => shards.push(Shards::new(listed)),
                Ok(Err(error)) => return stream.cannot_list(error),
                Err(_) => {
                    return Ok(Checked::NotNow(format!(
                        "stream {} does not answer",
                        stream.name
                    )));
                }
            }
        }
        let known: Vec<Known<'_>> = self
            .streams
            .iter()
            .zip(&shards)
            .map(|(stream, shards)| Known {
                id: stream.lease.id.as_ref(),
                made_for: &stream.lease.made_for,
                shards,
            })
            .collect();
        belongs::check(&view.leases, &known)?;
        Ok(Checked::Good)
    }

    fn coordinator(self, session: Session, mut random: Random) -> Coordinator<T, S, F> {
        let (reports, reported) = mpsc::unbounded_channel();
        let now = Now {
            mono: self.clock.mono(),
            wall: self.clock.wall(),
        };
        let settings = Settings {
            me: self.id.clone(),
            session,
            timing: self.timing,
            max_leases: self.max_leases,
            streams: self
                .streams
                .iter()
                .map(|stream| stream.lease.clone())
                .collect(),
        };
        let calls = Calls {
            table: self.table,
            sources: self
                .streams
                .iter()
                .map(|stream| stream.source.clone())
                .collect(),
            starts: self
                .streams
                .iter()
                .map(|stream| stream.lease.start)
                .collect(),
            me: self.id,
            timing: self.timing,
            clock: self.clock.clone(),
            last_row: Arc::default(),
        };
        let herd = Herd {
            streams: self
                .streams
                .into_iter()
                .map(|stream| Pasture {
                    name: stream.name,
                    source: stream.source,
                    delivery: stream.delivery,
                })
                .collect(),
            factory: self.processors,
            reports,
            budget: self.budget,
            clock: self.clock.clone(),
            random: random.fork(),
            stuck_after: self.stuck_after,
            data: self.data,
            members: BTreeMap::new(),
        };
        Coordinator {
            leases: Leases::new(settings, now),
            calls,
            herd,
            reports: reported,
            table_answered: now.mono,
            clock: self.clock,
            health: self.health,
            pulse: self.pulse,
            deadline: self.deadline,
            callers: Callers::default(),
        }
    }
}

enum Checked {
    Good,
    NotNow(String),
}

impl<S> Stream<S> {
    fn cannot_list(&self, error: SourceError) -> Result<Checked, RunError> {
        match error {
            SourceError::NotFound(reason) => Err(RunError::NoStream {
                stream: self.name.clone(),
                reason,
            }),
            SourceError::Denied(reason) => Err(RunError::Refused {
                what: format!("stream {} cannot be read", self.name),
                reason,
            }),
            error => Ok(Checked::NotNow(format!("stream {}: {error}", self.name))),
        }
    }
}
