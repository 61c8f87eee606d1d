//! One consumer by itself: a stream of five records, a handler that does what it is told, and a coordinator that is the
//! test.

use std::sync::{Mutex, PoisonError};

use checkpoint::{Aggregator, KinesisRecord, Position, PutRecord, SequenceNumber, UserRecord};
use lease::ShardId;

use super::*;
use crate::{
    handler::CheckpointError,
    source::{Page, ShardIterator, SourceError},
};

const FAR: Time = Time::NEVER;

/// Record 1, an aggregate 2 of three, record 3; then the end.
struct Script {
    records: Mutex<Vec<KinesisRecord>>,
    child: Shard,
}

fn aggregate() -> KinesisRecord {
    let mut aggregator = Aggregator::new(1 << 20);
    for _ in 0..3 {
        let put = PutRecord {
            partition_key: "key".into(),
            explicit_hash_key: None,
            data: "data".into(),
        };
        aggregator.add(put).expect("there is room");
    }
    let data = aggregator.finish().expect("not empty").data;
    KinesisRecord::new(SequenceNumber::from(2), "a", data)
}

fn script() -> Script {
    let plain = |sequence: u128| KinesisRecord::new(SequenceNumber::from(sequence), "key", "data");
    Script {
        records: Mutex::new(vec![plain(1), aggregate(), plain(3)]),
        child: Shard {
            id: "child".into(),
            parents: [ShardId::from("shard")].into(),
            range: HashRange::FULL,
            starting_sequence: None,
            closed: false,
        },
    }
}

impl Source for Script {
    async fn list_shards(&self) -> Result<Vec<Shard>, SourceError> {
        Ok(vec![self.child.clone()])
    }

    async fn open_at(&self, _: i64) -> Result<std::collections::BTreeSet<ShardId>, SourceError> {
        Ok(std::collections::BTreeSet::new())
    }

    async fn iterator(&self, _: &ShardId, _: &From) -> Result<ShardIterator, SourceError> {
        Ok(ShardIterator("iterator".into()))
    }

    async fn records(&self, _: &ShardIterator, _: u32) -> Result<Page, SourceError> {
        let records =
            std::mem::take(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Page {
            records,
            children: vec![self.child.clone()],
            ..Page::default()
        })
    }
}

/// How the handler behaves.
#[derive(Clone, Copy, Default)]
struct Manner {
    commit: Commit,
    /// So many calls of `process` fail first.
    failures: u32,
    hangs: bool,
    /// Calls of `shard_ended` that return without a checkpoint.
    forgets: u32,
    /// Calls of `shard_ended` that fail after it.
    fails_at_end: bool,
    /// It checkpoints when it is told to go.
    last_chance: bool,
}

struct Handler {
    manner: Manner,
    calls: mpsc::UnboundedSender<String>,
    last: Option<UserRecord>,
}

impl Handler {
    fn say(&self, what: impl Into<String>) {
        let _ = self.calls.send(what.into());
    }
}

impl Processor for Handler {
    fn commit(&self) -> Commit {
        self.manner.commit
    }

    async fn process(&mut self, batch: &Batch, _: &Checkpointer) -> Result<(), HandlerError> {
        self.say(format!(
            "process {} #{}",
            batch.records.len(),
            batch.attempt
        ));
        if self.manner.hangs {
            std::future::pending::<()>().await;
        }
        if self.manner.failures > 0 {
            self.manner.failures -= 1;
            return Err("told to".into());
        }
        self.last = batch.records.last().cloned();
        Ok(())
    }

    async fn shard_ended(&mut self, checkpointer: &Checkpointer) -> Result<(), HandlerError> {
        self.say("shard_ended");
        if self.manner.forgets > 0 {
            self.manner.forgets -= 1;
            return Ok(());
        }
        // The last record, not the end: that must do (hazard 7 of the record hazards).
        let last = self.last.as_ref().expect("there was a batch");
        checkpointer.checkpoint_record(last).await?;
        if self.manner.fails_at_end {
            return Err("told to".into());
        }
        Ok(())
    }

    async fn shutdown_requested(
        &mut self,
        checkpointer: &Checkpointer,
    ) -> Result<(), HandlerError> {
        self.say("shutdown_requested");
        if self.manner.last_chance {
            checkpointer.checkpoint().await?;
            self.say("stored");
        }
        Ok(())
    }

    async fn lease_lost(&mut self) {
        self.say("lease_lost");
    }
}

