//! The real SDK against the embedded Kinesis: consumers and SubscribeToShard.

use crate::world::{T0, World, code, payloads, shard, start};
use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::operation::subscribe_to_shard::SubscribeToShardOutput;
use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types::error::SubscribeToShardEventStreamError;
use aws_sdk_kinesis::types::{
    ConsumerStatus, ShardIteratorType, StartingPosition, SubscribeToShardEvent,
    SubscribeToShardEventStream,
};
use shardkeeper::local::faults::{Action, Rule, Service};
use shardkeeper::local::model::ModelOptions;

/// A stream `s` and the ARN of its consumer `c`.
async fn with_consumer(options: ModelOptions) -> (World, String) {
    let world = start(options).await;
    world.create("s", 1).await;
    let arn = register(&world.kinesis, "c").await;
    (world, arn)
}

async fn stream_arn(kinesis: &Client) -> String {
    let summary = kinesis
        .describe_stream_summary()
        .stream_name("s")
        .send()
        .await
        .expect("described");
    summary
        .stream_description_summary
        .expect("summary")
        .stream_arn
}

async fn register(kinesis: &Client, name: &str) -> String {
    let registered = kinesis
        .register_stream_consumer()
        .stream_arn(stream_arn(kinesis).await)
        .consumer_name(name)
        .send()
        .await
        .expect("registered");
    registered.consumer.expect("consumer").consumer_arn
}

fn position(kind: ShardIteratorType, number: Option<&str>) -> StartingPosition {
    StartingPosition::builder()
        .r#type(kind)
        .set_sequence_number(number.map(str::to_owned))
        .build()
        .expect("complete")
}

async fn subscribe(world: &World, arn: &str, from: StartingPosition) -> SubscribeToShardOutput {
    let subscribed = world
        .kinesis
        .subscribe_to_shard()
        .consumer_arn(arn)
        .shard_id(shard(0))
        .starting_position(from);
    subscribed.send().await.expect("subscribed")
}

/// The next event; `None` at the end of the stream, the error code if it fails.
async fn next(
    subscription: &mut SubscribeToShardOutput,
) -> Result<Option<SubscribeToShardEvent>, &'static str> {
    match subscription.event_stream.recv().await {
        Ok(None) => Ok(None),
        Ok(Some(SubscribeToShardEventStream::SubscribeToShardEvent(event))) => Ok(Some(event)),
        Ok(Some(other)) => panic!("unknown event {other:?}"),
        Err(error) => Err(error
            .as_service_error()
            .map_or("no service error", exception)),
    }
}

fn exception(error: &SubscribeToShardEventStreamError) -> &'static str {
    match error {
        SubscribeToShardEventStreamError::ResourceInUseException(_) => "ResourceInUseException",
        SubscribeToShardEventStreamError::ResourceNotFoundException(_) => {
            "ResourceNotFoundException"
        }
        SubscribeToShardEventStreamError::InternalFailureException(_) => "InternalFailureException",
        other => panic!("an exception this service does not send: {other}"),
    }
}

async fn event(subscription: &mut SubscribeToShardOutput) -> SubscribeToShardEvent {
    next(subscription).await.expect("alive").expect("not ended")
}

#[tokio::test]
async fn consumers_are_registered_listed_and_deregistered() {
    let world = start(ModelOptions {
        consumer_ms: 100,
        ..ModelOptions::default()
    })
    .await;
    let k = &world.kinesis;
    world.create("s", 1).await;
    let arn = register(k, "c").await;
    let stream = stream_arn(k).await;
    let status = || async {
        let described = k
            .describe_stream_consumer()
            .consumer_arn(&arn)
            .send()
            .await
            .expect("described");
        described
            .consumer_description
            .expect("description")
            .consumer_status
    };
    assert_eq!(status().await, ConsumerStatus::Creating);
    let early = k
        .subscribe_to_shard()
        .consumer_arn(&arn)
        .shard_id(shard(0))
        .starting_position(position(ShardIteratorType::Latest, None));
    assert_eq!(
        code(early.send().await.map(|_| ())),
        "ResourceInUseException"
    );
    world.advance(100);
    assert_eq!(status().await, ConsumerStatus::Active);
    let again = k
        .register_stream_consumer()
        .stream_arn(&stream)
        .consumer_name("c");
    assert_eq!(code(again.send().await), "ResourceInUseException");
    register(k, "d").await;
    let page = k
        .list_stream_consumers()
        .stream_arn(&stream)
        .max_results(1)
        .send()
        .await
        .expect("listed");
    assert_eq!(page.consumers()[0].consumer_arn, arn);
    let rest = k
        .list_stream_consumers()
        .stream_arn(&stream)
        .next_token(page.next_token.expect("more"))
        .send()
        .await
        .expect("listed");
    assert_eq!(
        (
            rest.consumers()[0].consumer_name.as_str(),
            rest.next_token()
        ),
        ("d", None)
    );
    let by_name = k
        .describe_stream_consumer()
        .stream_arn(&stream)
        .consumer_name("d")
        .send()
        .await
        .expect("described");
    assert_eq!(
        by_name
            .consumer_description
            .expect("description")
            .stream_arn,
        stream
    );

    assert_eq!(
        code(k.delete_stream().stream_name("s").send().await),
        "ResourceInUseException"
    );
    k.deregister_stream_consumer()
        .consumer_arn(&arn)
        .send()
        .await
        .expect("deregistered");
    assert_eq!(status().await, ConsumerStatus::Deleting);
    world.advance(100);
    assert_eq!(
        code(k.describe_stream_consumer().consumer_arn(&arn).send().await),
        "ResourceNotFoundException"
    );
    k.delete_stream()
        .stream_name("s")
        .enforce_consumer_deletion(true)
        .send()
        .await
        .expect("deleted");
}

