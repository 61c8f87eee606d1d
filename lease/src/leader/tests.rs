use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Time {
    Time::new(Duration::from_millis(100_000 + millis))
}

fn worker(name: &str, session: &str) -> Leader {
    Leader::new(
        name.into(),
        session.into(),
        SECOND * 10,
        SECOND / 2,
        SECOND * 2,
    )
}

/// The lock goes through `row` as the table would do it.
fn act(leader: &mut Leader, row: &mut Option<Lock>, now: Time) -> bool {
    let Some(write) = leader.poll(true, now) else {
        return false;
    };
    let done = write.permitted(row.as_ref());
    if done {
        *row = write.apply();
        leader.answered(Ok(row.clone()), now);
    } else {
        leader.answered(Err(TableError::Changed(None)), now);
    }
    done
}

#[test]
fn nobody_leads_before_a_look_and_the_first_to_write_does() {
    let (mut a, mut b, mut row) = (worker("a", "1"), worker("b", "2"), None);
    assert!(!act(&mut a, &mut row, at(0)));
    for leader in [&mut a, &mut b] {
        leader.observed(None, at(0), at(0));
    }
    assert!(act(&mut a, &mut row, at(1)) && a.leads(at(1)));
    assert!(!act(&mut b, &mut row, at(2)) && !b.leads(at(2)));
    b.observed(row.as_ref(), at(3), at(3));
    assert_eq!(b.holder(at(3)).map(WorkerId::as_str), Some("a"));
}

#[test]
fn the_holder_stops_believing_before_an_observer_takes() {
    let (mut a, mut b, mut row) = (worker("a", "1"), worker("b", "2"), None);
    a.observed(None, at(0), at(0));
    assert!(act(&mut a, &mut row, at(0)));
    // Seen the moment it was written: the earliest there is.
    b.observed(row.as_ref(), at(0), at(0));
    for millis in (0..10_000).step_by(100) {
        assert!(b.poll(true, at(millis)).is_none(), "{millis}");
    }
    assert!(a.leads(at(9_499)) && !a.leads(at(9_500)));
    assert_eq!(b.due(true), Some(at(10_001)));
    assert!(act(&mut b, &mut row, at(10_001)) && b.leads(at(10_001)));
    // The former holder wakes: its heartbeat is refused, and it looks again.
    assert!(!act(&mut a, &mut row, at(10_002)) && !a.leads(at(10_002)));
    a.observed(row.as_ref(), at(10_003), at(10_003));
    assert_eq!(a.holder(at(10_003)).map(WorkerId::as_str), Some("b"));
}

#[test]
fn a_belief_counts_from_when_the_write_was_sent() {
    let mut a = worker("a", "1");
    a.observed(None, at(0), at(0));
    let write = a.poll(true, at(0)).expect("absent");
    a.answered(Ok(write.apply()), at(4_000));
    assert!(a.leads(at(9_499)) && !a.leads(at(9_500)));
}

#[test]
fn a_lost_reply_keeps_the_old_belief_and_no_more() {
    let (mut a, mut row) = (worker("a", "1"), None);
    a.observed(None, at(0), at(0));
    assert!(act(&mut a, &mut row, at(0)));
    let beat = a.poll(true, at(2_000)).expect("due");
    row = beat.apply();
    a.answered(Err(TableError::Unknown("lost".into())), at(4_500));
    assert!(a.leads(at(9_499)) && !a.leads(at(9_500)));
    assert!(a.poll(true, at(4_600)).is_none(), "not at once");
    // The next heartbeat names the old version and is refused; a look, and the lock is mine again.
    assert!(!act(&mut a, &mut row, at(5_100)));
    assert_eq!(
        a.observed(row.as_ref(), at(5_200), at(5_200)),
        Sighting::Fine
    );
    assert!(act(&mut a, &mut row, at(5_300)) && a.leads(at(15_299 - 500)));
}

#[test]
fn a_former_run_s_lock_is_taken_at_once_and_a_living_twin_is_noticed() {
    let (mut old, mut row) = (worker("a", "1"), None);
    old.observed(None, at(0), at(0));
    assert!(act(&mut old, &mut row, at(0)));
    let mut new = worker("a", "2");
    assert_eq!(new.observed(row.as_ref(), at(100), at(100)), Sighting::Fine);
    assert!(act(&mut new, &mut row, at(100)) && new.leads(at(100)));
    assert_eq!(old.observed(row.as_ref(), at(200), at(200)), Sighting::Twin);
    // After its belief it cannot know who had the lock in between.
    assert_eq!(
        old.observed(row.as_ref(), at(9_600), at(9_600)),
        Sighting::Fine
    );
}

#[test]
fn a_released_lock_is_taken_at_once() {
    let (mut a, mut b, mut row) = (worker("a", "1"), worker("b", "2"), None);
    a.observed(None, at(0), at(0));
    assert!(act(&mut a, &mut row, at(0)));
    b.observed(row.as_ref(), at(1), at(1));
    let write = a.release(at(10)).expect("mine");
    assert!(write.permitted(row.as_ref()));
    row = write.apply();
    a.answered(Ok(row.clone()), at(11));
    assert!(!a.leads(at(11)));
    b.observed(row.as_ref(), at(20), at(20));
    assert!(act(&mut b, &mut row, at(20)));
}

#[test]
fn who_gives_the_lock_back_leads_no_more_though_no_answer_is_here_yet() {
    let (mut a, mut b, mut row) = (worker("a", "1"), worker("b", "2"), None);
    a.observed(None, at(0), at(0));
    assert!(act(&mut a, &mut row, at(0)) && a.leads(at(1)));
    let release = a.release(at(1)).expect("it holds the lock");
    assert!(!a.leads(at(1)) && a.holds(at(1)));
    assert!(release.permitted(row.as_ref()));
    row = release.apply();
    b.observed(row.as_ref(), at(2), at(2));
    assert!(act(&mut b, &mut row, at(2)) && b.leads(at(3)));
    assert!(!a.leads(at(3)), "both would lead");
}

#[test]
fn a_lock_that_could_not_be_given_back_is_given_back_again() {
    let (mut a, mut row) = (worker("a", "1"), None);
    a.observed(None, at(0), at(0));
    assert!(act(&mut a, &mut row, at(0)));
    a.release(at(1)).expect("it holds the lock");
    a.answered(Err(TableError::Throttled(String::new())), at(2));
    assert!(!a.leads(at(1_000)) && a.holds(at(1_000)));
    let release = a.release(at(1_000)).expect("it holds the lock still");
    assert!(release.permitted(row.as_ref()));
    a.answered(Ok(None), at(1_001));
    assert!(!a.holds(at(1_001)));
}
