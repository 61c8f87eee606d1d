//! The handlers of a world: they note what they get, take their time, fail, hang and panic.

use std::{sync::Arc, time::Duration};

use checkpoint::{Position, UserRecord};
use shardkeeper::handler::{
    Batch, CheckpointError, Checkpointer, Commit, HandlerError, Processor, ShardContext,
};

use super::{
    gate::Gate,
    history::{Event, Holder, Process, Return},
    stage::Scene,
};

/// What a handler that is made to panic panics with.
#[derive(Debug)]
pub struct Planned;

/// The handler of one tenure.
pub struct Handler {
    scene: Arc<Scene>,
    holder: Holder,
    gate: Gate,
    /// The last record of the last batch that succeeded.
    done: Option<UserRecord>,
}

/// A call that is under way; cut off unless it says otherwise.
struct Call {
    scene: Arc<Scene>,
    by: Holder,
    gate: Gate,
    how: Return,
}

impl Drop for Call {
    fn drop(&mut self) {
        // The dead tell nothing.
        if !self.gate.is_killed() {
            self.scene.record(Event::Returned {
                by: self.by.clone(),
                how: self.how,
            });
        }
    }
}

/// What a payload says; for bytes that are no text, a digest of them (FNV-1a).
pub(crate) fn text(payload: &[u8]) -> String {
    std::str::from_utf8(payload).map_or_else(
        |_| {
            let digest = payload
                .iter()
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
                });
            format!("bytes-{digest:016x}")
        },
        str::to_owned,
    )
}

impl Handler {
    /// For a tenure of a process.
    pub fn new(scene: &Arc<Scene>, process: Process, gate: &Gate, shard: &ShardContext) -> Self {
        Handler {
            scene: scene.clone(),
            holder: Holder {
                shard: shard.shard.clone(),
                tenure: shard.tenure,
                process,
            },
            gate: gate.clone(),
            done: None,
        }
    }

    fn begin(&self, batch: &Batch) -> Call {
        let record = |record: &UserRecord| (record.position(), text(&record.data));
        self.scene.record(Event::Handed {
            by: self.holder.clone(),
            attempt: batch.attempt,
            records: batch.records.iter().map(record).collect(),
        });
        Call {
            scene: self.scene.clone(),
            by: self.holder.clone(),
            gate: self.gate.clone(),
            how: Return::Dropped,
        }
    }

    /// Whatever this handler does with its time, and how it ends.
    async fn toil(&self) -> Result<(), HandlerError> {
        let (scene, odds) = (&self.scene, self.scene.handler_odds());
        let longest = if scene.strikes("handler_slow", odds.slow) {
            scene.plan.failover * 3 / 2
        } else {
            Duration::from_millis(20)
        };
        let wait = scene.dice.between(Duration::ZERO, longest);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        if scene.strikes("handler_hang", odds.hang) {
            std::future::pending::<()>().await;
        }
        if scene.strikes("handler_panic", odds.panic) {
            // Not `panic!`: nothing is to be printed.
            std::panic::resume_unwind(Box::new(Planned));
        }
        if scene.strikes("handler_failed", odds.failed) {
            return Err("simulated".into());
        }
        Ok(())
    }

    fn settled(&self, through: &Position) {
        self.scene.record(Event::Settled {
            by: self.holder.clone(),
            through: through.clone(),
        });
    }

    /// Checkpoints at a place of the batch, in one of the ways there are.
    async fn checkpoint_somewhere(
        &self,
        batch: &Batch,
        checkpointer: &Checkpointer,
    ) -> Result<(), HandlerError> {
        let dice = &self.scene.dice;
        let record = &batch.records[dice.index(batch.records.len())];
        let (way, through) = match dice.below(3) {
            0 => (0, record.position()),
            1 => (1, Position::at(record.sequence.clone(), 0)),
            _ => (2, record.position()),
        };
        self.settled(&through);
        let answer = match way {
            0 => checkpointer.checkpoint_record(record).await,
            1 => checkpointer.checkpoint_sequence(&record.sequence).await,
            _ => {
                let sub_sequence = record.sub_sequence;
                checkpointer
                    .checkpoint_at(&record.sequence, sub_sequence)
                    .await
            }
        };
        self.confirmed(answer, through)
    }

