//! The real SDK against the embedded Kinesis: consumers and SubscribeToShard.

use crate::world::{World, code, shard, start};
use aws_sdk_kinesis::operation::subscribe_to_shard::SubscribeToShardOutput;
use aws_sdk_kinesis::operation::subscribe_to_shard::builders::SubscribeToShardFluentBuilder;
use aws_sdk_kinesis::types::error::SubscribeToShardEventStreamError;
use aws_sdk_kinesis::types::{
    ShardIteratorType, StartingPosition, SubscribeToShardEvent, SubscribeToShardEventStream,
};
use shardkeeper::local::model::ModelOptions;

mod consumers;
mod subscriptions;

/// A stream `s` and the ARN of its consumer `c`.
async fn with_consumer(options: ModelOptions) -> (World, String) {
    let world = start(options).await;
    world.create("s", 1).await;
    let arn = register(&world, "c").await;
    (world, arn)
}

/// Registers a consumer of `s`; its ARN.
async fn register(world: &World, name: &str) -> String {
    let stream = world.summary("s").await.stream_arn;
    let register = world.kinesis.register_stream_consumer();
    let register = register.stream_arn(stream).consumer_name(name);
    let registered = register.send().await.expect("registered");
    registered.consumer.expect("consumer").consumer_arn
}

async fn deregister(world: &World, arn: &str) {
    let deregister = world.kinesis.deregister_stream_consumer();
    let deregister = deregister.consumer_arn(arn).send().await;
    deregister.expect("deregistered");
}

fn position(kind: ShardIteratorType, number: Option<&str>) -> StartingPosition {
    StartingPosition::builder()
        .r#type(kind)
        .set_sequence_number(number.map(str::to_owned))
        .build()
        .expect("complete")
}

fn latest() -> StartingPosition {
    position(ShardIteratorType::Latest, None)
}

fn trim_horizon() -> StartingPosition {
    position(ShardIteratorType::TrimHorizon, None)
}

/// A request to subscribe to the first shard.
fn subscription(world: &World, arn: &str, from: StartingPosition) -> SubscribeToShardFluentBuilder {
    let subscribe = world.kinesis.subscribe_to_shard();
    let subscribe = subscribe.consumer_arn(arn).shard_id(shard(0));
    subscribe.starting_position(from)
}

async fn subscribe(world: &World, arn: &str, from: StartingPosition) -> SubscribeToShardOutput {
    let subscribed = subscription(world, arn, from).send().await;
    subscribed.expect("subscribed")
}

/// The error code of a subscription that is refused.
async fn refused(world: &World, arn: &str, from: StartingPosition) -> String {
    code(subscription(world, arn, from).send().await.map(|_| ()))
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
