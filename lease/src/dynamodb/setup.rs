//! Makes the table what Java and our workers expect it to be, and waits until it serves.
//!
//! | | |
//! |---|---|
//! | key | `leaseKey`, a string, hash; no range |
//! | index | on the lease owner, keys only: Java workers find their leases by it, ours do without |
//! | billing | pay per request, unless provisioned capacity is asked for |
//! | tags, deletion protection | at creation only, as the KCL does |
//! | point-in-time recovery | at every start when asked for, as the KCL does |

use std::{future::Future, time::Duration};

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::{
        create_table::{CreateTableError, builders::CreateTableFluentBuilder},
        describe_table::DescribeTableError,
        update_table::builders::UpdateTableFluentBuilder,
    },
    types::{
        BillingMode, GlobalSecondaryIndexUpdate, PointInTimeRecoverySpecification,
        TableDescription, TableStatus, Tag,
    },
};

use super::{
    DynamoTable, error,
    item::OWNER_INDEX,
    shape::{self, OwnerIndex},
};
use crate::table::{EnsureError, TableError, TableSpec};

/// How long a table may take to become active; the KCL waits as long.
const ACTIVE_WITHIN: Duration = Duration::from_secs(600);
/// How long a young table may answer that its backups are not ready yet.
const BACKUPS_WITHIN: Duration = Duration::from_secs(30);
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A table that serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ensured {
    /// This call made the table.
    pub created: bool,
    /// What could not be done and is no reason not to start.
    pub warnings: Vec<SetupWarning>,
}

/// Something about the table that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupWarning {
    /// The index on the lease owner is missing and could not be added.
    #[error("index {OWNER_INDEX} is missing, and Java workers find no lease without it: {0}")]
    IndexMissing(String),
    /// There is an index of that name with other keys.
    #[error("index {OWNER_INDEX} has other keys than Java workers expect: {0}")]
    IndexForeign(String),
    /// Point-in-time recovery was asked for and could not be switched on.
    #[error("point-in-time recovery is not on: {0}")]
    NoRecovery(String),
}

/// What DescribeTable says.
enum Described {
    Table(Box<TableDescription>),
    Absent,
    /// Throttled; ask again.
    Busy,
}

impl DynamoTable {
    /// Sees to it that the table is there, is a lease table, and is active.
    ///
    /// `wait` is how to wait (`tokio::time::sleep`): first a tenth of a second, then longer, never more than a second.
    ///
    /// # Errors
    /// [`EnsureError::Absent`] and [`EnsureError::Foreign`] are for people to solve; [`EnsureError::Failed`] says
    /// whether another try can help.
    pub async fn ensure<W, F>(&self, spec: &TableSpec, wait: W) -> Result<Ensured, EnsureError>
    where
        W: Fn(Duration) -> F,
        F: Future<Output = ()>,
    {
        let mut ensured = Ensured::default();
        let mut patience = Patience::new(ACTIVE_WITHIN);
        let table = loop {
            match self.describe().await? {
                Described::Table(table) => {
                    self.check_key(&table)?;
                    if self.is_active(&table)? {
                        break table;
                    }
                }
                Described::Absent if !spec.create => {
                    return Err(EnsureError::Absent(self.name.clone()));
                }
                // A table that was just made may stay unseen for a moment; making it again is refused and harmless.
                Described::Absent => ensured.created |= self.create(spec).await?,
                Described::Busy => {}
            }
            let Some(pause) = patience.next() else {
                let reason = format!("not active after {} s", ACTIVE_WITHIN.as_secs());
                return Err(self.failed(reason, true));
            };
            wait(pause).await;
        };
        ensured.warnings.extend(self.ensure_index(&table).await);
        if spec.point_in_time_recovery {
            ensured.warnings.extend(self.ensure_recovery(wait).await);
        }
        Ok(ensured)
    }

    async fn describe(&self) -> Result<Described, EnsureError> {
        let call = self.client.describe_table().table_name(&self.name);
        let error = match call.send().await {
            Ok(answer) => {
                return Ok(answer
                    .table
                    .map_or(Described::Absent, |table| Described::Table(Box::new(table))));
            }
            Err(error) => error,
        };
        if let Some(DescribeTableError::ResourceNotFoundException(_)) = error.as_service_error() {
            return Ok(Described::Absent);
        }
        match error::of_call("DescribeTable", &error) {
            TableError::Throttled(_) => Ok(Described::Busy),
            error => Err(self.call_failed(&error)),
        }
    }

    /// Whether this call made the table: somebody else may be faster, or DynamoDB busy with too many tables.
    async fn create(&self, spec: &TableSpec) -> Result<bool, EnsureError> {
        let call = self
            .creation(spec)
            .map_err(|error| self.failed(error.to_string(), false))?;
        let Err(error) = call.send().await else {
            return Ok(true);
        };
        if let Some(CreateTableError::ResourceInUseException(_)) = error.as_service_error() {
            return Ok(false);
        }
        match error::of_call("CreateTable", &error) {
            TableError::Throttled(_) => Ok(false),
            error => Err(self.call_failed(&error)),
        }
    }

