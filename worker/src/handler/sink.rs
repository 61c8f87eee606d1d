//! The built-in handlers `stdout` and `jsonl`: one JSON object a line for each user record.
//!
//! All shards of a process share one output. A batch counts as done when its lines are written and, for a file,
//! flushed to disk (`fdatasync`); batches of several shards that come together share one flush. Lines are written
//! whole: what a crash or a full disk tore off is closed by a line break before the next write, so a reader skips at
//! most lines that are no JSON – their records come again.

mod line;
mod writer;

use tokio::sync::{mpsc, oneshot};

use crate::{
    config::{Handler, Payload, Sink, WorkerId},
    handler::{Batch, Checkpointer, HandlerError, Processor, ProcessorFactory, ShardContext},
};
use line::write_line;
pub use writer::WriterEnd;
use writer::{Job, Target};

/// The output could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("handler.path: cannot open {path}: {source}")]
pub struct OpenError {
    path: String,
    source: std::io::Error,
}

/// Where lines go. Clones are the same output.
#[derive(Clone, Debug)]
pub struct Output {
    jobs: mpsc::Sender<Job>,
    payload: Payload,
}

impl Output {
    /// Opens what the configuration names, and returns the task that writes. It ends when the last clone is gone, or when
    /// whoever read the standard output is: then every later batch fails.
    ///
    /// # Errors
    /// When the file cannot be opened for appending.
    pub fn open(
        handler: &Handler,
        worker: &WorkerId,
    ) -> Result<(Self, impl Future<Output = WriterEnd> + Send + use<>), OpenError> {
        let Handler::Sink { sink, payload } = handler;
        let target = match sink {
            Sink::Stdout => Target::stdout(),
            Sink::Jsonl { path } => {
                let path = path.expand(worker, std::process::id());
                Target::file(&path).map_err(|source| OpenError {
                    path: path.display().to_string(),
                    source,
                })?
            }
        };
        let (jobs, incoming) = mpsc::channel(1024);
        let output = Output {
            jobs,
            payload: *payload,
        };
        Ok((output, writer::write(target, incoming)))
    }

    async fn write(&self, lines: Vec<u8>) -> Result<(), HandlerError> {
        let (done, written) = oneshot::channel();
        let job = Job { lines, done };
        if self.jobs.send(job).await.is_err() {
            return Err("the output is closed".into());
        }
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err("the output is closed".into()),
        }
    }
}

/// Makes a processor per shard, all with one output.
#[derive(Clone, Debug)]
pub struct SinkFactory {
    output: Output,
}

impl SinkFactory {
    /// Of this output.
    pub fn new(output: Output) -> Self {
        SinkFactory { output }
    }
}

impl ProcessorFactory for SinkFactory {
    type Processor = SinkProcessor;

    fn processor(&self, shard: &ShardContext) -> SinkProcessor {
        SinkProcessor {
            output: self.output.clone(),
            stream: shard.stream.clone(),
            shard: shard.shard.to_string(),
        }
    }
}

/// Writes the records of one shard.
#[derive(Debug)]
pub struct SinkProcessor {
    output: Output,
    stream: String,
    shard: String,
}

impl Processor for SinkProcessor {
    async fn process(&mut self, batch: &Batch, _: &Checkpointer) -> Result<(), HandlerError> {
        let bytes: usize = batch.records.iter().map(|record| record.data.len()).sum();
        let mut lines = Vec::with_capacity(bytes + bytes / 4 + batch.records.len() * 256);
        for record in &batch.records {
            write_line(
                &mut lines,
                &self.stream,
                &self.shard,
                record,
                self.output.payload,
            );
        }
        self.output.write(lines).await
    }
}
