//! SubscribeToShard: what is pushed, where a subscription begins, and how it ends.

use super::{
    deregister, event, latest, next, position, refused, subscribe, trim_horizon, with_consumer,
};
use crate::world::{T0, World, payloads, shard};
use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types::{ShardIteratorType, StartingPosition};
use shardkeeper::local::faults::{Action, Rule, Service};
use shardkeeper::local::model::ModelOptions;

/// A consumer whose next subscription takes over at once.
fn at_once() -> ModelOptions {
    ModelOptions {
        takeover_after_ms: 0,
        ..ModelOptions::default()
    }
}

/// A consumer of `s` with the records `e0` to `e2` in it, 100 ms apart; its ARN and their sequence numbers.
async fn with_three_records() -> (World, String, Vec<String>) {
    let (world, arn) = with_consumer(at_once()).await;
    let mut numbers = Vec::new();
    for data in ["e0", "e1", "e2"] {
        numbers.push(world.put("s", data, 0).await.1);
        world.advance(100);
    }
    (world, arn, numbers)
}

/// The payloads of the first event of a subscription that begins here.
async fn first_event(world: &World, arn: &str, from: StartingPosition) -> Vec<String> {
    let mut subscription = subscribe(world, arn, from).await;
    payloads(&event(&mut subscription).await.records)
}

