//! Random answers to random records.

use std::{collections::BTreeMap, time::Duration};

use lease::{ShardId, Time};

use super::{aggregating, at, two_shards};
use crate::{
    backoff::Random,
    producer::{
        Options,
        lanes::{Answer, Call, Lanes, Outcome},
    },
    source::SourceError,
};

/// Whatever the answers: once nothing waits, each record was placed or is told of, once.
#[test]
fn no_record_is_forgotten_whatever_the_answers() {
    for seed in 0..200 {
        let mut random = Random::seeded(seed);
        let options = Options {
            give_up: Duration::from_secs(2),
            ..if random.fraction() < 0.5 {
                aggregating(3)
            } else {
                Options {
                    calls: 3,
                    ..Options::default()
                }
            }
        };
        let mut lanes = Lanes::new(&options, random.fork());
        let mut now = Time::ZERO;
        let mut in_flight: Vec<Call> = Vec::new();
        let mut given = 0;
        while given < 300 || !lanes.is_empty() {
            if lanes.is_stale() && in_flight.is_empty() {
                lanes.learn(two_shards(), now);
            }
            if given < 300 {
                let key = u128::from(random.number()) << 64;
                lanes.add(at(key, &given.to_string()), given, now);
                given += 1;
            }
            while let Some(call) = lanes.next_call(now, given == 300) {
                in_flight.push(call);
            }
            if !in_flight.is_empty() && (given == 300 || random.fraction() < 0.2) {
                let index = usize::try_from(random.number()).unwrap_or(0) % in_flight.len();
                let call = in_flight.swap_remove(index);
                let answer = any_answer(&call, &mut random);
                assert!(lanes.answered(call, answer, now).is_none());
            }
            now = now + Duration::from_millis(random.number() % 40);
        }
        let summary = lanes.summary();
        assert_eq!(
            summary.records + summary.unplaced.len() as u64,
            300,
            "seed {seed}"
        );
        let mut seen = BTreeMap::new();
        for one in &summary.unplaced {
            *seen.entry(one.tag).or_insert(0) += 1;
        }
        assert!(seen.values().all(|times| *times == 1), "seed {seed}");
    }
}

fn any_answer(call: &Call, random: &mut Random) -> Answer {
    let draw = random.fraction();
    if draw < 0.1 {
        return Answer::Refused(SourceError::Failed("no answer".into()));
    }
    if draw < 0.15 {
        return Answer::Refused(SourceError::Invalid("no".into()));
    }
    let outcomes = call.entries.iter().map(|_| match random.fraction() {
        draw if draw < 0.2 => Outcome::Refused("slow down".into()),
        draw if draw < 0.6 => Outcome::Placed(ShardId::from("left")),
        _ => Outcome::Placed(ShardId::from("right")),
    });
    Answer::Results(outcomes.collect())
}