/// The consumer under test, from outside.
struct Stage {
    progress: Arc<Progress>,
    halt: watch::Sender<Option<Halt>>,
    reports: mpsc::UnboundedReceiver<Report>,
    calls: mpsc::UnboundedReceiver<String>,
}

fn stage(manner: Manner, valid_until: Time) -> Stage {
    let lease = Box::new(Lease::new(None, "shard".into(), Position::TrimHorizon));
    let progress = Arc::new(Progress::new(lease.checkpoint.clone(), valid_until));
    let (halt, told) = watch::channel(None);
    let (say, reports) = mpsc::unbounded_channel();
    let (call, calls) = mpsc::unbounded_channel();
    let parts = Parts {
        context: ShardContext {
            stream: "orders".into(),
            shard: lease.shard.clone(),
            tenure: 7,
            resumed_at: lease.checkpoint.clone(),
        },
        lease,
        delivery: Delivery {
            pace: Pace {
                min: Duration::from_millis(200),
                max: Duration::from_secs(1),
                limit: 100,
            },
            batch: BatchLimits {
                records: 100,
                bytes: 1 << 20,
                wait: Duration::ZERO,
            },
            retry: (Duration::from_millis(100), Duration::from_secs(1)),
            hash_range: HashRangePolicy::DropRecord,
            retention: None,
        },
        source: Arc::new(script()),
        processor: Handler {
            manner,
            calls: call,
            last: None,
        },
        progress: progress.clone(),
        reports: say,
        halt: told,
        budget: Budget::new(1 << 24),
        clock: Clock::start(),
        random: Random::seeded(1),
        meter: Meter::new("orders", "shard", None),
        patience: Duration::from_secs(60),
    };
    tokio::spawn(consume(parts));
    Stage {
        progress,
        halt,
        reports,
        calls,
    }
}

impl Stage {
    /// What the handler was called with, for as long as nothing happens for a minute.
    async fn calls(&mut self) -> Vec<String> {
        let mut calls = Vec::new();
        let minute = Duration::from_secs(60);
        while let Ok(Some(call)) = tokio::time::timeout(minute, self.calls.recv()).await {
            calls.push(call);
        }
        calls
    }

    async fn call(&mut self) -> String {
        self.calls.recv().await.expect("the consumer lives")
    }
}

fn at(sequence: u128, sub: u64) -> Position {
    Position::at(sequence.into(), sub)
}

#[tokio::test(start_paused = true)]
async fn a_failed_batch_is_handed_over_again_and_the_position_waits_for_it() {
    let manner = Manner {
        failures: 2,
        ..Manner::default()
    };
    let mut stage = stage(manner, FAR);
    for attempt in 1..=2 {
        assert_eq!(stage.call().await, format!("process 5 #{attempt}"));
        assert_eq!(stage.progress.watermark(), None, "nothing is settled");
    }
    assert_eq!(stage.call().await, "process 5 #3");
    assert_eq!(stage.call().await, "shard_ended");
    assert_eq!(stage.progress.watermark(), Some(at(3, 0)));
    assert!(stage.progress.ended());
}

