//! Streams: made, described, listed, deleted.

use aws_sdk_kinesis::types::{EncryptionType, StreamMode, StreamModeDetails, StreamStatus};
use shardkeeper::local::model::ModelOptions;

use crate::world::{T0, World, code, millis, shard, slow, start};

/// A stream `s` of two shards that is active.
async fn active() -> World {
    let world = start(slow()).await;
    world.create("s", 2).await;
    world.advance(100);
    world
}

#[tokio::test]
async fn a_stream_is_used_when_it_is_active() {
    let world = start(slow()).await;
    let k = &world.kinesis;
    let summary = k.describe_stream_summary().stream_name("s");
    assert_eq!(code(summary.send().await), "ResourceNotFoundException");
    world.create("s", 2).await;
    let again = k.create_stream().stream_name("s").shard_count(1);
    assert_eq!(code(again.send().await), "ResourceInUseException");
    assert_eq!(world.status("s").await, StreamStatus::Creating);
    let early = k.list_shards().stream_name("s");
    assert_eq!(code(early.send().await), "ResourceInUseException");
    world.advance(100);
    assert_eq!(world.status("s").await, StreamStatus::Active);
}

#[tokio::test]
async fn a_stream_is_summarised_by_name_and_by_arn() {
    let world = active().await;
    let k = &world.kinesis;
    let summary = world.summary("s").await;
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
    let arn = &summary.stream_arn;
    let by_arn = k.describe_stream_summary().stream_arn(arn).send().await;
    let by_arn = by_arn.expect("described").stream_description_summary;
    assert_eq!(by_arn.expect("summary").stream_name, "s");
    let by_arn = k.list_shards().stream_arn(arn).send().await;
    assert_eq!(by_arn.expect("listed").shards().len(), 2);
}

#[tokio::test]
async fn a_stream_is_described_shard_by_shard() {
    let world = active().await;
    let describe = || world.kinesis.describe_stream().stream_name("s");
    let first = describe().limit(1).send().await.expect("described");
    let first = first.stream_description.expect("description");
    assert_eq!((first.shards.len(), first.has_more_shards), (1, true));
    let after = describe().exclusive_start_shard_id(&first.shards[0].shard_id);
    let second = after.send().await.expect("described").stream_description;
    let second = second.expect("description");
    assert_eq!(
        (second.shards[0].shard_id.as_str(), second.has_more_shards),
        (shard(1).as_str(), false)
    );
}

#[tokio::test]
async fn nothing_of_a_deleted_stream_is_in_the_next_of_its_name() {
    let world = active().await;
    let k = &world.kinesis;
    world.put("s", "old", 0).await;
    let iterator = world.trim_horizon("s", 0).await;
    let delete = k.delete_stream().stream_name("s").send().await;
    delete.expect("deleted");
    assert_eq!(world.status("s").await, StreamStatus::Deleting);
    world.advance(100);
    let gone = k.describe_stream().stream_name("s");
    assert_eq!(code(gone.send().await), "ResourceNotFoundException");
    world.create("s", 1).await;
    world.advance(100);
    let read = k.get_records().shard_iterator(iterator);
    assert_eq!(code(read.send().await), "ResourceNotFoundException");
    assert_eq!(
        world.drain("s", 0).await.0,
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
    let summary = world.summary("s").await;
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
