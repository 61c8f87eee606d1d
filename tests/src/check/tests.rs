//! The judges are judged: a good history is found good; with one fault planted in it, the promise that the fault breaks
//! is named, and no other.

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

#[test]
fn a_record_that_is_never_handed_over_is_missed() {
    breaks(Property::NothingLost, |events| {
        let (by, _) = events
            .iter()
            .rev()
            .find_map(|(_, event)| handed(event))
            .expect("some");
        let put = Event::Put {
            shard: by.shard.clone(),
            position: far(),
            text: "lost".into(),
            arrival: i64::MAX,
            fate: Fate::Deliver,
        };
        let last = events.len() - 1;
        insert(events, last, put);
    });
}

#[test]
fn a_record_that_is_handed_over_and_never_settled_is_missed() {
    breaks(Property::NothingLost, |events| {
        let at = events
            .iter()
            .rposition(|(_, event)| handed(event).is_some())
            .expect("some");
        let (by, _) = handed(&events[at].1)
            .map(|(by, records)| (by.clone(), records))
            .expect("it is");
        let put = Event::Put {
            shard: by.shard.clone(),
            position: far(),
            text: "tried".into(),
            arrival: i64::MAX,
            fate: Fate::Deliver,
        };
        let again = Event::Handed {
            by: by.clone(),
            attempt: 1,
            records: vec![(far(), "tried".into())],
        };
        let failed = Event::Returned {
            by,
            how: Return::Failed,
        };
        let returned = find_from(events, at, |event| matches!(event, Event::Returned { .. }));
        for (n, event) in [put, again, failed].into_iter().enumerate() {
            insert(events, returned + 1 + n, event);
        }
    });
}

#[test]
fn a_position_that_is_stored_before_its_record_is_settled_is_seen() {
    breaks(Property::StoredIsSettled, |events| {
        let stored = find(events, |event| {
            applied(event).is_some_and(|(name, before, after)| {
                name == "renew" && before.checkpoint < after.checkpoint && is_at(&after.checkpoint)
            })
        });
        let Event::Applied {
            key,
            after: Some(row),
            ..
        } = events[stored].1.clone()
        else {
            unreachable!("just found");
        };
        let settled = find(events, |event| {
            matches!(event, Event::Settled { by, through }
                if by.shard.as_str() == key.as_str() && *through == row.checkpoint)
        });
        let event = events.remove(settled);
        events.insert(stored, event);
    });
}

#[test]
fn a_position_that_goes_back_is_seen() {
    breaks(Property::NeverBack, |events| {
        let forward = |event: &Event| {
            applied(event).is_some_and(|(name, before, after)| {
                name == "renew" && before.checkpoint < after.checkpoint && is_at(&before.checkpoint)
            })
        };
        let at = find(events, forward);
        let Event::Applied {
            process,
            operation,
            key,
            before,
            after,
        } = events[at].1.clone()
        else {
            unreachable!("just found");
        };
        let back = Event::Applied {
            process,
            operation,
            key,
            before: after,
            after: before,
        };
        insert(events, at + 1, back);
    });
}

#[test]
fn a_first_delivery_out_of_order_is_seen() {
    breaks(Property::InOrder, |events| {
        let at = find(events, |event| {
            handed(event).is_some_and(|(_, records)| records.len() > 2)
        });
        if let Event::Handed { records, .. } = &mut events[at].1 {
            let last = records.len() - 1;
            records.swap(last - 1, last);
        }
    });
}

#[test]
fn a_child_that_is_read_before_its_parent_is_done_is_seen() {
    breaks(Property::InOrder, |events| {
        let (first, parent) = first_of_child(events);
        let earlier = events[..first]
            .iter()
            .rev()
            .filter_map(|(_, event)| handed(event));
        let by = earlier
            .map(|(by, _)| by.clone())
            .find(|by| by.shard == parent);
        let by = by.expect("the parent was read");
        let put = Event::Put {
            shard: parent,
            position: far(),
            text: "late".into(),
            arrival: i64::MAX,
            fate: Fate::Deliver,
        };
        let records = vec![(far(), "late".to_owned())];
        let late = [
            Event::Handed {
                by: by.clone(),
                attempt: 1,
                records,
            },
            Event::Settled {
                by: by.clone(),
                through: far(),
            },
            Event::Returned {
                by,
                how: Return::Ok,
            },
        ];
        for event in late.into_iter().rev() {
            insert(events, first + 1, event);
        }
        insert(events, first, put);
    });
}

#[test]
fn a_hand_over_after_another_took_the_row_is_seen() {
    breaks(Property::OneReader, |events| {
        let at = events
            .iter()
            .rposition(|(_, event)| handed(event).is_some())
            .expect("some");
        let (by, _) = handed(&events[at].1).expect("it is");
        let taken = find(events, |event| {
            matches!(event, Event::Applied { key, process, after: Some(row), .. }
                if key.as_str() == by.shard.as_str() && *process == by.process && row.counter == by.tenure)
        });
        let Event::Applied {
            key,
            before,
            after: Some(mut row),
            ..
        } = events[taken].1.clone()
        else {
            unreachable!("just found");
        };
        row.counter += 1_000;
        let taken = Event::Applied {
            process: 99,
            operation: "take",
            key,
            before,
            after: Some(row),
        };
        insert(events, at, taken);
    });
}