#[tokio::test]
async fn records_are_pushed_and_continuations_resume_without_gap_or_repeat() {
    let (world, arn, _) = with_three_records().await;
    let mut subscription = subscribe(&world, &arn, trim_horizon()).await;
    let first = event(&mut subscription).await;
    assert_eq!(
        (payloads(&first.records), first.millis_behind_latest),
        (vec!["e0".into(), "e1".into(), "e2".into()], 0)
    );
    assert_eq!(first.records[2].partition_key.as_deref(), Some("k"));
    world.put("s", "n1", 0).await;
    assert_eq!(
        payloads(&event(&mut subscription).await.records),
        ["n1"],
        "pushed while subscribed"
    );
    drop(subscription);

    world.put("s", "n2", 0).await;
    for kind in [
        ShardIteratorType::AfterSequenceNumber,
        ShardIteratorType::AtSequenceNumber,
    ] {
        let again = position(kind.clone(), Some(&first.continuation_sequence_number));
        assert_eq!(
            first_event(&world, &arn, again).await,
            ["n1", "n2"],
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_subscription_begins_at_a_time_or_at_a_record() {
    let (world, arn, numbers) = with_three_records().await;
    let at_time = StartingPosition::builder()
        .r#type(ShardIteratorType::AtTimestamp)
        .timestamp(DateTime::from_millis(T0 + 101));
    let at_time = at_time.build().expect("complete");
    assert_eq!(first_event(&world, &arn, at_time).await, ["e2"]);
    let at_number = position(ShardIteratorType::AtSequenceNumber, Some(&numbers[1]));
    assert_eq!(first_event(&world, &arn, at_number).await, ["e1", "e2"]);
}

#[tokio::test]
async fn the_latest_position_is_pinned_and_heartbeats_move_it() {
    let (world, arn) = with_consumer(at_once()).await;
    world.put("s", "before", 0).await;
    let mut latest = subscribe(&world, &arn, latest()).await;
    let pinned = event(&mut latest).await;
    assert!(pinned.records.is_empty() && !pinned.continuation_sequence_number.is_empty());
    world.put("s", "n3", 0).await;
    assert_eq!(payloads(&event(&mut latest).await.records), ["n3"]);
    world.advance(3_000);
    let heartbeat = event(&mut latest).await;
    assert!(
        heartbeat.records.is_empty()
            && heartbeat.continuation_sequence_number > pinned.continuation_sequence_number
    );
}

#[tokio::test]
async fn a_second_subscription_is_refused_and_later_takes_over() {
    let (world, arn) = with_consumer(ModelOptions::default()).await;
    let mut first = subscribe(&world, &arn, latest()).await;
    event(&mut first).await;
    world.advance(4_999);
    assert_eq!(
        refused(&world, &arn, latest()).await,
        "ResourceInUseException"
    );
    event(&mut first).await; // a heartbeat: it lives on
    world.advance(1);
    let mut second = subscribe(&world, &arn, latest()).await;
    assert_eq!(
        next(&mut first).await.expect_err("taken over"),
        "ResourceInUseException"
    );
    event(&mut second).await;
    deregister(&world, &arn).await;
    assert_eq!(
        next(&mut second).await.expect_err("no consumer"),
        "ResourceNotFoundException"
    );

    let no_consumer = arn.replace("/c:", "/d:");
    assert_eq!(
        refused(&world, &no_consumer, latest()).await,
        "ResourceNotFoundException"
    );
}

#[tokio::test]
async fn a_subscription_ends_after_its_time() {
    let (world, arn) = with_consumer(ModelOptions::default()).await;
    let mut subscription = subscribe(&world, &arn, latest()).await;
    event(&mut subscription).await;
    world.advance(300_000);
    assert_eq!(next(&mut subscription).await, Ok(None));
}

#[tokio::test]
async fn a_closed_shard_tells_its_children_once_and_ends() {
    let (world, arn) = with_consumer(ModelOptions {
        update_ms: 50,
        takeover_after_ms: 0,
        ..ModelOptions::default()
    })
    .await;
    world.put("s", "last", 0).await;
    let mut live = subscribe(&world, &arn, trim_horizon()).await;
    assert_eq!(payloads(&event(&mut live).await.records), ["last"]);
    world.split("s", 0, 5).await.expect("split");
    world.advance(50);
    let end = event(&mut live).await;
    assert_eq!(
        (
            end.records.len(),
            end.continuation_sequence_number.as_str(),
            end.child_shards().len()
        ),
        (0, "", 2)
    );
    assert_eq!(end.child_shards()[1].parent_shards, [shard(0)]);
    assert_eq!(next(&mut live).await, Ok(None));

    let mut late = subscribe(&world, &arn, trim_horizon()).await;
    let records = event(&mut late).await;
    assert_eq!(
        (payloads(&records.records), records.child_shards().len()),
        (vec!["last".to_owned()], 0)
    );
    assert!(!records.continuation_sequence_number.is_empty());
    assert_eq!(event(&mut late).await.child_shards().len(), 2);
    assert_eq!(next(&mut late).await, Ok(None));
}

#[tokio::test]
async fn faults_reach_into_the_stream() {
    let (world, arn) = with_consumer(ModelOptions {
        takeover_after_ms: 0,
        event_bytes: 1,
        ..ModelOptions::default()
    })
    .await;
    for data in ["a", "b", "c"] {
        world.put("s", data, 0).await;
    }
    let rule = |action| Rule {
        after_events: Some(2),
        ..Rule::new(action)
            .on(Service::Kinesis, "SubscribeToShard")
            .times(1)
    };
    let faults = world.aws.faults();
    let kinds = [
        (Action::Internal, "InternalFailureException"),
        (Action::Cut, "no service error"),
    ];
    for (action, expect) in kinds {
        faults.add(rule(action), world.now()).expect("a good rule");
        let mut subscription = subscribe(&world, &arn, trim_horizon()).await;
        assert_eq!(payloads(&event(&mut subscription).await.records), ["a"]);
        assert_eq!(payloads(&event(&mut subscription).await.records), ["b"]);
        assert_eq!(
            next(&mut subscription).await.expect_err("a fault"),
            expect,
            "{action:?}"
        );
    }
    let mid_frame = Rule {
        after_bytes: Some(300),
        ..Rule::new(Action::Cut).on(Service::Kinesis, "SubscribeToShard")
    };
    faults.add(mid_frame, world.now()).expect("a good rule");
    let mut subscription = subscribe(&world, &arn, trim_horizon()).await;
    assert!(
        next(&mut subscription).await.is_err(),
        "cut within the first event"
    );
}
