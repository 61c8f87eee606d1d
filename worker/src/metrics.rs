//! Every metric of the worker: its name here and nowhere else, and one function for each event.
//!
//! ```text
//!   coordinator ── functions of this file ──▶ recorder ◀── render ── Exporter ◀── admin
//!   consumer ──▶ ShardMetrics (handles made once per tenure) ──▲         │
//!                     └── gauges of the shards held ─────────────────────┘ folded at each scrape
//! ```
//!
//! Without [`install`] the recorder is the no-op one and every call here costs next to nothing.

mod exporter;
mod labels;
mod shard;
mod table;

#[cfg(test)]
mod tests;

use std::time::Duration;

use ::metrics::{Label, Unit};

pub use exporter::{Exporter, InstallError, install};
pub use labels::{Deaggregation, LeaseOperation, ReadResult, Service, WorkerState, WriteResult};
pub use shard::{ShardLabels, ShardMetrics};
pub use table::{Kind, Metric};

table::table! {
    // Reading.
    RECORDS_READ = Counter "records_read_total" Count ["stream", "shard"]
        "Kinesis records read, before aggregates are taken apart";
    BYTES_READ = Counter "bytes_read_total" Bytes ["stream", "shard"]
        "Payload bytes of the Kinesis records read";
    GET_RECORDS = Counter "get_records_total" Count ["stream", "result"]
        "GetRecords calls by how they ended";
    GET_RECORDS_SECONDS = Histogram "get_records_seconds" Seconds ["stream"]
        "Time of one GetRecords call, however it ended";
    ITERATOR_AGE = Gauge "iterator_age_seconds" Seconds ["stream", "shard"]
        "How far the last read was behind the newest record (Kinesis' millis behind latest)";
    RETENTION_LEFT = Gauge "retention_left_seconds" Seconds ["stream", "shard"]
        "Retention of the stream minus iterator age: time until unread records expire";
    DEAGGREGATION = Counter "deaggregation_total" Count ["stream", "result"]
        "Aggregates and what became of them and their records";
    RECORDS_SKIPPED = Counter "records_skipped_total" Count ["stream", "shard"]
        "User records read again after a resume and skipped, being at or before the checkpoint";
    SHARD_ENDS = Counter "shard_ends_total" Count ["stream"]
        "Shards read to their end";
    // Delivering.
    RECORDS_DELIVERED = Counter "records_delivered_total" Count ["stream", "shard"]
        "User records the handler settled";
    BYTES_DELIVERED = Counter "bytes_delivered_total" Bytes ["stream", "shard"]
        "Payload bytes of the user records the handler settled";
    BATCHES_DELIVERED = Counter "batches_delivered_total" Count ["stream", "shard"]
        "Batches the handler settled";
    HANDLER_SECONDS = Histogram "handler_seconds" Seconds ["stream"]
        "Time of one call of the handler, however it ended";
    HANDLER_ERRORS = Counter "handler_errors_total" Count ["stream", "shard"]
        "Calls of the handler that failed; the batch is tried again";
    HANDLER_IN_PROGRESS = Gauge "handler_in_progress_seconds" Seconds ["stream", "shard"]
        "Age of the handler call in progress; 0 if there is none";
    STUCK_SHARDS = Gauge "stuck_shards" Count []
        "Shards held whose handler has been silent longer than delivery.stuck_after";
    BUFFER_USED = Gauge "buffer_used_bytes" Bytes []
        "Bytes read and not yet settled";
    BUFFER_LIMIT = Gauge "buffer_limit_bytes" Bytes []
        "The bound of shardkeeper_buffer_used_bytes";
    // Checkpoints.
    CHECKPOINTS_WRITTEN = Counter "checkpoints_written_total" Count ["stream", "shard"]
        "Checkpoints stored in the lease table";
    CHECKPOINT_LAG = Gauge "checkpoint_lag_records" Count ["stream", "shard"]
        "User records handled and not yet covered by a stored checkpoint: what a crash would repeat";
    // Leases.
    LEASES_HELD = Gauge "leases_held" Count []
        "Leases this worker holds";
    LEASES_TAKEN = Counter "leases_taken_total" Count []
        "Leases taken";
    LEASES_LOST = Counter "leases_lost_total" Count []
        "Leases lost: taken by another worker, or not renewed in time";
    LEASES_RELEASED = Counter "leases_released_total" Count []
        "Leases given up on purpose";
    LEASES_HANDED_OFF = Counter "leases_handed_off_total" Count []
        "Leases given to another worker after the last checkpoint";
    LEASE_WRITES = Counter "lease_writes_total" Count ["operation", "result"]
        "Writes to the lease table by purpose and how they ended";
    LEASE_WRITE_SECONDS = Histogram "lease_write_seconds" Seconds ["operation"]
        "Time of one write to the lease table, however it ended";
    LEASE_RENEWAL_AGE = Gauge "lease_renewal_age_seconds" Seconds ["stream", "shard"]
        "Time since the last good renewal was sent; at lease.failover the lease is given up";
    TABLE_UNREACHABLE = Gauge "table_unreachable_seconds" Seconds []
        "Time since the lease table last answered, while it does not; else 0";
    // The fleet, as this worker sees it.
    IS_LEADER = Gauge "is_leader" Count []
        "1 if this worker holds the leader lock, else 0";
    WORKERS_SEEN = Gauge "workers_seen" Count []
        "Workers alive, at the last look at the lease table";
    UNASSIGNED_LEASES = Gauge "unassigned_leases" Count []
        "Unfinished leases without an owner, at the last look at the lease table";
    EXPIRED_LEASES = Gauge "expired_leases" Count []
        "Leases whose owner has stopped renewing, at the last look at the lease table";
    BLOCKED_ON_PARENT = Gauge "blocked_on_parent" Count []
        "Shards not started because a parent is unfinished, at the last look at the lease table";
    CHILDREN_CREATED = Counter "children_created_total" Count []
        "Lease rows made for the children of a finished shard";
    HOLES_REPAIRED = Counter "holes_repaired_total" Count []
        "Lease rows made because part of the hash range had none";
    // The process.
    THROTTLES = Counter "throttles_total" Count ["service", "operation"]
        "Calls AWS refused for lack of throughput";
    WORKER_STATE = Gauge "worker_state" Count ["state"]
        "1 for the state the worker is in, 0 for the others";
    BUILD_INFO = Gauge "build_info" Count ["version"]
        "Always 1; the version is in the label";
}

