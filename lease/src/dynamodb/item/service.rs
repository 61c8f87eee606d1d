//! The rows by which workers know each other: the leader lock and the workers' own rows.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    ENTITY_TYPE, EVERY, IS_RELEASED, Item, LAST_UPDATE, LEADER, LEASE_DURATION, LEASE_KEY, LEAVING,
    LOCK_KEY, METRICS, OPERATING_RANGE, OWNER_NAME, RECORD_VERSION, SUPPORT_CODE, SUPPORT_UPDATE,
    WORKER, number,
    reader::{Reader, Wrong},
    text,
};
use crate::{
    id::WorkerId,
    table::{Lock, WorkerRow},
};

/// `sup`: this worker keeps all its rows in one table.
const SINGLE_TABLE: u8 = 1;

pub(super) fn read_lock(row: &Reader<'_>) -> Result<Lock, Wrong> {
    let duration = Reader::must(LEASE_DURATION, row.text(LEASE_DURATION))?;
    let duration = duration.parse().map_err(|error| {
        Wrong::value(
            LEASE_DURATION,
            format!("{duration:?} milliseconds: {error}"),
        )
    })?;
    Ok(Lock {
        owner: Reader::must(OWNER_NAME, row.text(OWNER_NAME))?.into(),
        version: Reader::must(RECORD_VERSION, row.text(RECORD_VERSION))?.to_owned(),
        duration: Duration::from_millis(duration),
        // The lock client looks at its presence only.
        released: row.has(IS_RELEASED),
    })
}

/// The whole row of a lock that was just taken.
pub(in crate::dynamodb) fn lock_item(me: &WorkerId, version: &str, duration: Duration) -> Item {
    [
        (LEASE_KEY, text(LOCK_KEY)),
        (ENTITY_TYPE, text(LEADER)),
        (OWNER_NAME, text(me.as_str())),
        (RECORD_VERSION, text(version)),
        (LEASE_DURATION, duration_value(duration)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// `leaseDuration`: milliseconds, as a **string**.
pub(in crate::dynamodb) fn duration_value(duration: Duration) -> AttributeValue {
    text(duration.as_millis().to_string())
}

pub(super) fn read_worker(row: &Reader<'_>) -> Result<WorkerRow, Wrong> {
    Ok(WorkerRow {
        id: Reader::must(LEASE_KEY, row.text(LEASE_KEY))?.into(),
        updated: Reader::must(LAST_UPDATE, row.number(LAST_UPDATE))?,
        every: row.number(EVERY)?.map(Duration::from_millis),
        leaving: row.flag(LEAVING)?,
    })
}

/// The attributes of a worker's row that are set, beside its key.
///
/// Maps without a metric make it what the KCL calls a worker with default metrics: active as long as `lut` is fresh,
/// and balanced by the throughput of its leases. A metric that is listed would have to be measured to be true.
pub(in crate::dynamodb) fn worker_values(row: &WorkerRow) -> Vec<(&'static str, AttributeValue)> {
    let mut values = vec![
        (ENTITY_TYPE, text(WORKER)),
        (LAST_UPDATE, number(row.updated)),
        (METRICS, AttributeValue::M(HashMap::new())),
        (OPERATING_RANGE, AttributeValue::M(HashMap::new())),
        (SUPPORT_CODE, number(SINGLE_TABLE)),
        (SUPPORT_UPDATE, number(row.updated)),
    ];
    if let Some(every) = row.every {
        values.push((EVERY, number(every.as_millis())));
    }
    if row.leaving {
        values.push((LEAVING, AttributeValue::Bool(true)));
    }
    values
}
