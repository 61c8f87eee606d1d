//! Faults in what is handed over, settled and stored.

use super::*;

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