#[tokio::test]
async fn records_are_pushed_and_continuations_resume_without_gap_or_repeat() {
    let (world, arn) = with_consumer(ModelOptions {
        takeover_after_ms: 0,
        ..ModelOptions::default()
    })
    .await;
    for data in ["e0", "e1", "e2"] {
        world.put("s", data, 0).await;
        world.advance(100);
    }
    let mut subscription =
        subscribe(&world, &arn, position(ShardIteratorType::TrimHorizon, None)).await;
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
        let mut again = subscribe(
            &world,
            &arn,
            position(kind.clone(), Some(&first.continuation_sequence_number)),
        )
        .await;
        assert_eq!(
            payloads(&event(&mut again).await.records),
            ["n1", "n2"],
            "{kind}"
        );
    }
    let at_time = StartingPosition::builder()
        .r#type(ShardIteratorType::AtTimestamp)
        .timestamp(DateTime::from_millis(T0 + 101));
    let mut at_time = subscribe(&world, &arn, at_time.build().expect("complete")).await;
    assert_eq!(
        payloads(&event(&mut at_time).await.records),
        ["e2", "n1", "n2"]
    );
    let mut at_number = subscribe(
        &world,
        &arn,
        position(
            ShardIteratorType::AtSequenceNumber,
            Some(&first.records[1].sequence_number),
        ),
    )
    .await;
    assert_eq!(payloads(&event(&mut at_number).await.records)[0], "e1");

    let mut latest = subscribe(&world, &arn, position(ShardIteratorType::Latest, None)).await;
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
    let latest = || position(ShardIteratorType::Latest, None);
    let mut first = subscribe(&world, &arn, latest()).await;
    event(&mut first).await;
    world.advance(4_999);
    let second = world
        .kinesis
        .subscribe_to_shard()
        .consumer_arn(&arn)
        .shard_id(shard(0))
        .starting_position(latest());
    assert_eq!(
        code(second.send().await.map(|_| ())),
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
    world
        .kinesis
        .deregister_stream_consumer()
        .consumer_arn(&arn)
        .send()
        .await
        .expect("deregistered");
    assert_eq!(
        next(&mut second).await.expect_err("no consumer"),
        "ResourceNotFoundException"
    );

    let no_consumer = world
        .kinesis
        .subscribe_to_shard()
        .consumer_arn(arn.replace("/c:", "/d:"))
        .shard_id(shard(0))
        .starting_position(latest());
    assert_eq!(
        code(no_consumer.send().await.map(|_| ())),
        "ResourceNotFoundException"
    );
}

#[tokio::test]
async fn a_subscription_ends_after_its_time() {
    let (world, arn) = with_consumer(ModelOptions::default()).await;
    let mut subscription = subscribe(&world, &arn, position(ShardIteratorType::Latest, None)).await;
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
    let mut live = subscribe(&world, &arn, position(ShardIteratorType::TrimHorizon, None)).await;
    assert_eq!(payloads(&event(&mut live).await.records), ["last"]);
    world
        .kinesis
        .split_shard()
        .stream_name("s")
        .shard_to_split(shard(0))
        .new_starting_hash_key("5")
        .send()
        .await
        .expect("split");
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

    let mut late = subscribe(&world, &arn, position(ShardIteratorType::TrimHorizon, None)).await;
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
        let mut subscription =
            subscribe(&world, &arn, position(ShardIteratorType::TrimHorizon, None)).await;
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
    let mut subscription =
        subscribe(&world, &arn, position(ShardIteratorType::TrimHorizon, None)).await;
    assert!(
        next(&mut subscription).await.is_err(),
        "cut within the first event"
    );
}
