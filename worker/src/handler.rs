//! Seam: what is done with records. Rust users implement [`Processor`]; the built-in ones are in `handler/`.
//!
//! One processor serves one *tenure*: this worker's uninterrupted hold of one shard. Calls never overlap. A batch that
//! fails is handed over again, after a wait, for as long as the shard is held: a checkpoint never passes a record whose
//! batch did not succeed.

mod lag;
pub mod progress;
pub mod sink;

use std::{error::Error, future::Future, time::Duration};

use checkpoint::{Position, UserRecord};
use lease::{ShardId, renew::Tenure};

pub use progress::{CheckpointError, Checkpointer};

/// Whatever a handler fails with. The text goes to the log.
pub type HandlerError = Box<dyn Error + Send + Sync>;

/// Makes a processor for each shard that this worker comes to hold.
pub trait ProcessorFactory: Send + Sync + 'static {
    /// What it makes.
    type Processor: Processor;

    /// A processor for this tenure of this shard.
    fn processor(&self, shard: &ShardContext) -> Self::Processor;
}

impl<P: Processor, F: Fn(&ShardContext) -> P + Send + Sync + 'static> ProcessorFactory for F {
    type Processor = P;

    fn processor(&self, shard: &ShardContext) -> P {
        self(shard)
    }
}

/// What a processor is for.
#[derive(Clone, Debug)]
pub struct ShardContext {
    /// The stream's name.
    pub stream: String,
    /// The shard.
    pub shard: ShardId,
    /// A number that rises with every change of hands: whatever this tenure writes elsewhere can carry it, so that
    /// the writes of a former holder are recognised.
    pub tenure: Tenure,
    /// Everything up to and including this position was done before.
    pub resumed_at: Position,
}

/// Some user records of one shard, in order.
#[derive(Debug)]
pub struct Batch {
    /// At least one.
    pub records: Vec<UserRecord>,
    /// How far the shard's reader is behind its tip.
    pub behind: Duration,
    /// 1 for the first time, more when a former try failed.
    pub attempt: u32,
}

/// When a successful batch counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Commit {
    /// As soon as [`Processor::process`] returns `Ok`: the worker stores the position in its own time.
    #[default]
    Auto,
    /// When the processor says so through the [`Checkpointer`].
    Manual,
}

/// Handles the records of one shard, one batch after the other.
pub trait Processor: Send + 'static {
    /// When a batch counts as done.
    fn commit(&self) -> Commit {
        Commit::Auto
    }

    /// Called once before the first batch. Called again, after a wait, when it fails.
    fn initialize(
        &mut self,
        shard: &ShardContext,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send {
        let _ = shard;
        async { Ok(()) }
    }

    /// Handles a batch. The future is dropped when the lease is lost: nothing after its next `await` runs then.
    fn process(
        &mut self,
        batch: &Batch,
        checkpointer: &Checkpointer,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send;

    /// All records of the shard were handled. With [`Commit::Manual`] the checkpointer must be called once more, else
    /// this is called again: only then may the shard's children be read.
    fn shard_ended(
        &mut self,
        checkpointer: &Checkpointer,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send {
        let _ = checkpointer;
        async { Ok(()) }
    }

    /// The worker gives the lease away after this; the last chance to checkpoint.
    fn shutdown_requested(
        &mut self,
        checkpointer: &Checkpointer,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send {
        let _ = checkpointer;
        async { Ok(()) }
    }

    /// The lease is lost: another worker reads the shard by now, or soon. Checkpoints are no longer possible.
    fn lease_lost(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }
}
