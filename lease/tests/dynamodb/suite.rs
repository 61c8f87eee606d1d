//! What every [`Table`] must do, whichever it is: all writes, in all states a row can be in.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use checkpoint::{HashRange, Position};
use lease::{
    Assign, Consistency, Lease, LeaseKey, Lock, LockWrite, MemoryTable, Renew, Seize, Session,
    ShardId, Table, TableError, WorkerId, WorkerRow, Write, lease::Pending,
};

use crate::fixture::Dynamo;

const COUNTER: u64 = 7;

#[tokio::test]
async fn the_table_in_memory() {
    suite(&MemoryTable::new()).await;
}

#[tokio::test]
async fn the_table_in_dynamodb() {
    let dynamo = Dynamo::start().await;
    suite(&dynamo.table("suite").await).await;
}

/// Runs the whole suite on a table without rows.
async fn suite<T: Table>(table: &T) {
    every_write_in_every_state(table).await;
    rows_hold_everything(table).await;
    stories(table).await;
    lock_protocol(table).await;
    worker_rows(table).await;
}

fn worker(name: &str) -> WorkerId {
    WorkerId::from(name)
}

fn position(text: &str) -> Position {
    text.parse().expect("a position")
}

/// Every combination of owners that the writes can bring about, finished and not.
fn states() -> Vec<Lease> {
    let mut states = Vec::new();
    for (owner, checkpoint_owner, heir_ready, checkpoint) in [
        (None, None, false, "TRIM_HORIZON"),
        (None, None, false, "SHARD_END"),
        (Some("a"), None, false, "LATEST"),
        (Some("a"), None, false, "1234/5"),
        (Some("a"), None, false, "SHARD_END"),
        (Some("b"), None, false, "1234/5"),
        (Some("b"), Some("a"), false, "1234/5"),
        (Some("b"), Some("a"), true, "1234/5"),
        (Some("b"), Some("a"), true, "SHARD_END"),
        (Some("a"), Some("b"), false, "AT_TIMESTAMP"),
    ] {
        let mut lease = Lease::new(None, ShardId::from("to be set"), position(checkpoint));
        lease.owner = owner.map(worker);
        lease.checkpoint_owner = checkpoint_owner.map(worker);
        lease.heir_ready = heir_ready;
        lease.counter = COUNTER;
        lease.owner_switches = 2;
        lease.session = owner.map(Session::from);
        lease.pending = (checkpoint == "1234/5").then(|| Pending {
            position: position("1235/0"),
            state: Some(b"prepared".to_vec()),
        });
        states.push(lease);
    }
    states
}

/// Every kind of write of `key`, each with everything that its condition looks at right and wrong.
fn writes(key: &LeaseKey, shard: &ShardId) -> Vec<Write> {
    let mut writes = vec![
        Write::Create(Box::new(Lease::new(None, shard.clone(), Position::Latest))),
        Write::Delete { key: key.clone() },
    ];
    for (me, other) in [("a", "b"), ("b", "a")] {
        for renew in renews(key, me) {
            writes.push(Write::Renew(renew.clone()));
            writes.push(Write::Release(renew.clone()));
            for to in [me, other] {
                let (renew, to) = (renew.clone(), worker(to));
                writes.push(Write::Complete { renew, to });
            }
        }
        for counter in [COUNTER, COUNTER - 1] {
            writes.push(Write::Acquire(seize(key, me, counter, None)));
            for owner in [None, Some(me), Some(other)] {
                writes.push(Write::Take {
                    seize: seize(key, me, counter, Some(1_700_000_000_123)),
                    owner: owner.map(worker),
                });
            }
        }
        for (owner, checkpoint_owner, counter) in [
            (None, None, COUNTER),
            (Some(me), None, COUNTER),
            (Some(me), None, COUNTER + 1),
            (Some(other), None, COUNTER),
            (Some(me), Some(other), COUNTER),
            (Some(other), Some(me), COUNTER),
            (Some(other), Some(me), COUNTER - 1),
        ] {
            writes.push(Write::Assign(Assign {
                key: key.clone(),
                to: worker(me),
                owner: owner.map(worker),
                checkpoint_owner: checkpoint_owner.map(worker),
                counter,
            }));
        }
        writes.push(Write::HandOff {
            key: key.clone(),
            from: worker(me),
            to: worker(other),
        });
        writes.push(Write::HeirReady {
            key: key.clone(),
            me: worker(me),
        });
    }
    writes
}