/// Gives every metric its unit and help. [`install`] calls it.
pub fn describe() {
    ALL.iter().for_each(Metric::describe);
}

fn label(name: &'static str, value: &'static str) -> Label {
    Label::from_static_parts(name, value)
}

/// The table refused, or did not refuse, a write of `operation` that took `elapsed`.
pub fn lease_written(operation: LeaseOperation, result: WriteResult, elapsed: Duration) {
    let operation = label("operation", operation.as_str());
    LEASE_WRITES
        .counter(vec![operation.clone(), label("result", result.as_str())])
        .increment(1);
    LEASE_WRITE_SECONDS
        .histogram(vec![operation])
        .record(elapsed.as_secs_f64());
}

/// A lease was taken.
pub fn lease_taken() {
    LEASES_TAKEN.counter(vec![]).increment(1);
}

/// A lease was lost.
pub fn lease_lost() {
    LEASES_LOST.counter(vec![]).increment(1);
}

/// A lease was given up on purpose.
pub fn lease_released() {
    LEASES_RELEASED.counter(vec![]).increment(1);
}

/// A lease was given to another worker.
pub fn lease_handed_off() {
    LEASES_HANDED_OFF.counter(vec![]).increment(1);
}

/// A row was made for a child of a finished shard.
pub fn child_created() {
    CHILDREN_CREATED.counter(vec![]).increment(1);
}

/// A row was made because part of the hash range had none.
pub fn hole_repaired() {
    HOLES_REPAIRED.counter(vec![]).increment(1);
}

/// AWS refused a call for lack of throughput. `operation` is the API's name for it, e.g. `GetRecords`.
pub fn throttled(service: Service, operation: &'static str) {
    let labels = vec![
        label("service", service.as_str()),
        label("operation", operation),
    ];
    THROTTLES.counter(labels).increment(1);
}

/// The number of leases held now.
pub fn leases_held(count: usize) {
    LEASES_HELD.gauge(vec![]).set(count as f64);
}

/// Shards held whose handler is stuck now.
pub fn stuck_shards(count: usize) {
    STUCK_SHARDS.gauge(vec![]).set(count as f64);
}

/// Whether this worker is the leader now.
pub fn is_leader(leads: bool) {
    IS_LEADER.gauge(vec![]).set(f64::from(u8::from(leads)));
}

/// What a look at the whole lease table showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FleetView {
    /// Workers alive.
    pub workers: usize,
    /// Unfinished leases without an owner.
    pub unassigned: usize,
    /// Leases whose owner has stopped renewing.
    pub expired: usize,
    /// Shards that wait for a parent.
    pub blocked_on_parent: usize,
}

/// A look at the whole lease table.
pub fn fleet_seen(view: FleetView) {
    WORKERS_SEEN.gauge(vec![]).set(view.workers as f64);
    UNASSIGNED_LEASES.gauge(vec![]).set(view.unassigned as f64);
    EXPIRED_LEASES.gauge(vec![]).set(view.expired as f64);
    BLOCKED_ON_PARENT
        .gauge(vec![])
        .set(view.blocked_on_parent as f64);
}

/// How long the lease table has not answered; zero while it does.
pub fn table_unreachable(since: Duration) {
    TABLE_UNREACHABLE.gauge(vec![]).set(since.as_secs_f64());
}

/// Bytes read and not yet settled.
pub fn buffer_used(bytes: usize) {
    BUFFER_USED.gauge(vec![]).set(bytes as f64);
}

/// The bound of the bytes read and not yet settled.
pub fn buffer_limit(bytes: usize) {
    BUFFER_LIMIT.gauge(vec![]).set(bytes as f64);
}

/// The state the worker is in now.
pub fn worker_state(now: WorkerState) {
    for state in WorkerState::ALL {
        let labels = vec![label("state", state.as_str())];
        WORKER_STATE
            .gauge(labels)
            .set(if *state == now { 1.0 } else { 0.0 });
    }
}
