//! The same random writes on both tables: equal answers all the way, equal tables at the end.
//!
//! Writes are drawn from what a worker could have seen, so that about half of them hold; a run that is repeated with its
//! seed does the same.

use std::{collections::BTreeMap, time::Duration};

use checkpoint::Position;
use fastrand::Rng;
use lease::{
    Assign, Consistency, Lease, LeaseKey, LockWrite, MemoryTable, Renew, Seize, Session, ShardId,
    Table, WorkerId, WorkerRow, Write,
};

use crate::fixture::Dynamo;

const SHARDS: [&str; 3] = ["shard-1", "shard-2", "shard-3"];
const WORKERS: [&str; 3] = ["a", "b", "c"];
const STEPS: usize = 400;

#[tokio::test]
async fn both_tables_answer_alike() {
    let dynamo = Dynamo::start().await;
    for seed in 0..4 {
        let table = dynamo.table(&format!("random-{seed}")).await;
        let held = compare(&table, seed).await;
        for (name, (held, failed)) in held {
            assert!(
                held > 0,
                "seed {seed}: no {name} ever held ({failed} failed)"
            );
        }
    }
}

/// How many writes of each kind held and failed.
async fn compare(table: &impl Table, seed: u64) -> BTreeMap<&'static str, (u32, u32)> {
    let memory = MemoryTable::new();
    let mut rng = Rng::with_seed(seed);
    let mut held: BTreeMap<&'static str, (u32, u32)> = BTreeMap::new();
    let mut count = |name, ok| {
        let (held, failed) = held.entry(name).or_default();
        *if ok { held } else { failed } += 1;
    };
    for step in 0..STEPS {
        match rng.u8(..8) {
            0 => {
                let write = lock_write(&mut rng, &memory, step);
                let expected = memory.lock_now(&write);
                assert_eq!(
                    table.lock(&write).await,
                    expected,
                    "{seed}/{step}: {write:?}"
                );
                count("lock", expected.is_ok());
            }
            1 => {
                let row = worker_row(&mut rng);
                if rng.bool() {
                    memory.put_worker_now(&row);
                    assert_eq!(table.put_worker(&row).await, Ok(()), "{seed}/{step}");
                    count("put_worker", true);
                } else {
                    let expected = memory.remove_worker_now(&row.id, row.updated);
                    let answer = table.remove_worker(&row.id, row.updated).await;
                    assert_eq!(answer, expected, "{seed}/{step}");
                    count("remove_worker", expected.is_ok());
                }
            }
            _ => {
                let write = lease_write(&mut rng, &memory);
                let expected = memory.write_now(&write);
                assert_eq!(
                    table.write(&write).await,
                    expected,
                    "{seed}/{step}: {write:?}"
                );
                count(write.name(), expected.is_ok());
            }
        }
    }
    let view = table.list(Consistency::Strong).await;
    assert_eq!(view, Ok(memory.view()), "seed {seed}");
    held
}

fn pick<T: From<&'static str>>(rng: &mut Rng, from: &[&'static str]) -> T {
    T::from(from[rng.usize(..from.len())])
}

