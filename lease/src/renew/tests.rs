use std::time::Duration;

use super::*;
use crate::table::TableError;

fn at(millis: u64) -> Time {
    Time::new(Duration::from_millis(100_000 + millis))
}

fn timing() -> Timing {
    Timing::new(Duration::from_secs(10), Duration::from_secs(5))
}

fn position(number: u64) -> Position {
    Position::at(number.to_string().parse().expect("digits"), 0)
}

/// A row that `me` has just taken, at counter 7, and its hold by a write sent at 0.
fn held() -> Held {
    let mut row = Lease::new(None, "s".into(), position(10));
    row.owner = Some("me".into());
    row.session = Some("mine".into());
    row.counter = 7;
    let mut held = Held::new(row, "mine".into(), at(0), false, timing());
    held.started = true;
    held
}

/// Sends what is due at `millis`.
fn send(held: &mut Held, watermark: u64, millis: u64) -> Write {
    match held.next(Some(&position(watermark)), at(millis)) {
        Some(Next::Write(write)) => write,
        other => panic!("at {millis}: {other:?}"),
    }
}

fn unknown() -> Result<Option<Lease>, TableError> {
    Err(TableError::Unknown("lost".into()))
}

fn changed(row: &Lease) -> Result<Option<Lease>, TableError> {
    Err(TableError::Changed(Some(Box::new(row.clone()))))
}

/// The table does `write` on the row as `held` knows it.
fn done(held: &Held, write: &Write) -> Lease {
    assert!(write.permitted(Some(&held.lease)), "{write:?}");
    write.apply(Some(held.lease.clone())).expect("not deleted")
}

fn handed_over(held: &Held) -> Lease {
    let write = Write::HandOff {
        key: "s".into(),
        from: "me".into(),
        to: "heir".into(),
    };
    done(held, &write)
}

#[test]
fn a_belief_counts_from_when_the_write_was_sent() {
    let mut held = held();
    assert_eq!(held.valid_until(), at(9_500));
    let write = send(&mut held, 11, 3_500);
    assert_eq!(held.due(), Time::NEVER, "one write at a time");
    let row = done(&held, &write);
    assert_eq!(held.answered(Ok(Some(row)), at(5_000)), Outcome::Held);
    assert_eq!(held.valid_until(), at(13_000));
    assert_eq!(held.lease.checkpoint, position(11));
    assert_eq!(held.due(), at(7_500));
}

#[test]
fn the_stored_position_never_goes_back() {
    let mut held = held();
    assert_eq!(send(&mut held, 9, 3_500).checkpoint(), None);
}

#[test]
fn an_idle_lease_is_renewed_no_earlier_than_its_interval() {
    let mut held = Held {
        timing: Timing::new(Duration::from_secs(10), Duration::from_secs(1)),
        ..held()
    };
    let write = send(&mut held, 11, 3_500);
    let row = done(&held, &write);
    held.answered(Ok(Some(row)), at(3_500));
    for millis in (4_500..7_500).step_by(500) {
        assert_eq!(held.next(Some(&position(11)), at(millis)), None, "{millis}");
    }
    send(&mut held, 11, 7_500);
}

#[test]
fn a_renewal_carries_the_throughput_since_the_last_one() {
    let mut held = held();
    for (millis, kib, rate) in [(4_000, 40, 10.0), (8_000, 40, 5.0), (12_000, 140, 15.0)] {
        held.handled(kib * 1024);
        let write = send(&mut held, 11, millis);
        let Write::Renew(renew) = &write else {
            panic!("{write:?}");
        };
        assert_eq!(renew.throughput_kbps, Some(rate), "at {millis}");
        let row = done(&held, &write);
        assert_eq!(row.throughput_kbps, Some(rate));
        held.answered(Ok(Some(row)), at(millis));
    }
}

#[test]
fn first_renewals_are_spread_over_the_second_half_of_the_interval() {
    let dues: std::collections::BTreeSet<Time> = (0..50)
        .map(|n| {
            let lease = Lease {
                key: format!("s{n}").as_str().into(),
                ..held().lease
            };
            Held::new(lease, "mine".into(), at(0), false, timing()).due()
        })
        .collect();
    assert!(dues.len() > 40, "{dues:?}");
    assert!(
        dues.iter()
            .all(|due| *due >= at(2_000) && *due <= at(4_000))
    );
}

