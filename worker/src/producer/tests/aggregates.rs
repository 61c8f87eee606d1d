//! Aggregates: one shard each, and what happens when the shards are others by the time they land.

use checkpoint::HashKey;
use lease::{ShardId, Time};

use super::{HALF, SOON, aggregating, at, lanes, shard, tags, two_shards};
use crate::producer::{
    Options,
    lanes::{Answer, Outcome},
    shard_map::ShardMap,
};

#[test]
fn aggregates_hold_records_of_one_shard() {
    let mut lanes = lanes(&aggregating(1));
    assert!(lanes.is_stale(), "the shards must be known first");
    lanes.learn(two_shards(), Time::ZERO);
    for tag in 0..10 {
        let key = if tag % 2 == 0 { 5 } else { HALF + 5 };
        lanes.add(at(key, "x"), tag, Time::ZERO);
    }
    let call = lanes.next_call(Time::ZERO, true).expect("hurry");
    let keys: Vec<_> = call
        .entries
        .iter()
        .map(|entry| entry.explicit_hash_key)
        .collect();
    assert_eq!(keys, [Some(HashKey(5)), Some(HashKey(HALF + 5))]);
    let outcomes = ["left", "right"].map(|id| Outcome::Placed(ShardId::from(id)));
    lanes.answered(call, Answer::Results(outcomes.into()), Time::ZERO);
    assert!(lanes.is_empty() && !lanes.is_stale());
    assert_eq!(
        (lanes.summary().records, lanes.summary().kinesis_records),
        (10, 2)
    );
}

/// `left` is split while two aggregates are on their way. The one whose records all belong where it landed is done,
/// the one with a stray is sent again whole, before what came later.
#[test]
fn an_aggregate_in_the_wrong_shard_is_sent_again_whole() {
    let mut lanes = lanes(&aggregating(1));
    lanes.learn(two_shards(), Time::ZERO);
    for (tag, key) in [1, 2, HALF - 1].into_iter().enumerate() {
        lanes.add(at(key, &tag.to_string()), tag as u64, Time::ZERO);
    }
    let call = lanes.next_call(Time::ZERO, true).expect("hurry");
    assert_eq!(call.entries.len(), 1);
    lanes.add(at(3, "3"), 3, Time::ZERO);
    let landed = Outcome::Placed(ShardId::from("left-left"));
    lanes.answered(call, Answer::Results(vec![landed]), Time::ZERO);
    assert!(lanes.is_stale());
    assert!(
        lanes.next_call(SOON, true).is_none(),
        "nothing by old ranges"
    );
    assert_eq!(lanes.summary().records, 0);

    let quarter = HALF / 2;
    let shards = vec![
        shard("left", 0, HALF - 1, true),
        shard("left-left", 0, quarter - 1, false),
        shard("left-right", quarter, HALF - 1, false),
        shard("right", HALF, u128::MAX, false),
    ];
    lanes.learn(ShardMap::new(shards).expect("open"), SOON);
    assert_eq!(lanes.summary().misplaced, 3);
    let call = lanes.next_call(SOON, true).expect("hurry");
    let sent: Vec<_> = call
        .entries
        .iter()
        .map(|entry| entry.explicit_hash_key)
        .collect();
    assert_eq!(sent, [Some(HashKey(1)), Some(HashKey(HALF - 1))]);
    let outcomes = ["left-left", "left-right"].map(|id| Outcome::Placed(ShardId::from(id)));
    lanes.answered(call, Answer::Results(outcomes.into()), SOON);
    assert!(lanes.is_empty());
    assert_eq!(lanes.summary().records, 4);
}

/// After a merge an aggregate lands in another shard than foretold, yet all of its records belong there.
#[test]
fn an_aggregate_at_home_elsewhere_is_not_sent_again() {
    let mut lanes = lanes(&aggregating(1));
    lanes.learn(two_shards(), Time::ZERO);
    lanes.add(at(1, "1"), 1, Time::ZERO);
    lanes.add(at(2, "2"), 2, Time::ZERO);
    let call = lanes.next_call(Time::ZERO, true).expect("hurry");
    let landed = Outcome::Placed(ShardId::from("merged"));
    lanes.answered(call, Answer::Results(vec![landed]), Time::ZERO);
    let merged = ShardMap::new(vec![shard("merged", 0, u128::MAX, false)]);
    lanes.learn(merged.expect("open"), SOON);
    assert!(lanes.is_empty());
    assert_eq!((lanes.summary().records, lanes.summary().misplaced), (2, 0));
}

/// A list of shards that never catches up must not make the producer send the same records for ever.
#[test]
fn records_that_always_go_astray_are_given_up() {
    let mut lanes = lanes(&aggregating(1));
    lanes.learn(two_shards(), Time::ZERO);
    lanes.add(at(1, "1"), 1, Time::ZERO);
    lanes.add(at(2, "2"), 2, Time::ZERO);
    let (mut now, mut calls) = (Time::ZERO, 0);
    let mut turns = 0;
    while !lanes.is_empty() {
        turns += 1;
        assert!(turns < 1_000, "time does not move: {now:?}");
        now = now.max(lanes.timeout(true));
        // A pack that is closed now may have to wait for its lane.
        let Some(call) = lanes.next_call(now, true) else {
            continue;
        };
        calls += 1;
        let landed = Outcome::Placed(ShardId::from("unheard-of"));
        lanes.answered(call, Answer::Results(vec![landed]), now);
        lanes.learn(two_shards(), now);
    }
    assert_eq!(tags(lanes.summary()), [1, 2]);
    assert!(now >= Time::ZERO + Options::default().give_up);
    assert!(calls < 100, "{calls} calls");
}