/// A write of a worker that has seen the row as it is, or misremembers one thing.
fn lease_write(rng: &mut Rng, memory: &MemoryTable) -> Write {
    let shard: ShardId = pick(rng, &SHARDS);
    let key = LeaseKey::of(None, &shard);
    let row = memory.view().leases.into_iter().find(|row| row.key == key);
    let Some(row) = row else {
        return Write::Create(Box::new(new_lease(rng, shard)));
    };
    let known = |rng: &mut Rng, id: &Option<WorkerId>| match rng.u8(..6) {
        0 => None,
        1 => Some(pick(rng, &WORKERS)),
        _ => id.clone(),
    };
    let owner = known(rng, &row.owner);
    let me = owner.clone().unwrap_or_else(|| pick(rng, &WORKERS));
    let counter = row.counter.saturating_sub(u64::from(rng.u8(..6) == 0));
    let other: WorkerId = loop {
        let other = pick(rng, &WORKERS);
        if other != me {
            break other;
        }
    };
    let reader = row.reader().cloned().unwrap_or_else(|| me.clone());
    let renew = renew(rng, &row, reader, counter);
    let seize = Seize {
        key: key.clone(),
        me: me.clone(),
        session: Session::from(format!("run {}", rng.u8(..))),
        seen_counter: counter,
        pin: rng.bool().then(|| rng.i64(0..2_000_000_000_000)),
    };
    match rng.u8(..12) {
        0 => Write::Create(Box::new(new_lease(rng, shard))),
        1 | 2 => Write::Renew(renew),
        3 => Write::Release(renew),
        4 => Write::Acquire(seize),
        5 => Write::Take {
            seize: Seize { me: other, ..seize },
            owner,
        },
        6 | 7 => Write::Assign(Assign {
            key,
            to: pick(rng, &WORKERS),
            checkpoint_owner: known(rng, &row.checkpoint_owner),
            owner,
            counter,
        }),
        8 | 9 => Write::HandOff {
            key,
            from: me,
            to: other,
        },
        10 => Write::HeirReady { key, me },
        _ if rng.bool() => Write::Complete { renew, to: me },
        _ => Write::Delete { key },
    }
}

fn new_lease(rng: &mut Rng, shard: ShardId) -> Lease {
    let checkpoint = position(rng);
    let mut lease = Lease::new(None, shard, checkpoint);
    lease.owner = rng.bool().then(|| pick(rng, &WORKERS));
    lease.parents = (0..rng.u8(..3))
        .map(|n| ShardId::from(format!("parent {n}")))
        .collect();
    lease
}

fn renew(rng: &mut Rng, row: &Lease, me: WorkerId, counter: u64) -> Renew {
    Renew {
        key: row.key.clone(),
        me,
        counter,
        handing_over: row.handing_over() ^ (rng.u8(..8) == 0),
        checkpoint: rng.bool().then(|| position(rng)),
        children: (0..rng.u8(..3))
            .map(|n| ShardId::from(format!("child {n}")))
            .collect(),
        throughput_kbps: rng.bool().then(|| f64::from(rng.u32(..)) / 1e4),
    }
}

fn position(rng: &mut Rng) -> Position {
    match rng.u8(..6) {
        0 => Position::TrimHorizon,
        1 => Position::Latest,
        2 => Position::AtTimestamp,
        3 => Position::ShardEnd,
        _ => {
            let text = format!("{}{}/{}", rng.u64(1..), rng.u64(..), rng.u8(..));
            text.parse().expect("digits")
        }
    }
}

fn lock_write(rng: &mut Rng, memory: &MemoryTable, step: usize) -> LockWrite {
    let lock = memory.view().lock;
    let me = match &lock {
        Some(lock) if rng.u8(..4) > 0 => lock.owner.clone(),
        _ => pick(rng, &WORKERS),
    };
    let seen = match &lock {
        Some(lock) if rng.u8(..4) > 0 => Some(lock.version.clone()),
        _ => rng.bool().then(|| "long ago".to_owned()),
    };
    let duration = Duration::from_millis(rng.u64(..100_000));
    let next = format!("version {step}");
    match rng.u8(..3) {
        0 => LockWrite::Acquire {
            me,
            version: next,
            duration,
            seen,
        },
        1 => LockWrite::Heartbeat {
            me,
            version: seen.unwrap_or_default(),
            next,
            duration,
        },
        _ => LockWrite::Release {
            me,
            version: seen.unwrap_or_default(),
        },
    }
}

fn worker_row(rng: &mut Rng) -> WorkerRow {
    WorkerRow {
        id: pick(rng, &WORKERS),
        updated: rng.i64(1_700_000_000..1_700_000_002),
        every: rng.bool().then(|| Duration::from_millis(rng.u64(..60_000))),
        leaving: rng.bool(),
    }
}