#[tokio::test(start_paused = true)]
async fn without_belief_nothing_is_handed_over_and_a_late_renewal_is_enough() {
    let mut stage = stage(Manner::default(), Time::ZERO);
    assert!(stage.calls().await.is_empty());
    stage.progress.believe(FAR);
    assert_eq!(stage.call().await, "process 5 #1");
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_cuts_the_handler_off_and_it_is_told() {
    let manner = Manner {
        hangs: true,
        ..Manner::default()
    };
    let mut stage = stage(manner, FAR);
    assert_eq!(stage.call().await, "process 5 #1");
    stage.halt.send_replace(Some(Halt::Lost));
    assert_eq!(stage.call().await, "lease_lost");
    let report = stage.reports.recv().await;
    assert!(
        matches!(report, Some(Report::Stopped { tenure: 7, .. })),
        "{report:?}"
    );
    assert_eq!(stage.progress.watermark(), None);
}

#[tokio::test(start_paused = true)]
async fn told_to_drain_between_two_tries_it_does_not_try_again() {
    let manner = Manner {
        failures: u32::MAX,
        ..Manner::default()
    };
    let mut stage = stage(manner, FAR);
    assert_eq!(stage.call().await, "process 5 #1");
    stage.halt.send_replace(Some(Halt::Drain));
    assert_eq!(stage.calls().await, ["shutdown_requested"]);
    assert!(matches!(
        stage.reports.recv().await,
        Some(Report::Stopped { .. })
    ));
    assert_eq!(
        stage.progress.watermark(),
        None,
        "the batch did not succeed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_shard_ends_when_a_manual_processor_has_checkpointed_its_last_record() {
    let manner = Manner {
        commit: Commit::Manual,
        forgets: 2,
        ..Manner::default()
    };
    let mut stage = stage(manner, FAR);
    let calls = stage.calls().await;
    let ends = calls.iter().filter(|call| *call == "shard_ended").count();
    assert_eq!(ends, 3, "called again until it has checkpointed: {calls:?}");
    let report = stage.reports.recv().await;
    let Some(Report::ShardEnded { children, .. }) = report else {
        panic!("{report:?}");
    };
    assert_eq!(children, [script().child]);
}

#[tokio::test(start_paused = true)]
async fn told_to_drain_at_the_end_of_the_shard_its_last_checkpoint_is_one_of_the_last_record() {
    let manner = Manner {
        commit: Commit::Manual,
        forgets: u32::MAX,
        last_chance: true,
        ..Manner::default()
    };
    let mut stage = stage(manner, FAR);
    while stage.call().await != "shard_ended" {}
    stage.halt.send_replace(Some(Halt::Drain));
    while stage.call().await != "shutdown_requested" {}
    let Some(Report::Checkpoint {
        position, stored, ..
    }) = stage.reports.recv().await
    else {
        panic!("nothing was to be stored");
    };
    assert_eq!(position, at(3, 0));
    stored.send(true).expect("the processor waits");
    assert_eq!(stage.call().await, "stored");
    assert_eq!(stage.progress.watermark(), Some(at(3, 0)));
    let report = stage.reports.recv().await;
    assert!(matches!(report, Some(Report::Stopped { .. })), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_was_settled_and_not_reached_still_settles_the_last_record() {
    let manner = Manner {
        commit: Commit::Manual,
        fails_at_end: true,
        ..Manner::default()
    };
    let mut stage = stage(manner, FAR);
    while stage.call().await != "shard_ended" {}
    stage.halt.send_replace(Some(Halt::Drain));
    while stage.call().await != "shutdown_requested" {}
    let report = stage.reports.recv().await;
    assert!(matches!(report, Some(Report::Stopped { .. })), "{report:?}");
    assert_eq!(stage.progress.watermark(), Some(at(3, 0)));
}

#[tokio::test]
async fn the_four_checkpoint_calls_mean_what_they_mean_in_the_kcl() {
    let record = UserRecord::from(KinesisRecord::new(2.into(), "key", "data"));
    let item = UserRecord {
        sub_sequence: 2,
        aggregated: true,
        ..record
    };
    let two = SequenceNumber::from(2);
    for (call, stored) in [(0, at(3, 0)), (1, at(2, 2)), (2, at(2, 0)), (3, at(2, 1))] {
        let progress = Arc::new(Progress::new(Position::TrimHorizon, FAR));
        progress.hand_over(&at(3, 0));
        let (reports, mut reported) = mpsc::unbounded_channel();
        let checkpointer = Checkpointer {
            key: "shard".into(),
            tenure: 7,
            progress: progress.clone(),
            reports,
        };
        let asked = async {
            match call {
                0 => checkpointer.checkpoint().await,
                1 => checkpointer.checkpoint_record(&item).await,
                2 => checkpointer.checkpoint_sequence(&two).await,
                _ => checkpointer.checkpoint_at(&two, 1).await,
            }
        };
        let answered = async {
            let Some(Report::Checkpoint {
                position, stored, ..
            }) = reported.recv().await
            else {
                panic!("nothing was asked for");
            };
            stored.send(true).expect("the processor waits");
            position
        };
        let (result, position) = tokio::join!(asked, answered);
        assert_eq!((result, position), (Ok(()), stored.clone()));
        assert_eq!(progress.watermark(), Some(stored.clone()));
        // None goes back, none goes beyond what was handed over.
        let before = checkpointer.checkpoint_sequence(&1.into()).await;
        assert!(
            matches!(before, Err(CheckpointError::OutOfRange(_))),
            "{before:?}"
        );
        let beyond = checkpointer.checkpoint_sequence(&4.into()).await;
        assert!(
            matches!(beyond, Err(CheckpointError::OutOfRange(_))),
            "{beyond:?}"
        );
        assert_eq!(progress.watermark(), Some(stored));
    }
}
