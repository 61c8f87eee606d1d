//! The judges are judged: a good history is found good; with one fault planted in it, the promise that the fault breaks
//! is named, and no other.

mod holding;
mod records;

use std::time::Duration;

use checkpoint::{Position, SequenceNumber};
use lease::{ShardId, sync::Start};

use super::{Property, check};
use crate::world::{
    Event, History, Plan,
    faults::{HandlerOdds, StreamOdds, TableOdds},
    history::{Blow, Fate, Holder, Return, Row},
    plan::Step,
    simulate,
};

/// Workers join and leave, a shard is split, aggregates are read; nothing fails.
fn good() -> History {
    let at = Duration::from_secs;
    let mut plan = Plan::of(1);
    plan.failover = at(1);
    plan.checkpoint_every = Duration::from_millis(300);
    plan.start = Start::TrimHorizon;
    plan.shards = 2;
    plan.workers = 2;
    plan.manual = false;
    plan.delivery.batch.records = 10;
    plan.delivery.batch.bytes = 1 << 20;
    plan.delivery.pace.limit = 100;
    plan.put_every = Duration::from_millis(300);
    plan.aggregated = 0.7;
    plan.malformed = 0.0;
    plan.table = TableOdds::default();
    plan.stream = StreamOdds::default();
    plan.handler = HandlerOdds::default();
    plan.opening = at(1);
    plan.steps = vec![
        (at(6), Step::Split(0)),
        (at(9), Step::Join),
        (at(11), Step::Drain(0)),
    ];
    plan.quiet = at(14);
    plan.encore = true;
    simulate(&plan)
}

/// Says that `edit`, done to a good history, breaks this promise and no other.
#[track_caller]
fn breaks(property: Property, edit: impl FnOnce(&mut Vec<(Duration, Event)>)) {
    let mut history = good();
    let before = history.clone();
    edit(&mut history.events);
    assert_ne!(history, before, "the fault was planted");
    let violations = check(&history);
    assert!(!violations.is_empty(), "nobody noticed");
    for violation in violations {
        assert_eq!(violation.property, property, "{violation}");
    }
}

type Events = Vec<(Duration, Event)>;

#[track_caller]
fn find(events: &Events, which: impl FnMut(&Event) -> bool) -> usize {
    find_from(events, 0, which)
}

#[track_caller]
fn find_from(events: &Events, from: usize, mut which: impl FnMut(&Event) -> bool) -> usize {
    let found = events[from..].iter().position(|(_, event)| which(event));
    from + found.expect("a good history has such an event")
}

/// Puts an event before the one at `at`, at the same time.
fn insert(events: &mut Events, at: usize, event: Event) {
    let time = events[at].0;
    events.insert(at, (time, event));
}

fn handed(event: &Event) -> Option<(&Holder, &Vec<(Position, String)>)> {
    match event {
        Event::Handed { by, records, .. } => Some((by, records)),
        _ => None,
    }
}

fn applied(event: &Event) -> Option<(&'static str, &Row, &Row)> {
    match event {
        Event::Applied {
            operation,
            before: Some(before),
            after: Some(after),
            ..
        } => Some((operation, before, after)),
        _ => None,
    }
}

/// Behind every record of every shard.
fn far() -> Position {
    let digits: SequenceNumber = "9".repeat(60).parse().expect("digits");
    Position::at(digits, 0)
}

fn is_at(position: &Position) -> bool {
    matches!(position, Position::At { .. })
}

/// The last record handed over in a shard before an event.
fn last_handed(events: &Events, shard: &ShardId, before: usize) -> Position {
    let earlier = events[..before].iter().rev();
    let mut batches = earlier.filter_map(|(_, event)| handed(event));
    let batch = batches.find(|(by, _)| by.shard == *shard);
    batch.expect("something was handed over").1[0].0.clone()
}

/// The first hand-over in a shard that has parents, and one of those.
fn first_of_child(events: &Events) -> (usize, ShardId) {
    let at = find(
        events,
        |event| matches!(event, Event::Shard { parents, .. } if !parents.is_empty()),
    );
    let Event::Shard { shard, parents } = events[at].1.clone() else {
        unreachable!("just found");
    };
    let first = find(events, |event| {
        handed(event).is_some_and(|(by, _)| by.shard == shard)
    });
    (first, parents[0].clone())
}

#[test]
fn a_good_history_is_good_and_shows_what_the_plants_need() {
    let history = good();
    assert_eq!(check(&history), []);
    assert!(history.records() > 50, "{}", history.records());
}

/// A holder, and the first hand-over of the next one of its shard.
fn two_tenures(events: &Events) -> (Holder, usize) {
    for (at, (_, event)) in events.iter().enumerate() {
        let Some((by, _)) = handed(event) else {
            continue;
        };
        let earlier = events[..at]
            .iter()
            .rev()
            .filter_map(|(_, event)| handed(event));
        let before = earlier
            .map(|(by, _)| by)
            .find(|before| before.shard == by.shard);
        if let Some(before) = before.filter(|before| *before != by) {
            return (before.clone(), at);
        }
    }
    panic!("a good history has a shard that changes hands")
}
