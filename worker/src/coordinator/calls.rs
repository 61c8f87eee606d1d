//! Calls to the outside on behalf of the state machine. Each has a deadline; what did not answer by then has no clear
//! answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use lease::{
    Table, TableError, Timing, WorkerId, WorkerRow, Write,
    leases::{Action, Event},
    sync::Start,
};

use crate::{
    metrics::{self, LeaseOperation, Service, WriteResult},
    source::Source,
};

/// What came of a call.
pub(crate) enum Answer {
    /// Something for the machine.
    Event(Box<Event>),
    /// Nothing that anybody waits for.
    Nothing,
}

impl Answer {
    fn event(event: Event) -> Self {
        Answer::Event(Box::new(event))
    }
}

/// The table and the streams.
pub(crate) struct Calls<T, S> {
    pub(crate) table: Arc<T>,
    pub(crate) sources: Vec<Arc<S>>,
    pub(crate) starts: Vec<Start>,
    pub(crate) me: WorkerId,
    pub(crate) timing: Timing,
    pub(crate) clock: crate::clock::Clock,
    /// `lut` of the own row, as last written.
    pub(crate) last_row: Arc<AtomicI64>,
}

impl<T: Table, S: Source> Calls<T, S> {
    /// The future of a call; `None` for what is not a call.
    pub(crate) fn start(&self, action: Action, wall: i64) -> Option<BoxFuture<'static, Answer>> {
        let table = self.table.clone();
        let patience = self.timing.request_timeout();
        Some(match action {
            Action::List(consistency) => {
                // A whole table takes more than one request.
                let patience = self.timing.failover();
                Box::pin(async move {
                    let result = within(patience, "Scan", table.list(consistency)).await;
                    Answer::event(Event::Listed(result))
                })
            }
            Action::ListShards(stream) => self.list_shards(stream),
            Action::Write(id, write) => {
                let clock = self.clock.clone();
                Box::pin(async move {
                    let sent = clock.mono();
                    let result = within(patience, "UpdateItem", table.write(&write)).await;
                    let took = clock.mono().since(sent);
                    metrics::lease_written(operation(&write), outcome(&result), took);
                    Answer::event(Event::Written { id, result })
                })
            }
            Action::Read(key) => Box::pin(async move {
                let result = within(patience, "GetItem", table.get(&key)).await;
                Answer::event(Event::Read { key, result })
            }),
            Action::Lock(write) => {
                let clock = self.clock.clone();
                Box::pin(async move {
                    let sent = clock.mono();
                    let result = within(patience, "UpdateItem", table.lock(&write)).await;
                    let took = clock.mono().since(sent);
                    metrics::lease_written(LeaseOperation::Lead, outcome(&result), took);
                    Answer::event(Event::Locked(result))
                })
            }
            Action::PutWorker { every, leaving } => {
                let updated = wall.div_euclid(1_000);
                self.last_row.store(updated, Ordering::Relaxed);
                let row = WorkerRow {
                    id: self.me.clone(),
                    updated,
                    every: Some(every),
                    leaving,
                };
                Box::pin(async move {
                    let result = within(patience, "UpdateItem", table.put_worker(&row)).await;
                    Answer::event(Event::WorkerPut(result.is_ok()))
                })
            }
            Action::RemoveWorker { id, updated } => {
                let updated = updated.unwrap_or_else(|| self.last_row.load(Ordering::Relaxed));
                Box::pin(async move {
                    // A row that stays is removed by a later leader.
                    let _ = within(patience, "DeleteItem", table.remove_worker(&id, updated)).await;
                    Answer::Nothing
                })
            }
            _ => return None,
        })
    }

    fn list_shards(&self, stream: usize) -> BoxFuture<'static, Answer> {
        let source = self.sources[stream].clone();
        let start = self.starts[stream];
        let patience = Duration::from_secs(30);
        Box::pin(async move {
            let ask = async {
                let shards = source.list_shards().await?;
                let open = match start {
                    Start::AtTimestamp(at) => Some(source.open_at(at).await?),
                    _ => None,
                };
                Ok::<_, crate::source::SourceError>((shards, open))
            };
            let shards = match tokio::time::timeout(patience, ask).await {
                Ok(Ok(shards)) => Some(shards),
                Ok(Err(error)) => {
                    tracing::warn!("cannot list the shards: {error}");
                    None
                }
                Err(_) => {
                    tracing::warn!("cannot list the shards: no answer within {patience:?}");
                    None
                }
            };
            Answer::event(Event::ShardsListed { stream, shards })
        })
    }
}

/// A call that does not answer in time may have been carried out.
async fn within<R>(
    patience: Duration,
    operation: &'static str,
    call: impl Future<Output = Result<R, TableError>>,
) -> Result<R, TableError> {
    let result = tokio::time::timeout(patience, call)
        .await
        .unwrap_or_else(|_| {
            Err(TableError::Unknown(format!(
                "no answer within {patience:?}"
            )))
        });
    if let Err(TableError::Throttled(_)) = &result {
        metrics::throttled(Service::DynamoDb, operation);
    }
    result
}

fn operation(write: &Write) -> LeaseOperation {
    match write {
        Write::Create(_) => LeaseOperation::Create,
        Write::Renew(renew) if renew.checkpoint == Some(checkpoint::Position::ShardEnd) => {
            LeaseOperation::ShardEnd
        }
        Write::Renew(_) => LeaseOperation::Renew,
        Write::Acquire(_) => LeaseOperation::Acquire,
        Write::Take { .. } => LeaseOperation::Take,
        Write::Assign(_) => LeaseOperation::Assign,
        Write::HandOff { .. } => LeaseOperation::HandOff,
        Write::HeirReady { .. } => LeaseOperation::HeirReady,
        Write::Complete { .. } => LeaseOperation::Complete,
        Write::Release(_) => LeaseOperation::Release,
        Write::Delete { .. } => LeaseOperation::Delete,
    }
}

fn outcome<R>(result: &Result<R, TableError>) -> WriteResult {
    match result {
        Ok(_) => WriteResult::Ok,
        Err(TableError::Changed(_)) => WriteResult::Conflict,
        Err(TableError::Throttled(_)) => WriteResult::Throttled,
        Err(TableError::Unknown(_)) => WriteResult::Unknown,
        Err(_) => WriteResult::Error,
    }
}
