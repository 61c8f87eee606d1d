//! Spells every [`Write`] and [`LockWrite`] as one DynamoDB request.
//!
//! [`crate::write`] says what a write means; here is only its spelling. Conditions are the KCL's and more: a row that a
//! Java worker changed in a way the KCL would notice is noticed here too. Only what a write changes is written, so
//! whatever else a row holds stays.

use aws_sdk_dynamodb::types::AttributeValue;
use checkpoint::Position;

use super::{
    expression::Expression,
    item::{
        self, CHECKPOINT, CHECKPOINT_OWNER, CHILD_SHARD_IDS, ENTITY_TYPE, EVERY, HEIR_READY, Item,
        LAST_UPDATE, LEASE_COUNTER, LEASE_DURATION, LEASE_KEY, LEASE_OWNER, LEAVING, OWNER_NAME,
        OWNER_SWITCHES, PENDING_CHECKPOINT, PENDING_STATE, PENDING_SUB_SEQUENCE, PINNED_AT,
        RECORD_VERSION, SESSION, THROUGHPUT, WORKER, checkpoint_values, duration_value, number,
        text, text_set,
    },
};
use crate::{
    id::WorkerId,
    table::{LockWrite, WorkerRow},
    write::{Assign, Renew, Seize, Write},
};

/// One request, with its condition.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    /// PutItem: the row becomes this.
    Put(Item, Expression),
    /// UpdateItem: these attributes of the row with this key change.
    Update(String, Expression),
    /// DeleteItem: the row with this key goes.
    Delete(String, Expression),
}

/// The request for a write of a lease row.
pub(super) fn lease_write(write: &Write) -> Request {
    let expression = match write {
        Write::Create(lease) => {
            let absent = Expression::new().when_absent(LEASE_KEY);
            return Request::Put(item::lease_item(lease), absent);
        }
        Write::Delete { key } => {
            let ended = text(Position::ShardEnd.checkpoint());
            let finished = Expression::new().when(CHECKPOINT, ended);
            return Request::Delete(key.to_string(), finished);
        }
        Write::Renew(renew) => renewed(renew),
        Write::Acquire(seize) => seized(seize)
            .remove([HEIR_READY])
            .when(LEASE_OWNER, worker(&seize.me))
            .when_absent(CHECKPOINT_OWNER),
        Write::Take { seize, owner } => {
            let taken = seized(seize)
                .set(LEASE_OWNER, worker(&seize.me))
                .remove([CHECKPOINT_OWNER, HEIR_READY])
                .when_same(LEASE_OWNER, owner.as_ref().map(worker));
            let switches = owner.as_ref().is_some_and(|owner| *owner != seize.me);
            switched(taken, switches)
        }
        Write::Assign(assign) => assigned(assign),
        Write::HandOff { key, from, to } => Expression::new()
            .set(LEASE_OWNER, worker(to))
            .set(CHECKPOINT_OWNER, worker(from))
            .remove([HEIR_READY])
            .when(LEASE_KEY, text(key.as_str()))
            .when(LEASE_OWNER, worker(from))
            .when_absent(CHECKPOINT_OWNER),
        Write::HeirReady { key, me } => Expression::new()
            .set(HEIR_READY, worker(me))
            .when(LEASE_KEY, text(key.as_str()))
            .when(LEASE_OWNER, worker(me))
            .when_present(CHECKPOINT_OWNER),
        Write::Complete { renew, to } => renewed(renew).when(LEASE_OWNER, worker(to)).remove([
            CHECKPOINT_OWNER,
            HEIR_READY,
            SESSION,
        ]),
        Write::Release(renew) => {
            renewed(renew).remove([LEASE_OWNER, CHECKPOINT_OWNER, HEIR_READY, SESSION])
        }
    };
    Request::Update(write.key().to_string(), expression)
}

/// What every write of a holder does, and the condition that it still is the holder.
fn renewed(renew: &Renew) -> Expression {
    let expression = advanced(renew);
    if renew.handing_over {
        expression.when(CHECKPOINT_OWNER, worker(&renew.me))
    } else {
        expression
            .when(LEASE_OWNER, worker(&renew.me))
            .when_absent(CHECKPOINT_OWNER)
    }
}

