//! Wire: the lease table in DynamoDB, as the Java KCL 3.5 lays it out.
//!
//! ```text
//! Write ─▶ request ─▶ expression ─▶ one SDK call ─▶ item ─▶ the row as it is then
//!                                        └──────▶ error ─▶ TableError
//! ```
//!
//! Every call is one attempt and decides nothing. Writes are conditional and change only their own attributes, so Java
//! workers can use the same table at the same time.

mod check;
mod error;
mod expression;
mod item;
mod request;
mod setup;
mod shape;

use std::{
    collections::HashMap,
    sync::atomic::{AtomicI32, Ordering},
};

use aws_sdk_dynamodb::{
    Client,
    config::retry::RetryConfig,
    types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use futures::future::try_join_all;

pub use self::{
    check::{Access, Check, Permission},
    error::with_causes,
    setup::{Ensured, SetupWarning},
};
use self::{
    error::Failure,
    item::{Item, Row},
    request::Request,
};
use crate::{
    id::{LeaseKey, WorkerId},
    lease::Lease,
    table::{Consistency, Lock, LockWrite, Table, TableError, Unreadable, View, WorkerRow},
    write::Write,
};

/// Reads a row as a list does: `None` where it is no lease. For tests that feed it whatever attributes they like.
///
/// # Errors
/// When it is a lease, the lock or a worker's row, and one of its attributes is missing or wrong.
#[doc(hidden)]
pub fn read_item(item: &HashMap<String, AttributeValue>) -> Result<Option<Lease>, Unreadable> {
    Ok(match item::read(item)? {
        Row::Lease(lease) => Some(*lease),
        Row::Lock(_) | Row::Worker(_) | Row::Other(_) => None,
    })
}

/// The row that makes a lease. For the same tests.
#[doc(hidden)]
pub fn write_item(lease: &Lease) -> HashMap<String, AttributeValue> {
    item::lease_item(lease)
}

/// Rows that one page of a Scan holds at least: a page is 1 MiB, a lease row rarely above 500 bytes.
const ROWS_A_PAGE: usize = 2_000;
/// Pages of a large table that are read at the same time.
const MOST_SEGMENTS: usize = 16;

/// The lease table in DynamoDB.
#[derive(Debug)]
pub struct DynamoTable {
    client: Client,
    name: String,
    /// Pages that the next list reads at the same time, by the size of the last one.
    segments: AtomicI32,
}

impl DynamoTable {
    /// A table that may not exist yet; see [`DynamoTable::ensure`].
    ///
    /// Region, credentials, endpoint, HTTP client and **time-outs** are the caller's: an attempt must end well within
    /// the failover time, or a hung call costs the lease. The SDK's retries are switched off here, whatever the client
    /// says: a retry of a write whose first answer was lost fails on its own effect, and would report as lost to
    /// another worker what was won.
    pub fn new(client: &Client, name: impl Into<String>) -> Self {
        let once = client
            .config()
            .to_builder()
            .retry_config(RetryConfig::disabled())
            .build();
        DynamoTable {
            client: Client::from_conf(once),
            name: name.into(),
            segments: AtomicI32::new(1),
        }
    }

    /// The name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Every row of one segment, page after page.
    async fn scan(
        &self,
        consistency: Consistency,
        segment: i32,
        segments: i32,
    ) -> Result<Vec<Item>, TableError> {
        let mut rows = Vec::new();
        let mut from = None;
        loop {
            let page = self
                .client
                .scan()
                .table_name(&self.name)
                .consistent_read(consistency == Consistency::Strong)
                .segment(segment)
                .total_segments(segments)
                .set_exclusive_start_key(from)
                .send()
                .await
                .map_err(|error| error::of_call("Scan", &error))?;
            rows.extend(page.items.ok_or_else(|| nothing("Scan"))?);
            from = page.last_evaluated_key.filter(|key| !key.is_empty());
            if from.is_none() {
                return Ok(rows);
            }
        }
    }

    /// Sends a conditional write. The row as it is then: what an update answers, what a put wrote.
    async fn send(&self, request: Request) -> Result<Option<Item>, Failure> {
        let all_old = ReturnValuesOnConditionCheckFailure::AllOld;
        match request {
            Request::Put(item, when) => {
                let call = self.client.put_item().table_name(&self.name);
                call.set_item(Some(item.clone()))
                    .set_condition_expression(when.condition())
                    .set_expression_attribute_values(when.some_values())
                    .set_expression_attribute_names(Some(when.names))
                    .return_values_on_condition_check_failure(all_old)
                    .send()
                    .await
                    .map_err(|error| error::of_write("PutItem", &error))?;
                Ok(Some(item))
            }
            Request::Update(key, change) => {
                let call = self.client.update_item().table_name(&self.name);
                let answer = call
                    .set_key(Some(item::key(&key)))
                    .update_expression(change.update())
                    .set_condition_expression(change.condition())
                    .set_expression_attribute_values(change.some_values())
                    .set_expression_attribute_names(Some(change.names))
                    .return_values(ReturnValue::AllNew)
                    .return_values_on_condition_check_failure(all_old)
                    .send()
                    .await
                    .map_err(|error| error::of_write("UpdateItem", &error))?;
                let row = answer.attributes;
                Ok(Some(
                    row.ok_or_else(|| Failure::Call(nothing("UpdateItem")))?,
                ))
            }
            Request::Delete(key, when) => {
                let call = self.client.delete_item().table_name(&self.name);
                call.set_key(Some(item::key(&key)))
                    .set_condition_expression(when.condition())
                    .set_expression_attribute_values(when.some_values())
                    .set_expression_attribute_names(Some(when.names))
                    .return_values_on_condition_check_failure(all_old)
                    .send()
                    .await
                    .map_err(|error| error::of_write("DeleteItem", &error))?;
                Ok(None)
            }
        }
    }
}

/// A success that lacks what every answer has. The SDK reads even an empty body as one in which nothing is present, and
/// that must not pass for a table without rows, nor for a row that is gone.
fn nothing(operation: &str) -> TableError {
    TableError::Unknown(format!("{operation} answered nothing"))
}

impl Table for DynamoTable {
    /// A large table is read in several segments at the same time. Not one moment: a row that changes meanwhile may be
    /// seen before or after, which every conditional write will notice.
    async fn list(&self, consistency: Consistency) -> Result<View, TableError> {
        let segments = self.segments.load(Ordering::Relaxed);
        let scans = (0..segments).map(|segment| self.scan(consistency, segment, segments));
        let rows: Vec<Item> = try_join_all(scans).await?.into_iter().flatten().collect();
        self.segments
            .store(segments_for(rows.len()), Ordering::Relaxed);
        Ok(view(&rows))
    }

    async fn get(&self, key: &LeaseKey) -> Result<Option<Lease>, TableError> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.name)
            .set_key(Some(item::key(key.as_str())))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| error::of_call("GetItem", &error))?;
        let row = answer.item.as_ref().map(item::read_as_lease).transpose()?;
        Ok(row)
    }

    async fn write(&self, write: &Write) -> Result<Option<Lease>, TableError> {
        let answer = self.send(request::lease_write(write)).await;
        let row = answer.map_err(Failure::of_lease)?;
        Ok(row.as_ref().map(item::read_as_lease).transpose()?)
    }

    async fn lock(&self, write: &LockWrite) -> Result<Option<Lock>, TableError> {
        let answer = self.send(request::lock_write(write)).await;
        let row = answer.map_err(Failure::of_other)?;
        Ok(row.as_ref().map(item::read_as_lock).transpose()?)
    }

    async fn put_worker(&self, row: &WorkerRow) -> Result<(), TableError> {
        match self.send(request::worker_write(row)).await {
            Ok(_) => Ok(()),
            Err(Failure::Call(error)) => Err(error),
            Err(Failure::Condition(_)) => Err(TableError::Refused(format!(
                "worker id {:?} is the key of another row of table {}: choose another id",
                row.id.as_str(),
                self.name
            ))),
        }
    }

    async fn remove_worker(&self, worker: &WorkerId, seen_updated: i64) -> Result<(), TableError> {
        let request = request::worker_removal(worker, seen_updated);
        self.send(request).await.map_err(Failure::of_other)?;
        Ok(())
    }
}

/// Sorts rows by kind and by key, as far as they can be read.
fn view(rows: &[Item]) -> View {
    let mut view = View::default();
    for row in rows {
        match item::read(row) {
            Ok(Row::Lease(lease)) => view.leases.push(*lease),
            Ok(Row::Lock(lock)) => view.lock = Some(lock),
            Ok(Row::Worker(worker)) => view.workers.push(worker),
            Ok(Row::Other(_)) => {}
            Err(unreadable) => view.unreadable.push(unreadable),
        }
    }
    view.leases.sort_by(|a, b| a.key.cmp(&b.key));
    view.workers.sort_by(|a, b| a.id.cmp(&b.id));
    view.unreadable.sort_by(|a, b| a.key.cmp(&b.key));
    view
}

/// About one segment for each page of a table of so many rows.
fn segments_for(rows: usize) -> i32 {
    let pages = (rows / ROWS_A_PAGE + 1).min(MOST_SEGMENTS);
    i32::try_from(pages).expect("at most MOST_SEGMENTS")
}

impl From<Unreadable> for TableError {
    fn from(unreadable: Unreadable) -> Self {
        TableError::Unreadable(format!("{}: {}", unreadable.key, unreadable.reason))
    }
}
