//! Faults in who reads, where a tenure begins and ends, and how processes end.

use super::*;

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
fn a_finished_shard_that_gets_a_row_again_is_seen() {
    breaks(Property::EndsOnce, |events| {
        let ended = find(events, |event| {
            applied(event).is_some_and(|(_, _, after)| after.checkpoint == Position::ShardEnd)
        });
        let Event::Applied {
            process,
            key,
            after: Some(row),
            ..
        } = events[ended].1.clone()
        else {
            unreachable!("just found");
        };
        let removed = Event::Applied {
            process,
            operation: "delete",
            key: key.clone(),
            before: Some(row.clone()),
            after: None,
        };
        let made = Event::Applied {
            process,
            operation: "create",
            key,
            before: None,
            after: Some(Row {
                owner: None,
                checkpoint: Position::TrimHorizon,
                ..row
            }),
        };
        let rest = find(events, |event| matches!(event, Event::Rest { .. }));
        insert(events, rest, made);
        insert(events, rest, removed);
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