#[test]
fn a_throttled_write_is_tried_again_soon_but_not_at_once() {
    let mut held = held();
    let write = send(&mut held, 11, 3_500);
    assert_eq!(
        held.answered(Err(TableError::Throttled("slow".into())), at(3_600)),
        Outcome::Open
    );
    assert!(held.due() > at(3_600) && held.due() <= at(3_850));
    assert_eq!(send(&mut held, 11, 3_850), write);
    assert_eq!(held.valid_until(), at(9_500));
}

/// H21, H22: whatever became of a write without an answer, a read tells.
#[test]
fn an_unclear_write_is_followed_by_a_read() {
    let mut applied = held();
    let write = send(&mut applied, 11, 3_500);
    let row = done(&applied, &write);
    assert_eq!(applied.answered(unknown(), at(6_000)), Outcome::Open);
    assert_eq!(
        applied.next(Some(&position(12)), at(6_300)),
        Some(Next::Read)
    );
    assert_eq!(applied.due(), Time::NEVER);
    assert_eq!(applied.read(Ok(Some(row)), at(6_310)), Outcome::Held);
    assert_eq!(
        (applied.valid_until(), &applied.lease.checkpoint),
        (at(13_000), &position(11))
    );

    let mut dropped = held();
    send(&mut dropped, 11, 3_500);
    dropped.answered(unknown(), at(6_000));
    assert_eq!(dropped.next(None, at(6_300)), Some(Next::Read));
    let row = dropped.lease.clone();
    assert_eq!(dropped.read(Ok(Some(row)), at(6_310)), Outcome::Held);
    assert_eq!(dropped.valid_until(), at(9_500), "a read renews nothing");
    assert_eq!(
        send(&mut dropped, 12, 6_310).checkpoint(),
        Some(&position(12))
    );
}

/// A write that a read did not show may still come: the belief then rests on the earliest moment it can have come.
#[test]
fn a_late_write_is_recognised_and_believed_no_longer_than_it_may() {
    let mut held = held();
    let late = send(&mut held, 11, 3_500);
    held.answered(unknown(), at(6_000));
    assert_eq!(held.next(None, at(6_300)), Some(Next::Read));
    let row = held.lease.clone();
    held.read(Ok(Some(row)), at(6_310));
    let row = done(&held, &late);
    send(&mut held, 12, 7_000);
    assert_eq!(held.answered(changed(&row), at(7_020)), Outcome::Held);
    assert_eq!(held.valid_until(), at(6_300 + 9_500), "not from 7,000");
    assert_eq!(held.lease.checkpoint, position(11));
    assert_eq!(send(&mut held, 12, 7_020).checkpoint(), Some(&position(12)));
}

#[test]
fn somebody_else_s_write_is_a_loss() {
    let take = |row: &Lease, me: &str, session: &str| {
        let mut row = row.clone();
        row.owner = Some(me.into());
        row.session = Some(session.into());
        row.counter += 1;
        row
    };
    for (me, session) in [("other", "theirs"), ("me", "twin")] {
        let mut held = held();
        send(&mut held, 11, 3_500);
        let row = take(&held.lease, me, session);
        assert!(
            matches!(
                held.answered(changed(&row), at(3_600)),
                Outcome::Lost(Some(_))
            ),
            "{me}"
        );
    }
    let mut gone = held();
    send(&mut gone, 11, 3_500);
    gone.answered(Err(TableError::Changed(None)), at(3_600));
    assert_eq!(gone.next(None, at(4_000)), Some(Next::Read));
    assert_eq!(gone.read(Ok(None), at(4_010)), Outcome::Lost(None));
    // Two steps further is never mine, whatever it says.
    let mut far = held();
    send(&mut far, 11, 3_500);
    let row = Lease {
        counter: 9,
        ..far.lease.clone()
    };
    assert!(matches!(
        far.answered(changed(&row), at(3_600)),
        Outcome::Lost(_)
    ));
}