/// The counter rises from the one that is known, and with it what the holder has to say.
fn advanced(renew: &Renew) -> Expression {
    let mut expression = raised(renew.counter);
    if let Some(position) = &renew.checkpoint {
        expression = expression
            .set_all(checkpoint_values(position))
            .set(OWNER_SWITCHES, number(0))
            .remove([PENDING_CHECKPOINT, PENDING_SUB_SEQUENCE, PENDING_STATE]);
    }
    if !renew.children.is_empty() {
        expression = expression.set(CHILD_SHARD_IDS, text_set(&renew.children));
    }
    if let Some(throughput) = renew.throughput_kbps.and_then(item::throughput_value) {
        expression = expression.set(THROUGHPUT, throughput);
    }
    expression
}

fn seized(seize: &Seize) -> Expression {
    let expression = raised(seize.seen_counter).set(SESSION, text(seize.session.as_str()));
    match seize.pin {
        Some(pin) => expression.set(PINNED_AT, number(pin)),
        None => expression,
    }
}

fn assigned(assign: &Assign) -> Expression {
    let expression = raised(assign.counter)
        .set(LEASE_OWNER, worker(&assign.to))
        .remove([CHECKPOINT_OWNER, HEIR_READY])
        .when_same(LEASE_OWNER, assign.owner.as_ref().map(worker))
        .when_same(
            CHECKPOINT_OWNER,
            assign.checkpoint_owner.as_ref().map(worker),
        );
    let switches = assign
        .owner
        .as_ref()
        .is_some_and(|owner| *owner != assign.to)
        || assign.checkpoint_owner.as_ref() == Some(&assign.to);
    switched(expression, switches)
}

/// The counter becomes one more than the one that was seen, if it still is that.
fn raised(counter: u64) -> Expression {
    Expression::new()
        .set(LEASE_COUNTER, number(counter.saturating_add(1)))
        .when(LEASE_COUNTER, number(counter))
}

fn switched(expression: Expression, switches: bool) -> Expression {
    if switches {
        expression.add(OWNER_SWITCHES, number(1))
    } else {
        expression
    }
}

/// The request for a write of the leader lock, as the DynamoDB lock client sends it.
pub(super) fn lock_write(write: &LockWrite) -> Request {
    match write {
        LockWrite::Acquire {
            me,
            version,
            duration,
            seen,
        } => {
            let condition = match seen {
                None => Expression::new().when_absent(LEASE_KEY),
                Some(seen) => Expression::new()
                    .when_present(LEASE_KEY)
                    .when(RECORD_VERSION, text(seen)),
            };
            Request::Put(item::lock_item(me, version, *duration), condition)
        }
        LockWrite::Heartbeat {
            me,
            version,
            next,
            duration,
        } => {
            let beat = lock_held(me, version)
                .set(RECORD_VERSION, text(next))
                .set(LEASE_DURATION, duration_value(*duration));
            Request::Update(item::LOCK_KEY.to_owned(), beat)
        }
        LockWrite::Release { me, version } => {
            Request::Delete(item::LOCK_KEY.to_owned(), lock_held(me, version))
        }
    }
}

fn lock_held(me: &WorkerId, version: &str) -> Expression {
    Expression::new()
        .when_present(LEASE_KEY)
        .when(RECORD_VERSION, text(version))
        .when(OWNER_NAME, worker(me))
}

/// The request for a worker's own row. The KCL writes it without a condition, over whatever has that key (hazard H45);
/// this one refuses to write over a row of another kind.
pub(super) fn worker_write(row: &WorkerRow) -> Request {
    let mut expression = Expression::new()
        .set_all(item::worker_values(row))
        .when_absent_or(LEASE_KEY, ENTITY_TYPE, text(WORKER));
    if row.every.is_none() {
        expression = expression.remove([EVERY]);
    }
    if !row.leaving {
        expression = expression.remove([LEAVING]);
    }
    Request::Update(row.id.to_string(), expression)
}

/// The request that removes a worker's row. The type is a condition of ours; the rest is the KCL's.
pub(super) fn worker_removal(worker: &WorkerId, seen_updated: i64) -> Request {
    let condition = Expression::new()
        .when_present(LEASE_KEY)
        .when(ENTITY_TYPE, text(WORKER))
        .when(LAST_UPDATE, number(seen_updated));
    Request::Delete(worker.to_string(), condition)
}

fn worker(id: &WorkerId) -> AttributeValue {
    text(id.as_str())
}