#[test]
fn a_call_that_outlives_its_tenure_is_seen() {
    breaks(Property::OneReader, |events| {
        let (first, next) = two_tenures(events);
        let last = events[..next]
            .iter()
            .rposition(|(_, event)| matches!(event, Event::Returned { by, .. } if *by == first));
        events.remove(last.expect("its calls returned"));
    });
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

#[test]
fn a_record_that_nobody_put_is_seen() {
    breaks(Property::NothingInvented, |events| {
        let at = find(events, |event| handed(event).is_some());
        if let Event::Handed { records, .. } = &mut events[at].1 {
            records[0].1 = "invented".into();
        }
    });
}

#[test]
fn a_record_that_a_policy_drops_and_a_handler_gets_is_seen() {
    breaks(Property::NothingInvented, |events| {
        let at = find(events, |event| {
            handed(event).is_some_and(|(_, records)| records.len() > 1)
        });
        let (by, records) = handed(&events[at].1).expect("it is");
        let (shard_of, place) = (by.shard.clone(), records[1].0.clone());
        for (_, event) in events.iter_mut() {
            if let Event::Put {
                shard,
                position,
                fate,
                ..
            } = event
                && *shard == shard_of
                && *position == place
            {
                *fate = Fate::OutOfRange;
            }
        }
    });
}

#[test]
fn a_shard_without_a_reader_and_uneven_shares_are_seen() {
    breaks(Property::Rest, |events| {
        let at = find(events, |event| matches!(event, Event::Rest { .. }));
        if let Event::Rest { rows, .. } = &mut events[at].1 {
            let open = rows
                .values_mut()
                .find(|row| row.checkpoint != Position::ShardEnd);
            open.expect("an open shard").owner = None;
        }
    });
    breaks(Property::Rest, |events| {
        let at = find(events, |event| matches!(event, Event::Rest { .. }));
        if let Event::Rest { rows, living } = &mut events[at].1 {
            assert!(living.len() > 1);
            rows.values_mut()
                .for_each(|row| row.owner = Some(living[0].clone()));
        }
    });
}

#[test]
fn a_tenure_that_begins_elsewhere_is_seen() {
    breaks(Property::ResumesWhereStored, |events| {
        let (_, next) = two_tenures(events);
        let (by, _) = handed(&events[next].1)
            .map(|(by, records)| (by.clone(), records))
            .expect("it is");
        let earlier = last_handed(events, &by.shard, next);
        for (_, event) in events.iter_mut() {
            if let Event::Applied {
                key,
                before: Some(before),
                after: Some(after),
                ..
            } = event
                && key.as_str() == by.shard.as_str()
                && after.counter == by.tenure
            {
                // The row stood before what the last tenure had done.
                before.checkpoint = Position::TrimHorizon;
                after.checkpoint = Position::TrimHorizon;
            }
        }
        assert!(earlier < far());
    });
}

#[test]
fn a_record_that_comes_again_without_a_failure_is_seen() {
    breaks(Property::ResumesWhereStored, |events| {
        let at = find(events, |event| handed(event).is_some());
        let again = events[at].1.clone();
        let (by, _) = handed(&again).expect("it is");
        let returned = Event::Returned {
            by: by.clone(),
            how: Return::Ok,
        };
        insert(events, at, returned);
        insert(events, at, again);
    });
}

#[test]
fn a_row_that_is_given_away_without_what_was_settled_is_seen() {
    breaks(Property::GivenAwayWhole, |events| {
        let at = find(events, |event| {
            applied(event).is_some_and(|(name, _, after)| {
                matches!(name, "release" | "complete") && is_at(&after.checkpoint)
            })
        });
        if let Event::Applied {
            before: Some(before),
            after: Some(after),
            ..
        } = &mut events[at].1
        {
            before.checkpoint = Position::TrimHorizon;
            after.checkpoint = Position::TrimHorizon;
        }
    });
}

#[test]
fn a_checkpoint_that_is_confirmed_and_not_stored_is_seen() {
    breaks(Property::ConfirmedIsStored, |events| {
        let at = find(events, |event| handed(event).is_some());
        let (by, _) = handed(&events[at].1).expect("it is");
        let confirmed = Event::Confirmed {
            by: by.clone(),
            through: far(),
        };
        insert(events, at, confirmed);
    });
}

#[test]
fn an_end_that_is_stored_before_the_rows_of_the_children_is_seen() {
    breaks(Property::ChildrenBeforeEnd, |events| {
        let (first, _) = first_of_child(events);
        let (by, _) = handed(&events[first].1)
            .map(|(by, records)| (by.clone(), records))
            .expect("it is");
        let made = find(
            events,
            |event| matches!(event, Event::Applied { key, before: None, .. } if key.as_str() == by.shard.as_str()),
        );
        events.remove(made);
    });
}

#[test]
fn a_process_that_ends_badly_is_seen() {
    let ended = |event: &Event| {
        matches!(
            event,
            Event::Blow {
                what: Blow::Ended(_),
                ..
            }
        )
    };
    breaks(Property::EndsWell, |events| {
        let rest = find(events, |event| matches!(event, Event::Rest { .. }));
        let at = find_from(events, rest, ended);
        if let Event::Blow { what, .. } = &mut events[at].1 {
            *what = Blow::Ended("DeadlinePassed".into());
        }
    });
    breaks(Property::EndsWell, |events| {
        let at = find(events, ended);
        if let Event::Blow { what, .. } = &mut events[at].1 {
            *what = Blow::Ended("the table is gone".into());
        }
    });
    breaks(Property::EndsWell, |events| {
        let at = find(events, ended);
        if let Event::Blow { what, .. } = &mut events[at].1 {
            *what = Blow::Duplicate;
        }
    });
    breaks(Property::EndsWell, |events| {
        let panic = Event::Blow {
            process: 0,
            what: Blow::Panic("index out of bounds".into()),
        };
        insert(events, 10, panic);
    });
}
