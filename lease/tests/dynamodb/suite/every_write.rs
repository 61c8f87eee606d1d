//! Every kind of write in every state a row can be in, against the model in [`lease::write`].

use std::collections::{BTreeMap, BTreeSet};

use checkpoint::{HashRange, Position};
use lease::{
    Assign, Consistency, Lease, LeaseKey, Renew, Session, ShardId, Table, TableError, Write,
    lease::Pending,
};

use super::{position, seize, worker};

const COUNTER: u64 = 7;

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
pub(super) async fn in_every_state<T: Table>(table: &T) {
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
pub(super) async fn rows_hold_everything<T: Table>(table: &T) {
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