fn seize(key: &LeaseKey, me: &str, seen_counter: u64, pin: Option<i64>) -> Seize {
    Seize {
        key: key.clone(),
        me: worker(me),
        session: Session::from("this run"),
        seen_counter,
        pin,
    }
}

fn renews(key: &LeaseKey, me: &str) -> Vec<Renew> {
    let heartbeat = Renew {
        key: key.clone(),
        me: worker(me),
        counter: COUNTER,
        handing_over: false,
        checkpoint: None,
        children: BTreeSet::new(),
        throughput_kbps: None,
    };
    let late = Renew {
        counter: COUNTER - 1,
        ..heartbeat.clone()
    };
    let finished = Renew {
        checkpoint: Some(Position::ShardEnd),
        children: ["child 1", "child 2"].map(ShardId::from).into(),
        ..heartbeat.clone()
    };
    let moved = Renew {
        handing_over: true,
        checkpoint: Some(position("20000/3")),
        throughput_kbps: Some(12.345678),
        ..heartbeat.clone()
    };
    let late_and_moved = Renew {
        counter: COUNTER - 1,
        ..moved.clone()
    };
    vec![heartbeat, late, finished, moved, late_and_moved]
}

/// The answer, the row afterwards and the row in a refusal are those of the model in [`lease::write`].
async fn every_write_in_every_state<T: Table>(table: &T) {
    let (mut permitted, mut refused) = (BTreeSet::new(), BTreeSet::new());
    let mut left = BTreeMap::new();
    let states = std::iter::once(None).chain(states().into_iter().map(Some));
    for (state_number, state) in states.enumerate() {
        let count = writes(&LeaseKey::from("-"), &ShardId::from("-")).len();
        for number in 0..count {
            let shard = ShardId::from(format!("shard-{state_number}-{number}"));
            let key = LeaseKey::of(None, &shard);
            let write = writes(&key, &shard).swap_remove(number);
            let before = state.clone().map(|mut lease| {
                (lease.key, lease.shard) = (key.clone(), shard.clone());
                lease
            });
            if let Some(lease) = before.clone() {
                let made = table.write(&Write::Create(Box::new(lease))).await;
                assert_eq!(made, Ok(before.clone()), "what a create answers");
            }
            let answer = table.write(&write).await;
            let (expected, after) = if write.permitted(before.as_ref()) {
                permitted.insert(write.name());
                let after = write.apply(before.clone());
                (Ok(after.clone()), after)
            } else {
                refused.insert(write.name());
                let row = before.clone().map(Box::new);
                (Err(TableError::Changed(row)), before.clone())
            };
            assert_eq!(answer, expected, "{write:?} on {before:#?}");
            left.extend(after.map(|after| (key, after)));
        }
    }
    assert_eq!(permitted, refused, "every kind was permitted and refused");
    assert_eq!(permitted.len(), 10, "every kind of write was done");
    let view = table.list(Consistency::Strong).await.expect("a list");
    assert_eq!(view.unreadable, []);
    let listed = view
        .leases
        .into_iter()
        .map(|lease| (lease.key.clone(), lease));
    assert_eq!(listed.collect::<BTreeMap<_, _>>(), left);
}

/// A row with everything in it, and one of a table for several streams, come back as they were written.
async fn rows_hold_everything<T: Table>(table: &T) {
    let mut full = states().pop().expect("there are states");
    full.key = "everything".into();
    full.shard = "everything".into();
    full.parents = ["parent 1", "parent 2"].map(ShardId::from).into();
    full.children = ["child 1"].map(ShardId::from).into();
    full.range =
        Some(HashRange::parse("17", "340282366920938463463374607431768211455").expect("a range"));
    full.throughput_kbps = Some(0.000001);
    full.pinned = Some(1_700_000_000_999);
    full.made_for = Some("a stream".to_owned());
    full.counter = i64::MAX.unsigned_abs();
    let mut streamed = full.clone();
    streamed.stream = Some("123456789012:orders:1690000000".into());
    streamed.shard = "shardId-000000000003".into();
    streamed.key = LeaseKey::of(streamed.stream.as_ref(), &streamed.shard);
    for lease in [full, streamed] {
        let made = table.write(&Write::Create(Box::new(lease.clone()))).await;
        assert_eq!(made, Ok(Some(lease.clone())));
        assert_eq!(table.get(&lease.key).await, Ok(Some(lease.clone())));
        for consistency in [Consistency::Strong, Consistency::Eventual] {
            let view = table.list(consistency).await.expect("a list");
            assert!(view.leases.contains(&lease));
            assert!(view.leases.is_sorted_by_key(|lease| &lease.key));
        }
    }
}

