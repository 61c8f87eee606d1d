//! Consumers: registered, listed, deregistered, and what they keep a stream from.

use super::{deregister, latest, refused, register};
use crate::world::{World, code, start};
use aws_sdk_kinesis::operation::describe_stream_consumer::builders::DescribeStreamConsumerFluentBuilder;
use aws_sdk_kinesis::types::{ConsumerDescription, ConsumerStatus};
use shardkeeper::local::model::ModelOptions;

/// A stream `s` on which a consumer takes 100 ms to come or go, the ARN of its consumer `c`, which is on its way, and its own.
async fn with_young_consumer() -> (World, String, String) {
    let options = ModelOptions {
        consumer_ms: 100,
        ..ModelOptions::default()
    };
    let world = start(options).await;
    world.create("s", 1).await;
    let arn = register(&world, "c").await;
    let stream = world.summary("s").await.stream_arn;
    (world, arn, stream)
}

fn describe(world: &World) -> DescribeStreamConsumerFluentBuilder {
    world.kinesis.describe_stream_consumer()
}

async fn described(request: DescribeStreamConsumerFluentBuilder) -> ConsumerDescription {
    let described = request.send().await.expect("described");
    described.consumer_description.expect("description")
}

#[tokio::test]
async fn a_consumer_is_of_use_between_its_creation_and_its_end() {
    let (world, arn, _) = with_young_consumer().await;
    let status = async || {
        described(describe(&world).consumer_arn(&arn))
            .await
            .consumer_status
    };
    assert_eq!(status().await, ConsumerStatus::Creating);
    assert_eq!(
        refused(&world, &arn, latest()).await,
        "ResourceInUseException"
    );
    world.advance(100);
    assert_eq!(status().await, ConsumerStatus::Active);
    deregister(&world, &arn).await;
    assert_eq!(status().await, ConsumerStatus::Deleting);
    world.advance(100);
    let gone = describe(&world).consumer_arn(&arn);
    assert_eq!(code(gone.send().await), "ResourceNotFoundException");
}

#[tokio::test]
async fn consumers_are_found_by_page_and_by_name() {
    let (world, arn, stream) = with_young_consumer().await;
    world.advance(100);
    let register_again = world.kinesis.register_stream_consumer();
    let register_again = register_again.stream_arn(&stream).consumer_name("c");
    assert_eq!(code(register_again.send().await), "ResourceInUseException");
    register(&world, "d").await;

    let list = || world.kinesis.list_stream_consumers().stream_arn(&stream);
    let page = list().max_results(1).send().await.expect("listed");
    assert_eq!(page.consumers()[0].consumer_arn, arn);
    let rest = list().next_token(page.next_token.expect("more"));
    let rest = rest.send().await.expect("listed");
    assert_eq!(
        (
            rest.consumers()[0].consumer_name.as_str(),
            rest.next_token()
        ),
        ("d", None)
    );
    let by_name = describe(&world).stream_arn(&stream).consumer_name("d");
    assert_eq!(described(by_name).await.stream_arn, stream);
}

#[tokio::test]
async fn a_stream_with_consumers_is_deleted_only_if_that_is_meant() {
    let (world, ..) = with_young_consumer().await;
    world.advance(100);
    let delete = || world.kinesis.delete_stream().stream_name("s");
    assert_eq!(code(delete().send().await), "ResourceInUseException");
    let delete = delete().enforce_consumer_deletion(true);
    delete.send().await.expect("deleted");
}
