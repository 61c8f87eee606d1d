//! Two workers over one table, explored completely: every order of looks, plans, writes, answers, lost replies, late
//! writes, pauses, restarts, takes, hand-overs, releases, shard ends and removals of finished rows, within budgets of
//! what goes wrong ([`fleet::Left`]).
//!
//! The model owns only the network, the clock and the consumers. What a worker does is decided by the very functions it
//! runs: [`lease::renew::Held`], [`lease::leader::Leader`], [`lease::assign::plan`], [`lease::sync`],
//! [`lease::Write::permitted`] and [`lease::Write::apply`]. Time goes in halves of the failover time, the coarsest grain
//! at which a belief has a middle, a holder renews before it ends, and an observer comes after it. A pause is a worker
//! that does nothing while time goes on.
//!
//! What must hold in every state: no two workers read one shard under a valid belief; the stored position never goes
//! back, nor beyond what is settled; a finished shard is not read; a change of the reader raises the counter; and once
//! nothing goes wrong any more, whoever lives reads every unfinished shard (`quiet.rs`). Of a parent and its child: the
//! child is not read before the parent's end is stored, and the table never shows a hole (`family.rs`).
//!
//! **What is left out, and why nothing is lost by it**
//! * *States that no rule can tell apart are one* (`print.rs`): times count from now, counters from the row's, and the
//!   two workers, like two shards without kinship, can change places. So time needs no end: the search of one shard
//!   stops when nothing new comes any more.
//! * *What can have no consequence is forgotten* ([`shard::Shard::tidy`]): a write whose condition can never hold again, and the
//!   sight of a row that has moved on (all that an old sight can still lead to, a hand-over or an heir's answer, is
//!   possible at any time in this model, see `share.rs`); a hold whose belief is over for good; moments that nothing is
//!   measured from. In each case a worker that was slower, or looked once more, could be in the state that is kept.
//! * *Plans are taken for more than they are*: as leader or not, in any company, whatever a plan could want of a row may
//!   be done. What the rows' safety rests on is then the rows alone, and never the lock.
//! * *Two shards share nothing but the clock, the workers' lives and the budgets*: a step of a shard is a function of
//!   that shard (`steps.rs`), and `fleet.rs` compares the plans over both with those over each. A run of two shards
//!   is therefore, seen at one of them, a run of that shard, and what holds in all states of one holds in all of both. The
//!   two are explored together all the same, as far as time allows.
//!
//! The reductions are tested too: without symmetry the same states are found, each shard of two is in a state
//! that was found for one, and a mistake is planted for each property ([`planted::Planted`]) and caught.

mod explore;
mod family;
mod fleet;
mod lock;
mod network;
mod planted;
mod print;
mod quiet;
mod shard;
mod share;
mod steps;

use std::{collections::HashSet, time::Duration};

use explore::{explore, nothing_goes_wrong};
use family::Family;
use fleet::{Bounds, Fleet, Left};
use lock::Locks;
use planted::Planted;
use shard::Setting;

const HALVES: Setting = Setting::of_ticks(Duration::from_secs(5));

const fn left(faults: u8, moves: u8) -> Left {
    Left { faults, moves }
}

const fn bounds(may: Left, ticks: Option<u32>) -> Bounds {
    Bounds {
        setting: HALVES,
        may,
        ticks,
        symmetry: true,
    }
}

fn one_shard(may: Left) {
    let fleet = Fleet::<1>::new(bounds(may, None));
    let what = format!("one shard, {may:?}, for ever");
    nothing_goes_wrong(&what, &fleet, |state| fleet.comes_to_rest(state));
}

fn two_shards_side_by_side(may: Left, ticks: u32) {
    let fleet = Fleet::<2>::new(bounds(may, Some(ticks)));
    let what = format!("two shards, {may:?}, {ticks} ticks");
    nothing_goes_wrong(&what, &fleet, |state| fleet.plans_are_covered(state));
}

fn family(may: Left, ticks: u32) {
    let family = Family::new(HALVES, may, Some(ticks));
    let what = format!("parent and child, {may:?}, {ticks} ticks");
    nothing_goes_wrong(&what, &family, |_| Ok(()));
}

fn lock(may: Left, ticks: u32) {
    let locks = Locks {
        setting: HALVES,
        may,
        ticks,
    };
    nothing_goes_wrong(&format!("lock, {may:?}, {ticks} ticks"), &locks, |_| Ok(()));
}

/// A lost reply, a lost request or a late one, and pauses without end.
#[test]
fn one_shard_with_a_bad_network() {
    one_shard(left(1, 0));
}

/// A hand-over, a release, a restart or a shard's end at any moment, and pauses without end.
#[test]
fn one_shard_that_moves() {
    one_shard(left(0, 1));
}