/// Lives of a row told step by step, with the outcome written out: the model could be wrong as well.
async fn stories<T: Table>(table: &T) {
    let key = LeaseKey::from("story");
    let lease = Lease::new(None, "story".into(), Position::TrimHorizon);
    write(table, Write::Create(Box::new(lease))).await;
    let assign = |owner: Option<&str>, to: &str, counter| {
        Write::Assign(Assign {
            key: key.clone(),
            to: worker(to),
            owner: owner.map(worker),
            checkpoint_owner: None,
            counter,
        })
    };
    let renew = |me: &str, counter, handing_over, checkpoint: Option<&str>| Renew {
        key: key.clone(),
        me: worker(me),
        counter,
        handing_over,
        checkpoint: checkpoint.map(position),
        children: BTreeSet::new(),
        throughput_kbps: None,
    };
    let take = |me: &str, owner: &str, seen_counter| Write::Take {
        seize: seize(&key, me, seen_counter, None),
        owner: Some(worker(owner)),
    };

    // The leader assigns, and a second leader with the same view comes too late.
    let row = write(table, assign(None, "a", 0)).await;
    assert_eq!(
        (row.counter, row.owner, row.owner_switches),
        (1, Some(worker("a")), 0)
    );
    let late = table.write(&assign(None, "b", 0)).await;
    assert!(matches!(late, Err(TableError::Changed(Some(row))) if row.counter == 1));

    // The owner renews; whoever saw it before that takes it for dead in vain (H6).
    let row = write(table, Write::Renew(renew("a", 1, false, Some("10/1")))).await;
    assert_eq!((row.counter, &row.checkpoint), (2, &position("10/1")));
    assert!(table.write(&take("b", "a", 1)).await.is_err());

    // A hand-over: the counter stays, the owner reads on, the heir cannot begin, both know of each other.
    let hand_off = Write::HandOff {
        key: key.clone(),
        from: worker("a"),
        to: worker("b"),
    };
    let row = write(table, hand_off.clone()).await;
    assert_eq!((row.counter, row.reader()), (2, Some(&worker("a"))));
    assert!(table.write(&hand_off).await.is_err(), "it is under way");
    let unaware = table.write(&Write::Renew(renew("a", 2, false, None))).await;
    assert!(matches!(unaware, Err(TableError::Changed(Some(row))) if row.handing_over()));
    let row = write(
        table,
        Write::HeirReady {
            key: key.clone(),
            me: worker("b"),
        },
    )
    .await;
    assert!(row.heir_ready && row.counter == 2);
    let row = write(table, Write::Renew(renew("a", 2, true, Some("11/0")))).await;
    assert!(row.heir_ready && row.counter == 3);
    let renewed = renew("a", 3, true, Some("12/0"));
    let complete = Write::Complete {
        renew: renewed,
        to: worker("b"),
    };
    let row = write(table, complete).await;
    assert_eq!((row.counter, row.reader()), (4, Some(&worker("b"))));
    assert_eq!(row.checkpoint, position("12/0"));
    assert!(!row.heir_ready && !row.handing_over());

    // The former owner is fenced off, whatever it believes.
    for handing_over in [false, true] {
        let zombie = Write::Renew(renew("a", 4, handing_over, Some("9/0")));
        assert!(table.write(&zombie).await.is_err());
    }

    // The heir dies and is replaced; nobody removes a row that is not finished (H32).
    let row = write(table, take("c", "b", 4)).await;
    assert_eq!((row.counter, row.owner_switches), (5, 1));
    let delete = Write::Delete { key: key.clone() };
    assert!(table.write(&delete).await.is_err());

    // The end: last position, children and release in one write, then the row may go.
    let last = Renew {
        children: ["x", "y"].map(ShardId::from).into(),
        ..renew("c", 5, false, Some("SHARD_END"))
    };
    let row = write(table, Write::Release(last)).await;
    assert!(row.ended() && row.owner.is_none() && row.session.is_none());
    assert_eq!((row.children.len(), row.owner_switches), (2, 0));
    assert_eq!(table.write(&delete).await, Ok(None));
    assert_eq!(table.write(&delete).await, Err(TableError::Changed(None)));
}

