use super::*;

fn fired(faults: &Faults, operation: &str, now: i64) -> Option<Action> {
    faults
        .decide(Service::Kinesis, operation, |key| key == "shard-1", now)
        .rule
        .map(|rule| rule.action)
}

#[test]
fn every_condition_narrows_a_rule() {
    let throttle = || Rule::new(Action::Throttle);
    let cases = [
        (throttle(), true),
        (throttle().on(Service::Kinesis, "GetRecords"), true),
        (throttle().on(Service::DynamoDb, "GetRecords"), false),
        (throttle().on(Service::Kinesis, "PutRecord"), false),
        (
            Rule {
                key: Some("shard-1".into()),
                ..throttle()
            },
            true,
        ),
        (
            Rule {
                key: Some("shard-2".into()),
                ..throttle()
            },
            false,
        ),
        (
            Rule {
                probability: 0.0,
                ..throttle()
            },
            false,
        ),
        (
            Rule {
                for_ms: Some(11),
                ..throttle()
            },
            true,
        ),
        (
            Rule {
                for_ms: Some(10),
                ..throttle()
            },
            false,
        ),
        (
            Rule {
                skip: 1,
                ..throttle()
            },
            false,
        ),
        (throttle().times(0), false),
    ];
    for (rule, fires) in cases {
        let faults = Faults::new(1);
        faults.add(rule.clone(), 100).expect("a good rule");
        assert_eq!(
            fired(&faults, "GetRecords", 110).is_some(),
            fires,
            "{rule:?}"
        );
    }
}

#[test]
fn counts_and_skips_are_exact() {
    let faults = Faults::new(1);
    faults
        .add(
            Rule {
                skip: 2,
                ..Rule::new(Action::Cut).times(3)
            },
            0,
        )
        .expect("a good rule");
    let hits: Vec<bool> = (0..8).map(|_| fired(&faults, "X", 0).is_some()).collect();
    assert_eq!(hits, [false, false, true, true, true, false, false, false]);
    let status = &faults.list()[0];
    assert_eq!((status.seen, status.hits), (5, 3));
    assert!(faults.remove(status.id) && !faults.remove(status.id) && faults.list().is_empty());
}

#[test]
fn delays_add_up_and_the_first_other_action_decides() {
    let faults = Faults::new(1);
    let delay = |ms| Rule {
        delay_ms: ms,
        ..Rule::new(Action::Delay)
    };
    for rule in [
        delay(5),
        Rule::new(Action::Internal),
        Rule::new(Action::Lost),
        delay(7),
    ] {
        faults.add(rule, 0).expect("a good rule");
    }
    let verdict = faults.decide(Service::DynamoDb, "X", |_| false, 0);
    assert_eq!(
        (verdict.delay_ms, verdict.rule.map(|rule| rule.action)),
        (12, Some(Action::Internal))
    );
    assert_eq!(
        faults.list()[2].hits,
        0,
        "a rule that was not asked has not fired"
    );
    faults.clear();
    assert_eq!(
        faults.decide(Service::DynamoDb, "X", |_| false, 0),
        Verdict::default()
    );
}

#[test]
fn the_same_seed_gives_the_same_draws() {
    let draws = |seed| {
        let faults = Faults::new(seed);
        faults
            .add(
                Rule {
                    probability: 0.5,
                    ..Rule::new(Action::Throttle)
                },
                0,
            )
            .expect("a good rule");
        (0..200)
            .map(|_| fired(&faults, "X", 0).is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!(draws(7), draws(7));
    assert_ne!(draws(7), draws(8));
    let hits = draws(7).iter().filter(|hit| **hit).count();
    assert!((60..140).contains(&hits), "{hits} of 200 at one half");
}

#[test]
fn contradictions_are_refused() {
    let parse = |json: &str| serde_json::from_str::<Rule>(json);
    assert!(
        parse(r#"{"action":"throttle","opration":"x"}"#).is_err(),
        "a misspelt field"
    );
    assert!(parse(r#"{"operation":"GetRecords"}"#).is_err(), "no action");
    let refused = [
        r#"{"action":"throttle","probability":1.5}"#,
        r#"{"action":"delay"}"#,
        r#"{"action":"error"}"#,
        r#"{"action":"lost","after_bytes":1}"#,
        r#"{"action":"throttle","code":"X"}"#,
        r#"{"action":"cut","after_events":1}"#,
        r#"{"action":"lost","operation":"SubscribeToShard","after_events":1}"#,
    ];
    for json in refused {
        assert!(
            Faults::new(1)
                .add(parse(json).expect("well formed"), 0)
                .is_err(),
            "{json}"
        );
    }
}
