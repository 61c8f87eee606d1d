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

/// Owner, reader and counter of a row after a write, or `None` if it is refused.
type After = Option<(&'static str, &'static str, u64)>;

/// The kinds of row that every write is tried on.
const ROWS: [(&str, &str, u64); 4] = [("", "", 5), ("a", "", 5), ("b", "a", 5), ("a", "", 6)];
const NONE: After = None;

/// What each write does to each of the [`ROWS`]; all of them need a row.
fn cases(cases: impl IntoIterator<Item = (Write, [After; 4])>) {
    for (write, wants) in cases {
        for ((owner, reader, counter), want) in ROWS.iter().zip(wants) {
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
        }
        assert!(!write.permitted(None), "{write:?} needs a row");
    }
}

#[test]
fn a_renewal_needs_the_reader_and_that_it_knows_of_the_heir() {
    let alone = renew("a", 5, false);
    let heir = renew("b", 5, false);
    let knowing = renew("a", 5, true);
    cases([
        (
            Write::Renew(alone.clone()),
            [NONE, Some(("a", "", 6)), NONE, NONE],
        ),
        (
            Write::Renew(knowing.clone()),
            [NONE, NONE, Some(("b", "a", 6)), NONE],
        ),
        (Write::Renew(heir), [NONE; 4]),
        (Write::Release(alone), [NONE, Some(("", "", 6)), NONE, NONE]),
        (
            Write::Release(knowing),
            [NONE, NONE, Some(("", "", 6)), NONE],
        ),
    ]);
}

#[test]
fn whoever_begins_needs_the_row_as_it_was_seen() {
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
    let c = Some(("c", "", 6));
    cases([
        (
            Write::Acquire(seize("a", 5)),
            [NONE, Some(("a", "", 6)), NONE, NONE],
        ),
        (Write::Acquire(seize("b", 5)), [NONE; 4]),
        (take(None), [c, NONE, NONE, NONE]),
        (take(Some("a")), [NONE, c, NONE, NONE]),
        (take(Some("b")), [NONE, NONE, c, NONE]),
        (assign(None, None), [c, NONE, NONE, NONE]),
        (assign(Some("b"), Some("a")), [NONE, NONE, c, NONE]),
    ]);
}

#[test]
fn a_hand_over_is_begun_by_the_owner_and_ends_with_the_heir_it_named() {
    let complete = |to: &str| Write::Complete {
        renew: renew("a", 5, true),
        to: to.into(),
    };
    let hand_off = Write::HandOff {
        key: "s".into(),
        from: "a".into(),
        to: "b".into(),
    };
    let ready = Write::HeirReady {
        key: "s".into(),
        me: "b".into(),
    };
    cases([
        (
            hand_off,
            [NONE, Some(("b", "a", 5)), NONE, Some(("b", "a", 6))],
        ),
        (ready, [NONE, NONE, Some(("b", "a", 5)), NONE]),
        (complete("b"), [NONE, NONE, Some(("b", "", 6)), NONE]),
        (complete("c"), [NONE; 4]),
    ]);
}

#[test]
fn no_row_is_removed_that_is_not_finished() {
    cases([(Write::Delete { key: "s".into() }, [NONE; 4])]);
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