async fn write<T: Table>(table: &T, write: Write) -> Lease {
    let answer = table.write(&write).await;
    answer
        .unwrap_or_else(|error| panic!("{write}: {error:?}"))
        .unwrap_or_else(|| panic!("{write} left no row"))
}

async fn lock_protocol<T: Table>(table: &T) {
    let acquire = |me: &str, version: &str, seen: Option<&str>| LockWrite::Acquire {
        me: worker(me),
        version: version.to_owned(),
        duration: Duration::from_millis(2_500),
        seen: seen.map(str::to_owned),
    };
    let beat = |me: &str, version: &str, next: &str| LockWrite::Heartbeat {
        me: worker(me),
        version: version.to_owned(),
        next: next.to_owned(),
        duration: Duration::from_secs(3),
    };
    let release = |me: &str, version: &str| LockWrite::Release {
        me: worker(me),
        version: version.to_owned(),
    };
    let lock = |owner: &str, version: &str, millis| {
        Some(Lock {
            owner: worker(owner),
            version: version.to_owned(),
            duration: Duration::from_millis(millis),
            released: false,
        })
    };
    let changed = Err(TableError::Changed(None));
    for (write, expected) in [
        (beat("a", "1", "2"), changed.clone()),
        (release("a", "1"), changed.clone()),
        (acquire("a", "1", Some("0")), changed.clone()),
        (acquire("a", "1", None), Ok(lock("a", "1", 2_500))),
        (acquire("b", "9", None), changed.clone()),
        (beat("a", "1", "2"), Ok(lock("a", "2", 3_000))),
        (beat("a", "1", "2"), changed.clone()),
        (beat("b", "2", "3"), changed.clone()),
        (release("a", "1"), changed.clone()),
        (release("b", "2"), changed.clone()),
        (acquire("b", "3", Some("1")), changed.clone()),
        (acquire("b", "3", Some("2")), Ok(lock("b", "3", 2_500))),
        (beat("a", "2", "4"), changed.clone()),
        (release("b", "3"), Ok(None)),
        (release("b", "3"), changed),
        (acquire("c", "5", None), Ok(lock("c", "5", 2_500))),
    ] {
        let answer = table.lock(&write).await;
        assert_eq!(answer, expected, "{write:?}");
        if let Ok(expected) = expected {
            let view = table.list(Consistency::Strong).await.expect("a list");
            assert_eq!(view.lock, expected, "after {write:?}");
        }
    }
}

async fn worker_rows<T: Table>(table: &T) {
    let row = |id: &str, updated| WorkerRow {
        id: worker(id),
        updated,
        every: Some(Duration::from_millis(1_500)),
        leaving: false,
    };
    let java_like = WorkerRow {
        every: None,
        ..row("y", 5)
    };
    let leaving = WorkerRow {
        leaving: true,
        ..row("x", 1_700_000_001)
    };
    let stays_after_all = row("x", 1_700_000_002);
    for put in [&row("x", 1_700_000_000), &leaving, &java_like] {
        assert_eq!(table.put_worker(put).await, Ok(()));
    }
    let view = table.list(Consistency::Strong).await.expect("a list");
    assert_eq!(view.workers, [leaving.clone(), java_like.clone()]);
    table.put_worker(&stays_after_all).await.expect("a put");

    let changed = Err(TableError::Changed(None));
    assert_eq!(
        table.remove_worker(&worker("x"), leaving.updated).await,
        changed
    );
    assert_eq!(table.remove_worker(&worker("nobody"), 5).await, changed);
    assert_eq!(table.remove_worker(&worker("y"), 5).await, Ok(()));
    assert_eq!(table.remove_worker(&worker("y"), 5).await, changed);
    let view = table.list(Consistency::Strong).await.expect("a list");
    assert_eq!(view.workers, [stays_after_all]);
    assert_eq!(view.unreadable, []);
}
