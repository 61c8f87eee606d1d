use super::*;

fn row(owner: &str, reader: &str, counter: u64) -> Lease {
    let mut row = Lease::new(None, "s".into(), Position::TrimHorizon);
    row.owner = (!owner.is_empty()).then(|| owner.into());
    row.checkpoint_owner = (!reader.is_empty()).then(|| reader.into());
    row.counter = counter;
    row
}

fn renew(me: &str, counter: u64, handing_over: bool) -> Renew {
    Renew {
        key: "s".into(),
        me: me.into(),
        counter,
        handing_over,
        checkpoint: None,
        children: Default::default(),
        throughput_kbps: None,
    }
}

fn seize(me: &str, seen_counter: u64) -> Seize {
    Seize {
        key: "s".into(),
        me: me.into(),
        session: "run".into(),
        seen_counter,
        pin: None,
    }
}

/// Every write on every kind of row: (owner, reader, counter) after it, or `None` if it is refused.
#[test]
fn conditions_and_effects() {
    let rows = [("", "", 5), ("a", "", 5), ("b", "a", 5), ("a", "", 6)];
    let take = |owner: Option<&str>| Write::Take {
        seize: seize("c", 5),
        owner: owner.map(Into::into),
    };
    let assign = |owner: Option<&str>, reader: Option<&str>| {
        Write::Assign(Assign {
            key: "s".into(),
            to: "c".into(),
            owner: owner.map(Into::into),
            checkpoint_owner: reader.map(Into::into),
            counter: 5,
        })
    };
    let none = None;
    for (write, want) in [
        (
            Write::Renew(renew("a", 5, false)),
            [none, Some(("a", "", 6)), none, none],
        ),
        (
            Write::Renew(renew("a", 5, true)),
            [none, none, Some(("b", "a", 6)), none],
        ),
        (Write::Renew(renew("b", 5, false)), [none, none, none, none]),
        (
            Write::Release(renew("a", 5, false)),
            [none, Some(("", "", 6)), none, none],
        ),
        (
            Write::Release(renew("a", 5, true)),
            [none, none, Some(("", "", 6)), none],
        ),
        (
            Write::Complete {
                renew: renew("a", 5, true),
                to: "b".into(),
            },
            [none, none, Some(("b", "", 6)), none],
        ),
        (
            Write::Complete {
                renew: renew("a", 5, true),
                to: "c".into(),
            },
            [none, none, none, none],
        ),
        (
            Write::Acquire(seize("a", 5)),
            [none, Some(("a", "", 6)), none, none],
        ),
        (Write::Acquire(seize("b", 5)), [none, none, none, none]),
        (take(None), [Some(("c", "", 6)), none, none, none]),
        (take(Some("a")), [none, Some(("c", "", 6)), none, none]),
        (take(Some("b")), [none, none, Some(("c", "", 6)), none]),
        (assign(None, None), [Some(("c", "", 6)), none, none, none]),
        (
            assign(Some("b"), Some("a")),
            [none, none, Some(("c", "", 6)), none],
        ),
        (
            Write::HandOff {
                key: "s".into(),
                from: "a".into(),
                to: "b".into(),
            },
            [none, Some(("b", "a", 5)), none, Some(("b", "a", 6))],
        ),
        (
            Write::HeirReady {
                key: "s".into(),
                me: "b".into(),
            },
            [none, none, Some(("b", "a", 5)), none],
        ),
        (Write::Delete { key: "s".into() }, [none, none, none, none]),
    ] {
        for ((owner, reader, counter), want) in rows.iter().zip(want) {
            let row = row(owner, reader, *counter);
            let after = write
                .permitted(Some(&row))
                .then(|| write.apply(Some(row)).expect("a row"));
            let name =
                |id: &Option<WorkerId>| id.as_ref().map_or(String::new(), ToString::to_string);
            let got = after.map(|row| (name(&row.owner), name(&row.checkpoint_owner), row.counter));
            let want =
                want.map(|(owner, reader, counter)| (owner.to_owned(), reader.to_owned(), counter));
            assert_eq!(got, want, "{write:?} on {owner} {reader} {counter}");
            assert!(!write.permitted(None), "{write:?} needs a row");
        }
    }
}

#[test]
fn a_row_is_made_once_and_removed_when_finished() {
    let mut finished = row("a", "", 3);
    finished.checkpoint = Position::ShardEnd;
    let create = Write::Create(Box::new(row("", "", 0)));
    assert!(create.permitted(None) && !create.permitted(Some(&finished)));
    let delete = Write::Delete { key: "s".into() };
    assert!(delete.permitted(Some(&finished)) && delete.apply(Some(finished)).is_none());
}

#[test]
fn a_checkpoint_clears_what_was_prepared_and_a_seizure_pins() {
    let mut before = row("a", "", 5);
    before.pending = Some(crate::lease::Pending {
        position: Position::Latest,
        state: None,
    });
    before.owner_switches = 3;
    let mut write = renew("a", 5, false);
    assert!(
        write_on(&before, &Write::Renew(write.clone()))
            .pending
            .is_some()
    );
    write.checkpoint = Some(Position::ShardEnd);
    let after = write_on(&before, &Write::Renew(write));
    assert_eq!((after.pending, after.owner_switches), (None, 0));
    let pinned = write_on(
        &before,
        &Write::Acquire(Seize {
            pin: Some(7),
            ..seize("a", 5)
        }),
    );
    assert_eq!(
        (pinned.pinned, pinned.session),
        (Some(7), Some("run".into()))
    );
}

fn write_on(row: &Lease, write: &Write) -> Lease {
    assert!(write.permitted(Some(row)));
    write.apply(Some(row.clone())).expect("a row")
}
