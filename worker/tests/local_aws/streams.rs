//! Streams and their settings; starting and stopping.

use aws_sdk_kinesis::types::{
    EncryptionType, MetricsName, ShardIteratorType, StreamMode, StreamModeDetails, StreamStatus,
};
use shardkeeper::local::model::ModelOptions;
use shardkeeper::local::{LocalAws, LocalOptions, StartError};

use crate::world::{T0, code, millis, shard, slow, start, status};

#[tokio::test]
async fn streams_are_created_described_and_deleted() {
    let world = start(slow()).await;
    let k = &world.kinesis;
    assert_eq!(
        code(k.describe_stream_summary().stream_name("s").send().await),
        "ResourceNotFoundException"
    );
    world.create("s", 2).await;
    assert_eq!(
        code(
            k.create_stream()
                .stream_name("s")
                .shard_count(1)
                .send()
                .await
        ),
        "ResourceInUseException"
    );
    assert_eq!(status(&world, "s").await, StreamStatus::Creating);
    assert_eq!(
        code(k.list_shards().stream_name("s").send().await),
        "ResourceInUseException"
    );
    world.advance(100);

    let summary = k
        .describe_stream_summary()
        .stream_name("s")
        .send()
        .await
        .expect("described")
        .stream_description_summary
        .expect("summary");
    assert_eq!(
        (
            summary.stream_status,
            summary.open_shard_count,
            summary.consumer_count
        ),
        (StreamStatus::Active, 2, Some(0))
    );
    assert_eq!(
        (summary.retention_period_hours, summary.encryption_type),
        (24, Some(EncryptionType::None))
    );
    assert_eq!(
        millis(Some(&summary.stream_creation_timestamp)),
        T0,
        "milliseconds are kept"
    );
    let by_arn = k
        .describe_stream_summary()
        .stream_arn(&summary.stream_arn)
        .send()
        .await
        .expect("described");
    assert_eq!(
        by_arn
            .stream_description_summary
            .expect("summary")
            .stream_name,
        "s"
    );
    assert_eq!(
        k.list_shards()
            .stream_arn(&summary.stream_arn)
            .send()
            .await
            .expect("listed")
            .shards()
            .len(),
        2
    );

    let first = k
        .describe_stream()
        .stream_name("s")
        .limit(1)
        .send()
        .await
        .expect("described")
        .stream_description
        .expect("description");
    assert_eq!((first.shards.len(), first.has_more_shards), (1, true));
    let after = &first.shards[0].shard_id;
    let second = k
        .describe_stream()
        .stream_name("s")
        .exclusive_start_shard_id(after)
        .send()
        .await
        .expect("described");
    let second = second.stream_description.expect("description");
    assert_eq!(
        (second.shards[0].shard_id.as_str(), second.has_more_shards),
        (shard(1).as_str(), false)
    );

    world.put("s", "old", 0).await;
    let iterator = world
        .iterator("s", &shard(0), ShardIteratorType::TrimHorizon)
        .await;
    k.delete_stream()
        .stream_name("s")
        .send()
        .await
        .expect("deleted");
    assert_eq!(status(&world, "s").await, StreamStatus::Deleting);
    world.advance(100);
    assert_eq!(
        code(k.describe_stream().stream_name("s").send().await),
        "ResourceNotFoundException"
    );
    world.create("s", 1).await;
    world.advance(100);
    assert_eq!(
        code(k.get_records().shard_iterator(iterator).send().await),
        "ResourceNotFoundException"
    );
    assert_eq!(
        world.drain("s", &shard(0)).await.0,
        Vec::<String>::new(),
        "nothing of the old stream"
    );
}

#[tokio::test]
async fn on_demand_streams_begin_with_four_shards() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    let details = StreamModeDetails::builder()
        .stream_mode(StreamMode::OnDemand)
        .build()
        .expect("complete");
    k.create_stream()
        .stream_name("s")
        .stream_mode_details(details.clone())
        .send()
        .await
        .expect("created");
    let summary = k
        .describe_stream_summary()
        .stream_name("s")
        .send()
        .await
        .expect("described")
        .stream_description_summary
        .expect("summary");
    assert_eq!(
        (summary.open_shard_count, summary.stream_mode_details),
        (4, Some(details))
    );
    let arn = summary.stream_arn;
    let provisioned = StreamModeDetails::builder()
        .stream_mode(StreamMode::Provisioned)
        .build()
        .expect("complete");
    k.update_stream_mode()
        .stream_arn(arn)
        .stream_mode_details(provisioned)
        .send()
        .await
        .expect("updated");
    let limits = k.describe_limits().send().await.expect("described");
    assert_eq!(
        (limits.open_shard_count, limits.on_demand_stream_count),
        (4, 0)
    );
}

