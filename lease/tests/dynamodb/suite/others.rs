//! The rows that are no leases: the leader lock and the workers.

use std::time::Duration;

use lease::{Consistency, Lock, LockWrite, Table, TableError, WorkerRow};

use super::worker;

pub(super) async fn lock_protocol<T: Table>(table: &T) {
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

pub(super) async fn worker_rows<T: Table>(table: &T) {
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
