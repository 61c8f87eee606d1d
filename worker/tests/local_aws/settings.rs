//! The settings of a stream: kept, and seen where they work.

use aws_sdk_kinesis::types::{EncryptionType, MetricsName};
use shardkeeper::local::model::ModelOptions;

use crate::world::{World, code, start};

async fn world() -> World {
    let world = start(ModelOptions::default()).await;
    world.create("s", 1).await;
    world
}

#[tokio::test]
async fn retention_is_raised_within_its_limit() {
    let world = world().await;
    let increase = |hours| {
        let k = &world.kinesis;
        let increase = k.increase_stream_retention_period().stream_name("s");
        increase.retention_period_hours(hours).send()
    };
    increase(48).await.expect("increased");
    assert_eq!(code(increase(9000).await), "InvalidArgumentException");
    assert_eq!(world.summary("s").await.retention_period_hours, 48);
}

#[tokio::test]
async fn tags_are_kept_by_name_and_by_arn() {
    let world = world().await;
    let k = &world.kinesis;
    let tag = k.add_tags_to_stream().stream_name("s");
    let tag = tag.tags("a", "1").tags("b", "2").send().await;
    tag.expect("tagged");
    let untag = k.remove_tags_from_stream().stream_name("s").tag_keys("a");
    untag.send().await.expect("untagged");
    let tags = k.list_tags_for_stream().stream_name("s").send().await;
    let tags = tags.expect("listed");
    assert_eq!(
        (
            tags.tags.len(),
            tags.tags[0].key.as_str(),
            tags.has_more_tags
        ),
        (1, "b", false)
    );

    let arn = world.summary("s").await.stream_arn;
    let tag = k.tag_resource().resource_arn(&arn).tags("c", "3");
    tag.send().await.expect("tagged");
    let tags = k.list_tags_for_resource().resource_arn(&arn).send().await;
    assert_eq!(tags.expect("listed").tags().len(), 2);
}

#[tokio::test]
async fn shard_level_metrics_are_told() {
    let world = world().await;
    let enable = world.kinesis.enable_enhanced_monitoring();
    let enable = enable
        .stream_name("s")
        .shard_level_metrics(MetricsName::IncomingBytes);
    enable.send().await.expect("enabled");
    assert_eq!(
        world.summary("s").await.enhanced_monitoring[0].shard_level_metrics(),
        [MetricsName::IncomingBytes]
    );
}

#[tokio::test]
async fn records_tell_how_they_are_encrypted() {
    let world = world().await;
    let encrypt = world.kinesis.start_stream_encryption().stream_name("s");
    let encrypt = encrypt
        .encryption_type(EncryptionType::Kms)
        .key_id("alias/x");
    encrypt.send().await.expect("started");
    world.put("s", "x", 0).await;
    assert_eq!(world.summary("s").await.key_id(), Some("alias/x"));
    let page = world.page(&world.trim_horizon("s", 0).await).await;
    assert_eq!(page.records[0].encryption_type, Some(EncryptionType::Kms));
}