    /// Everything up to the last record is done.
    async fn checkpoint_all(
        &self,
        last: &UserRecord,
        checkpointer: &Checkpointer,
    ) -> Result<(), HandlerError> {
        self.settled(&last.position());
        let answer = checkpointer.checkpoint().await;
        self.confirmed(answer, last.position())
    }

    fn confirmed(
        &self,
        answer: Result<(), CheckpointError>,
        through: Position,
    ) -> Result<(), HandlerError> {
        match answer {
            Ok(()) => {
                self.scene.record(Event::Confirmed {
                    by: self.holder.clone(),
                    through,
                });
                Ok(())
            }
            // An earlier call went further.
            Err(CheckpointError::OutOfRange(_)) => Ok(()),
            Err(error @ CheckpointError::LeaseLost) => Err(error.into()),
        }
    }

    async fn work(&self, batch: &Batch, checkpointer: &Checkpointer) -> Result<(), HandlerError> {
        self.toil().await?;
        let last = batch.records.last().expect("a batch has records");
        if !self.scene.plan.manual {
            self.settled(&last.position());
            return Ok(());
        }
        if !self.scene.calm() && self.scene.dice.chance(0.5) {
            self.checkpoint_somewhere(batch, checkpointer).await?;
            // What fails after a checkpoint comes again as a whole.
            self.toil().await?;
        }
        if self.scene.calm() || self.scene.dice.chance(0.3) {
            self.checkpoint_all(last, checkpointer).await?;
        }
        Ok(())
    }
}

impl Processor for Handler {
    fn commit(&self) -> Commit {
        if self.scene.plan.manual {
            Commit::Manual
        } else {
            Commit::Auto
        }
    }

    async fn initialize(&mut self, _: &ShardContext) -> Result<(), HandlerError> {
        self.toil().await
    }

    async fn process(
        &mut self,
        batch: &Batch,
        checkpointer: &Checkpointer,
    ) -> Result<(), HandlerError> {
        let mut call = self.begin(batch);
        let result = self.work(batch, checkpointer).await;
        call.how = if result.is_ok() {
            Return::Ok
        } else {
            Return::Failed
        };
        if result.is_ok() {
            self.done = batch.records.last().cloned();
        }
        result
    }

    async fn shard_ended(&mut self, checkpointer: &Checkpointer) -> Result<(), HandlerError> {
        self.toil().await?;
        if self.scene.plan.manual && (self.scene.calm() || self.scene.dice.chance(0.7)) {
            self.settled(&Position::ShardEnd);
            // At the end, a checkpoint of the last record is one of the end.
            match &self.done {
                Some(last) if self.scene.dice.chance(0.5) => {
                    checkpointer.checkpoint_record(last).await?;
                }
                _ => checkpointer.checkpoint().await?,
            }
        }
        Ok(())
    }

    async fn shutdown_requested(
        &mut self,
        checkpointer: &Checkpointer,
    ) -> Result<(), HandlerError> {
        self.toil().await?;
        if let Some(done) = &self.done
            && self.scene.plan.manual
            && self.scene.dice.chance(0.7)
        {
            self.settled(&done.position());
            let answer = checkpointer.checkpoint_record(done).await;
            self.confirmed(answer, done.position())?;
        }
        Ok(())
    }

    async fn lease_lost(&mut self) {
        let longest = self.scene.plan.failover;
        tokio::time::sleep(self.scene.dice.between(Duration::ZERO, longest)).await;
        if self
            .scene
            .strikes("handler_hang", self.scene.handler_odds().hang)
        {
            std::future::pending::<()>().await;
        }
    }
}