#[test]
fn a_hand_over_is_noticed_by_a_refusal_a_list_or_a_late_answer() {
    let mut refused = held();
    send(&mut refused, 11, 3_500);
    let row = handed_over(&refused);
    assert_eq!(
        refused.answered(changed(&row), at(3_600)),
        Outcome::HandOver
    );
    assert!(
        matches!(&refused.phase, Phase::HandOver { to, stage: Stage::Waiting, .. } if to.as_str() == "heir")
    );
    let Write::Renew(again) = send(&mut refused, 11, 3_600) else {
        panic!("a renewal")
    };
    assert!(again.handing_over);

    let mut listed = held();
    let row = handed_over(&listed);
    assert_eq!(listed.observed(&row, at(100)), Outcome::HandOver);
    // A list from before must not undo it.
    let before = held().lease;
    assert_eq!(listed.observed(&before, at(200)), Outcome::Held);
    assert!(listed.lease.handing_over());

    let mut late = held();
    let write = send(&mut late, 11, 3_500);
    let mut row = done(&late, &write);
    row.owner = Some("heir".into());
    row.checkpoint_owner = Some("me".into());
    late.answered(unknown(), at(6_000));
    assert_eq!(late.next(None, at(6_300)), Some(Next::Read));
    assert_eq!(late.read(Ok(Some(row)), at(6_310)), Outcome::HandOver);
    assert!(matches!(late.phase, Phase::HandOver { .. }));
}

#[test]
fn a_drained_lease_goes_to_its_heir_with_the_last_position() {
    let mut held = held();
    let row = handed_over(&held);
    held.observed(&row, at(100));
    held.phase = Phase::HandOver {
        to: "heir".into(),
        since: at(100),
        stage: Stage::Drained,
    };
    let write = send(&mut held, 12, 200);
    assert!(matches!(&write, Write::Complete { to, .. } if to.as_str() == "heir"));
    let row = done(&held, &write);
    assert_eq!(
        (
            row.reader().map(WorkerId::as_str),
            &row.checkpoint,
            &row.session
        ),
        (Some("heir"), &position(12), &None)
    );
    assert!(matches!(
        held.answered(Ok(Some(row)), at(300)),
        Outcome::HandedOver(_)
    ));
}

#[test]
fn a_silent_heir_loses_the_row_again_even_if_the_answer_is_late() {
    let mut held = held();
    let row = handed_over(&held);
    held.observed(&row, at(100));
    let revert = held.revert(at(6_100)).expect("handing over");
    let back = done(&held, &revert);
    held.answered(unknown(), at(8_600));
    assert_eq!(held.next(None, at(9_000)), Some(Next::Read));
    assert_eq!(held.read(Ok(Some(back)), at(9_010)), Outcome::Held);
    assert_eq!(held.phase, Phase::Running);
    assert!(!held.lease.handing_over());
}

#[test]
fn a_late_renewal_does_not_make_a_release_a_loss() {
    let mut held = held();
    let renewal = send(&mut held, 11, 3_500);
    held.answered(unknown(), at(6_000));
    assert_eq!(held.next(None, at(6_300)), Some(Next::Read));
    let row = held.lease.clone();
    held.read(Ok(Some(row)), at(6_310));
    held.phase = Phase::Leaving {
        since: at(6_310),
        stage: Stage::Drained,
    };
    let row = done(&held, &renewal);
    assert!(matches!(send(&mut held, 11, 6_320), Write::Release(_)));
    assert_eq!(held.answered(changed(&row), at(6_330)), Outcome::Held);
    let release = send(&mut held, 11, 6_340);
    let free = done(&held, &release);
    assert_eq!(free.reader(), None);
    held.answered(unknown(), at(8_800));
    assert_eq!(held.next(None, at(9_100)), Some(Next::Read));
    assert!(matches!(
        held.read(Ok(Some(free)), at(9_110)),
        Outcome::Released(_)
    ));
}

#[test]
fn an_end_is_stored_once_the_children_have_rows() {
    let mut held = held();
    let child = Lease::new(None, "c".into(), Position::TrimHorizon);
    held.phase = Phase::Ended {
        todo: vec![child],
        children: vec!["c".into()],
    };
    assert_eq!(held.next(None, at(100)), None);
    held.phase = Phase::Ended {
        todo: vec![],
        children: vec!["c".into()],
    };
    let write = send(&mut held, 12, 200);
    assert_eq!(write.checkpoint(), Some(&Position::ShardEnd));
    let row = done(&held, &write);
    assert!(row.children.contains("c"));
    assert!(matches!(
        held.answered(Ok(Some(row)), at(300)),
        Outcome::Finished(_)
    ));
}
