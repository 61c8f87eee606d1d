//! One held row: what its holder writes, believes and recognises.

use std::{collections::BTreeSet, time::Duration};

use checkpoint::Position;
use lease::{
    Lease, LeaseKey, MemoryTable, Seize, Session, TableError, Time, Timing, WorkerId, Write,
    renew::{Held, Next, Outcome},
};

fn timing() -> Timing {
    Timing::new(Duration::from_secs(10), Duration::from_secs(5))
}

fn at(seconds: u64) -> Time {
    Time::new(Duration::from_secs(seconds))
}

fn position(sequence: u128) -> Position {
    Position::at(sequence.into(), 0)
}

fn take(row: &Lease, me: &str) -> Write {
    Write::Take {
        seize: Seize {
            key: row.key.clone(),
            me: WorkerId::from(me),
            session: Session::from(format!("run-of-{me}")),
            seen_counter: row.counter,
            pin: None,
        },
        owner: row.owner.clone(),
    }
}

/// A row in a table, taken at second 100.
fn held(table: &MemoryTable, shard: &str) -> Held {
    table.put(Lease::new(None, shard.into(), Position::TrimHorizon));
    let row = table.row(&LeaseKey::from(shard)).expect("just put");
    let row = table.write_now(&take(&row, "me")).expect("it is free");
    let session = Session::from("run-of-me");
    Held::new(row.expect("not removed"), session, at(100), false, timing())
}

fn write(next: Option<Next>) -> Write {
    match next {
        Some(Next::Write(write)) => write,
        other => panic!("not a write: {other:?}"),
    }
}

#[test]
fn belief_rests_on_when_a_write_was_sent_and_not_on_when_it_was_answered() {
    let table = MemoryTable::new();
    let mut held = held(&table, "shard");
    let first = held.valid_until();
    let renewal = write(held.next(None, at(104)));
    let answer = table.write_now(&renewal);
    // The answer takes five seconds.
    assert_eq!(held.answered(answer, at(109)), Outcome::Held);
    assert_eq!(held.valid_until(), timing().valid_until(at(104)));
    assert!(first < held.valid_until());
}

#[test]
fn a_renewal_carries_the_checkpoint() {
    let table = MemoryTable::new();
    let mut held = held(&table, "shard");
    let renewal = write(held.next(Some(&position(7)), at(104)));
    assert_eq!(renewal.checkpoint(), Some(&position(7)));
    assert_eq!(
        held.answered(table.write_now(&renewal), at(104)),
        Outcome::Held
    );
    // One write did both.
    assert_eq!(held.lease.checkpoint, position(7));
}

#[test]
fn a_position_behind_the_stored_one_is_never_written() {
    let table = MemoryTable::new();
    let mut held = held(&table, "shard");
    let renewal = write(held.next(Some(&position(7)), at(104)));
    held.answered(table.write_now(&renewal), at(104));
    let renewal = write(held.next(Some(&position(3)), at(108)));
    assert_eq!(renewal.checkpoint(), None);
}

#[test]
fn a_write_whose_answer_was_lost_is_looked_for_before_anything_else_is_written() {
    let table = MemoryTable::new();
    let mut held = held(&table, "shard");
    let renewal = write(held.next(Some(&position(7)), at(104)));
    table.write_now(&renewal).expect("it gets through");
    let lost = Err(TableError::Unknown("the reply was lost".into()));
    assert_eq!(held.answered(lost, at(106)), Outcome::Open);
    assert_eq!(held.next(Some(&position(9)), at(107)), Some(Next::Read));
    let row = table.row(&held.lease.key);
    assert_eq!(held.read(Ok(row), at(107)), Outcome::Held);
    assert_eq!(held.lease.checkpoint, position(7));
    // The belief is that of the write which got through.
    assert_eq!(held.valid_until(), timing().valid_until(at(104)));
}

#[test]
fn the_same_step_by_another_run_of_this_id_is_not_taken_for_the_lost_write() {
    let table = MemoryTable::new();
    let mut held = held(&table, "shard");
    let renewal = write(held.next(None, at(104)));
    // Another process with this id takes the row: one step further, same owner, same checkpoint.
    let row = table.row(&held.lease.key).expect("its row");
    let Write::Take { mut seize, .. } = take(&row, "me") else {
        unreachable!()
    };
    seize.session = Session::from("another-run");
    table
        .write_now(&Write::Acquire(seize))
        .expect("its name is on it");
    let answer = table.write_now(&renewal);
    assert!(matches!(
        held.answered(answer, at(104)),
        Outcome::Lost(Some(_))
    ));
}

#[test]
fn a_late_renewal_defeats_whoever_took_its_holder_for_dead() {
    let table = MemoryTable::new();
    let mut held = held(&table, "shard");
    let seen = table.row(&held.lease.key).expect("its row");
    let renewal = write(held.next(None, at(104)));
    assert_eq!(
        held.answered(table.write_now(&renewal), at(109)),
        Outcome::Held
    );
    let late = table.write_now(&take(&seen, "heir"));
    assert!(matches!(late, Err(TableError::Changed(Some(_)))));
}

#[test]
fn every_tenure_is_greater_than_all_counters_before_it() {
    let table = MemoryTable::new();
    let mut written = BTreeSet::new();
    let first = held(&table, "shard");
    let key = first.lease.key.clone();
    let mut tenures = vec![first.tenure];
    for (number, worker) in ["a", "b", "a"].into_iter().enumerate() {
        let row = table.row(&key).expect("its row");
        written.insert(row.counter);
        let row = table.write_now(&take(&row, worker)).expect("unchanged");
        let session = Session::from(format!("run-of-{worker}"));
        let now = at(200 + 100 * number as u64);
        let mut held = Held::new(row.expect("kept"), session, now, false, timing());
        assert!(written.iter().all(|counter| *counter < held.tenure));
        for step in 0..3 {
            let now = now + Duration::from_secs(4 * (step + 1));
            let renewal = write(held.next(None, now));
            held.answered(table.write_now(&renewal), now);
            written.insert(held.lease.counter);
        }
        tenures.push(held.tenure);
    }
    assert!(tenures.is_sorted() && tenures.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn renewals_of_one_worker_are_spread_over_the_interval() {
    let table = MemoryTable::new();
    let mut tenths = [0; 10];
    let every = timing().renew_every();
    for number in 0..500 {
        let due = held(&table, &format!("shardId-{number:012}"))
            .due()
            .since(at(100));
        assert!(due >= every / 2 && due <= every, "{due:?}");
        let place = (due - every / 2).as_secs_f64() / (every / 2).as_secs_f64();
        tenths[((place * 10.0) as usize).min(9)] += 1;
    }
    assert!(
        tenths.iter().all(|count| (20..90).contains(count)),
        "{tenths:?}"
    );
}