    fn creation(&self, spec: &TableSpec) -> Result<CreateTableFluentBuilder, BuildError> {
        let capacity = spec
            .provisioned
            .map(|(read, write)| shape::capacity(read, write))
            .transpose()?;
        let billing = match &capacity {
            None => BillingMode::PayPerRequest,
            Some(_) => BillingMode::Provisioned,
        };
        let mut call = self
            .client
            .create_table()
            .table_name(&self.name)
            .set_attribute_definitions(Some(shape::attributes()?))
            .set_key_schema(Some(shape::table_keys()?))
            .global_secondary_indexes(shape::index(capacity.clone())?)
            .billing_mode(billing)
            .set_provisioned_throughput(capacity)
            .deletion_protection_enabled(spec.deletion_protection);
        for (key, value) in &spec.tags {
            call = call.tags(Tag::builder().key(key).value(value).build()?);
        }
        Ok(call)
    }

    fn check_key(&self, table: &TableDescription) -> Result<(), EnsureError> {
        match shape::foreign_key(table) {
            None => Ok(()),
            Some(reason) => Err(EnsureError::Foreign {
                table: self.name.clone(),
                reason,
            }),
        }
    }

    /// Whether the table serves. It also does while it is changed; a table on its way out is waited for, and made anew.
    fn is_active(&self, table: &TableDescription) -> Result<bool, EnsureError> {
        match table.table_status() {
            Some(TableStatus::Active | TableStatus::Updating) => Ok(true),
            None | Some(TableStatus::Creating | TableStatus::Deleting) => Ok(false),
            Some(status) => Err(self.failed(format!("its status is {status}"), false)),
        }
    }

    /// Adds the index if it is missing. Its filling is not waited for: only Java workers read it.
    async fn ensure_index(&self, table: &TableDescription) -> Option<SetupWarning> {
        match shape::owner_index(table) {
            OwnerIndex::Present => return None,
            OwnerIndex::Foreign(how) => return Some(SetupWarning::IndexForeign(how)),
            OwnerIndex::Missing => {}
        }
        let error = match self.index_addition(table) {
            Ok(call) => error::of_call("UpdateTable", &call.send().await.err()?).to_string(),
            Err(error) => error.to_string(),
        };
        // Workers that start together all try to add it; the first one wins, and then it is there.
        match self.describe().await {
            Ok(Described::Table(table)) if shape::owner_index(&table) == OwnerIndex::Present => {
                None
            }
            _ => Some(SetupWarning::IndexMissing(error)),
        }
    }

    fn index_addition(
        &self,
        table: &TableDescription,
    ) -> Result<UpdateTableFluentBuilder, BuildError> {
        // An index of a provisioned table needs capacity of its own; the KCL gives it the table's.
        let index = shape::added_index(shape::capacity_of(table))?;
        Ok(self
            .client
            .update_table()
            .table_name(&self.name)
            .set_attribute_definitions(Some(shape::attributes()?))
            .global_secondary_index_updates(
                GlobalSecondaryIndexUpdate::builder().create(index).build(),
            ))
    }

    async fn ensure_recovery<W, F>(&self, wait: W) -> Option<SetupWarning>
    where
        W: Fn(Duration) -> F,
        F: Future<Output = ()>,
    {
        let on = PointInTimeRecoverySpecification::builder()
            .point_in_time_recovery_enabled(true)
            .build()
            .expect("its one required field is set");
        let mut patience = Patience::new(BACKUPS_WITHIN);
        loop {
            let error = self
                .client
                .update_continuous_backups()
                .table_name(&self.name)
                .point_in_time_recovery_specification(on.clone())
                .send()
                .await
                .err()?;
            let not_yet = error
                .as_service_error()
                .is_some_and(|error| error.is_continuous_backups_unavailable_exception());
            match patience.next().filter(|_| not_yet) {
                Some(pause) => wait(pause).await,
                None => {
                    let error = error::of_call("UpdateContinuousBackups", &error);
                    return Some(SetupWarning::NoRecovery(error.to_string()));
                }
            }
        }
    }

    fn call_failed(&self, error: &TableError) -> EnsureError {
        let transient = matches!(error, TableError::Throttled(_) | TableError::Unknown(_));
        self.failed(error.to_string(), transient)
    }

    fn failed(&self, reason: String, transient: bool) -> EnsureError {
        EnsureError::Failed {
            table: self.name.clone(),
            reason,
            transient,
        }
    }
}

/// Waits that grow, until they add up to a limit.
struct Patience {
    left: Duration,
    next: Duration,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Patience {
            left: limit,
            next: FIRST_WAIT,
        }
    }
}

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.next;
        self.left = self.left.checked_sub(wait)?;
        self.next = (wait * 2).min(LONGEST_WAIT);
        Some(wait)
    }
}