#[tokio::test]
async fn streams_are_listed_in_pages_with_summaries() {
    let world = start(ModelOptions::default()).await;
    for name in ["c", "a", "b"] {
        world.create(name, 1).await;
    }
    let page = world
        .kinesis
        .list_streams()
        .limit(2)
        .send()
        .await
        .expect("listed");
    assert_eq!(
        (page.stream_names(), page.has_more_streams),
        (&["a".to_owned(), "b".to_owned()][..], true)
    );
    assert_eq!(page.stream_summaries()[1].stream_name, "b");
    assert_eq!(
        millis(
            page.stream_summaries()[1]
                .stream_creation_timestamp
                .as_ref()
        ),
        T0
    );
    let last = world
        .kinesis
        .list_streams()
        .next_token(page.next_token.expect("more"))
        .send()
        .await
        .expect("listed");
    assert_eq!(
        (
            last.stream_names(),
            last.has_more_streams,
            last.next_token()
        ),
        (&["c".to_owned()][..], false, None)
    );
    let after = world
        .kinesis
        .list_streams()
        .exclusive_start_stream_name("b")
        .send()
        .await
        .expect("listed");
    assert_eq!(after.stream_names(), ["c"]);
}

#[tokio::test]
async fn settings_are_kept() {
    let world = start(ModelOptions::default()).await;
    world.create("s", 1).await;
    let k = &world.kinesis;
    k.increase_stream_retention_period()
        .stream_name("s")
        .retention_period_hours(48)
        .send()
        .await
        .expect("increased");
    assert_eq!(
        code(
            k.increase_stream_retention_period()
                .stream_name("s")
                .retention_period_hours(9000)
                .send()
                .await
        ),
        "InvalidArgumentException"
    );
    k.add_tags_to_stream()
        .stream_name("s")
        .tags("a", "1")
        .tags("b", "2")
        .send()
        .await
        .expect("tagged");
    k.remove_tags_from_stream()
        .stream_name("s")
        .tag_keys("a")
        .send()
        .await
        .expect("untagged");
    let tags = k
        .list_tags_for_stream()
        .stream_name("s")
        .send()
        .await
        .expect("listed");
    assert_eq!(
        (
            tags.tags.len(),
            tags.tags[0].key.as_str(),
            tags.has_more_tags
        ),
        (1, "b", false)
    );
    k.enable_enhanced_monitoring()
        .stream_name("s")
        .shard_level_metrics(MetricsName::IncomingBytes)
        .send()
        .await
        .expect("enabled");
    k.start_stream_encryption()
        .stream_name("s")
        .encryption_type(EncryptionType::Kms)
        .key_id("alias/x")
        .send()
        .await
        .expect("started");
    world.put("s", "x", 0).await;

    let summary = k
        .describe_stream_summary()
        .stream_name("s")
        .send()
        .await
        .expect("described")
        .stream_description_summary
        .expect("summary");
    assert_eq!(
        (summary.retention_period_hours, summary.key_id()),
        (48, Some("alias/x"))
    );
    assert_eq!(
        summary.enhanced_monitoring[0].shard_level_metrics(),
        [MetricsName::IncomingBytes]
    );
    let iterator = world
        .iterator("s", &shard(0), ShardIteratorType::TrimHorizon)
        .await;
    assert_eq!(
        world.page(&iterator).await.records[0].encryption_type,
        Some(EncryptionType::Kms)
    );
    let arn = summary.stream_arn;
    k.tag_resource()
        .resource_arn(&arn)
        .tags("c", "3")
        .send()
        .await
        .expect("tagged");
    assert_eq!(
        k.list_tags_for_resource()
            .resource_arn(&arn)
            .send()
            .await
            .expect("listed")
            .tags()
            .len(),
        2
    );
}

#[tokio::test]
async fn a_taken_port_is_named_and_a_stopped_one_is_free() {
    let world = start(ModelOptions::default()).await;
    let address: std::net::SocketAddr = world
        .aws
        .kinesis_url()
        .trim_start_matches("http://")
        .parse()
        .expect("address");
    let options = || LocalOptions {
        kinesis: address,
        ..LocalOptions::default()
    };
    let error = LocalAws::start(options())
        .await
        .expect_err("the port is taken");
    assert!(
        matches!(&error, StartError::Listen { service: "Kinesis", address: a, .. } if *a == address),
        "{error}"
    );
    world.aws.shutdown().await;
    LocalAws::start(options())
        .await
        .expect("the port is free again")
        .shutdown()
        .await;
}

#[tokio::test]
async fn the_model_is_shared_with_the_same_process() {
    use shardkeeper::local::model::{CreateStream, PutEntry};
    let world = start(ModelOptions::default()).await;
    let now = world.now();
    let kinesis = world.aws.kinesis();
    kinesis
        .lock()
        .create_stream(CreateStream::provisioned("s", 1), now)
        .expect("created");
    kinesis
        .lock()
        .put_record("s", &PutEntry::new("k", "in process"), now)
        .expect("put");
    assert_eq!(world.drain("s", &shard(0)).await.0, ["in process"]);
}
