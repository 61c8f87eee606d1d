//! The embedded AWS as a part of this process: its ports, and its model without HTTP.

use shardkeeper::local::model::{CreateStream, ModelOptions, PutEntry};
use shardkeeper::local::{LocalAws, LocalOptions, StartError};

use crate::world::start;

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
    assert_eq!(world.drain("s", 0).await.0, ["in process"]);
}