/// Both at once. Two million states:
/// `cargo test -p shardkeeper-lease --test exhaustive -- --ignored --nocapture one_shard`.
#[test]
#[ignore = "minutes"]
fn one_shard_that_moves_over_a_bad_network() {
    one_shard(left(1, 1));
}

/// Everything at once, long enough for a worker to be taken for dead.
#[test]
fn two_shards() {
    two_shards_side_by_side(left(1, 1), 2);
}

/// A shard ends, its child begins, its row goes.
#[test]
fn parent_and_child() {
    family(left(0, 0), 2);
    family(left(1, 0), 1);
    family(left(0, 1), 1);
}

/// `cargo test -p shardkeeper-lease --test exhaustive -- --ignored --nocapture parent`.
#[test]
#[ignore = "minutes"]
fn parent_and_child_that_move_over_a_bad_network() {
    family(left(1, 1), 1);
}

/// The leader lock, with lost replies, late requests, restarts, a lock that is given back, and pauses.
#[test]
fn the_leader_lock() {
    lock(left(1, 0), 5);
    lock(left(1, 1), 3);
}

/// The search without symmetry finds what the search with it finds, under other names.
#[test]
fn symmetry_hides_nothing() {
    let reduced = bounds(left(1, 1), Some(0));
    let with = Fleet::<2>::new(reduced);
    let size = explore(&with, |_| Ok(())).expect("nothing goes wrong");
    let without = Fleet::<2>::new(Bounds {
        symmetry: false,
        ..reduced
    });
    let mut names = HashSet::new();
    let all = explore(&without, |state| {
        names.insert(explore::Model::print(&with, state));
        Ok(())
    });
    let all = all.expect("nothing goes wrong");
    println!("{} states, {} without symmetry", size.states, all.states);
    assert_eq!(names.len(), size.states);
    assert!(all.states > 3 * size.states, "there is symmetry");
}

/// Each of two shards is in a state that was found for one.
#[test]
fn two_shards_are_twice_one() {
    let may = left(1, 0);
    let mut known = HashSet::new();
    let one = Fleet::<1>::new(bounds(may, None));
    let found = explore(&one, |state| {
        known.insert(state.shards[0].print());
        Ok(())
    });
    found.expect("nothing goes wrong");
    let two = Fleet::<2>::new(bounds(may, Some(1)));
    let found = explore(&two, |state| {
        let new = state
            .shards
            .iter()
            .find(|place| !known.contains(&place.print()));
        new.map_or(Ok(()), |_| {
            Err("a state that one shard never has".to_owned())
        })
    });
    found.expect("nothing goes wrong");
}

/// The shortest story of a planted mistake ends with the property that it breaks.
#[test]
fn planted_mistakes_are_found() {
    let planted = |planted| Setting {
        planted: Some(planted),
        ..HALVES
    };
    let alone = [
        (Planted::StampedByReply, left(0, 0), "both read"),
        (Planted::TakenUnseen, left(0, 0), "both read"),
        (Planted::ReleaseUnasked, left(0, 1), "both read"),
        (Planted::StoredAgain, left(0, 0), "the checkpoint goes back"),
        (Planted::LateAccepted, left(1, 0), "both read"),
        (
            Planted::StoredUnsettled,
            left(0, 0),
            "stored beyond what is settled",
        ),
        (
            Planted::EndedUnsettled,
            left(0, 1),
            "stored beyond what is settled",
        ),
        (Planted::EndedTaken, left(0, 1), "a finished shard is read"),
        (Planted::NobodyRescues, left(0, 0), "nobody reads it again"),
    ];
    for (mistake, may, broken) in alone {
        let fleet = Fleet::<1>::new(Bounds {
            setting: planted(mistake),
            ..bounds(may, Some(3))
        });
        is_found(
            mistake,
            broken,
            explore(&fleet, |state| fleet.comes_to_rest(state)),
        );
    }
    let together = [
        (Planted::EndBeforeChild, "the table shows a hole"),
        (
            Planted::ChildUnblocked,
            "a child is read before its parent's end",
        ),
        (Planted::RetiredEarly, "the table shows a hole"),
    ];
    for (mistake, broken) in together {
        let family = Family::new(planted(mistake), left(0, 0), Some(2));
        is_found(mistake, broken, explore(&family, |_| Ok(())));
    }
}

fn is_found(mistake: Planted, broken: &str, found: Result<explore::Size, String>) {
    match found {
        Ok(size) => panic!("{mistake:?} is not found in {} states", size.states),
        Err(story) => {
            let last = story.lines().last().expect("a story");
            println!(
                "{mistake:?}: {last}, after {} steps",
                story.lines().count() - 2
            );
            assert!(last.contains(broken), "{mistake:?}:\n{story}");
        }
    }
}
