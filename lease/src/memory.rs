//! Wire: a table in memory – the reference for [`crate::dynamodb`], and what the simulated world runs on.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use crate::{
    id::{LeaseKey, WorkerId},
    lease::Lease,
    table::{Consistency, Lock, LockWrite, Table, TableError, View, WorkerRow},
    write::Write,
};

/// A table in memory. Every operation is atomic; nothing ever fails by itself.
#[derive(Debug, Default)]
pub struct MemoryTable {
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    leases: BTreeMap<LeaseKey, Lease>,
    lock: Option<Lock>,
    workers: BTreeMap<WorkerId, WorkerRow>,
}

impl MemoryTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, act: impl FnOnce(&mut Rows) -> T) -> T {
        act(&mut self.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The whole table, at once.
    pub fn view(&self) -> View {
        self.with(|rows| View {
            leases: rows.leases.values().cloned().collect(),
            lock: rows.lock.clone(),
            workers: rows.workers.values().cloned().collect(),
            unreadable: Vec::new(),
        })
    }

    /// How many lease rows there are.
    pub fn len(&self) -> usize {
        self.with(|rows| rows.leases.len())
    }

    /// There is no lease row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The leader lock, at once.
    pub fn lock_row(&self) -> Option<Lock> {
        self.with(|rows| rows.lock.clone())
    }

    /// One row, at once.
    pub fn row(&self, key: &LeaseKey) -> Option<Lease> {
        self.with(|rows| rows.leases.get(key).cloned())
    }

    /// Does `write` at once.
    pub fn write_now(&self, write: &Write) -> Result<Option<Lease>, TableError> {
        self.with(|rows| {
            let row = rows.leases.get(write.key());
            if !write.permitted(row) {
                return Err(TableError::Changed(row.cloned().map(Box::new)));
            }
            let after = write.apply(rows.leases.remove(write.key()));
            if let Some(after) = &after {
                rows.leases.insert(after.key.clone(), after.clone());
            }
            Ok(after)
        })
    }

    /// Does `write` at once.
    pub fn lock_now(&self, write: &LockWrite) -> Result<Option<Lock>, TableError> {
        self.with(|rows| {
            if !write.permitted(rows.lock.as_ref()) {
                return Err(TableError::Changed(None));
            }
            rows.lock = write.apply();
            Ok(rows.lock.clone())
        })
    }

    /// Writes a worker's row at once.
    pub fn put_worker_now(&self, row: &WorkerRow) {
        self.with(|rows| rows.workers.insert(row.id.clone(), row.clone()));
    }

    /// Removes a worker's row at once, if it is the one seen.
    pub fn remove_worker_now(
        &self,
        worker: &WorkerId,
        seen_updated: i64,
    ) -> Result<(), TableError> {
        self.with(|rows| match rows.workers.get(worker) {
            Some(row) if row.updated == seen_updated => {
                rows.workers.remove(worker);
                Ok(())
            }
            _ => Err(TableError::Changed(None)),
        })
    }

    /// Puts a row as it is, whatever was there: for tests that need a table in a certain state.
    pub fn put(&self, lease: Lease) {
        self.with(|rows| rows.leases.insert(lease.key.clone(), lease));
    }

    /// Removes a row, whatever it says: an operator with a console.
    pub fn remove(&self, key: &LeaseKey) {
        self.with(|rows| rows.leases.remove(key));
    }
}

impl Table for MemoryTable {
    async fn list(&self, _: Consistency) -> Result<View, TableError> {
        Ok(self.view())
    }

    async fn get(&self, key: &LeaseKey) -> Result<Option<Lease>, TableError> {
        Ok(self.row(key))
    }

    async fn write(&self, write: &Write) -> Result<Option<Lease>, TableError> {
        self.write_now(write)
    }

    async fn lock(&self, write: &LockWrite) -> Result<Option<Lock>, TableError> {
        self.lock_now(write)
    }

    async fn put_worker(&self, row: &WorkerRow) -> Result<(), TableError> {
        self.put_worker_now(row);
        Ok(())
    }

    async fn remove_worker(&self, worker: &WorkerId, seen_updated: i64) -> Result<(), TableError> {
        self.remove_worker_now(worker, seen_updated)
    }
}
