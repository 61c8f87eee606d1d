//! `shardkeeper local`: the embedded AWS, for other tools.

use std::net::SocketAddr;

use super::exit::{Exit, Failure, conclude};
use crate::local::{
    LocalAws, LocalOptions,
    model::{CreateStream, ModelOptions},
};

/// Arguments of `local`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Serve the embedded AWS (Kinesis and DynamoDB in memory) for other tools",
    long_about = "Serve an embedded Kinesis and an embedded DynamoDB, in memory, until told to stop.\n\n\
                  One line on standard output says where, as JSON: {\"kinesis\":\"http://…\",\"dynamodb\":\"http://…\"}.\n\
                  Any AWS SDK can use them: set the endpoint, any region and any credentials. Nothing is stored on disk.\n\
                  Faults can be switched on by HTTP (POST /_faults on either port); see docs/OPERATIONS.md."
)]
pub(crate) struct Args {
    /// Where Kinesis listens. Port 0 picks a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4567")]
    kinesis: SocketAddr,
    /// Where DynamoDB listens. Port 0 picks a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    dynamodb: SocketAddr,
    /// Make a stream, e.g. `--stream orders:4`. May be given several times.
    #[arg(long = "stream", value_name = "NAME:SHARDS", value_parser = stream)]
    streams: Vec<(String, u32)>,
    /// Enforce the quotas of AWS: 5 reads/s and 2 MB/s out, 1 MB/s and 1,000 records/s in, per shard.
    #[arg(long)]
    limits: bool,
    /// How long streams stay CREATING and UPDATING, milliseconds.
    #[arg(long, value_name = "MILLIS", default_value_t = 0)]
    state_ms: i64,
    /// Seed of faults that are drawn at random.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn stream(text: &str) -> Result<(String, u32), String> {
    let (name, shards) = text
        .split_once(':')
        .ok_or_else(|| format!("{text:?}: write NAME:SHARDS, e.g. orders:4"))?;
    let shards = shards
        .parse()
        .ok()
        .filter(|shards| *shards > 0)
        .ok_or_else(|| format!("{shards:?} is no number of shards"))?;
    Ok((name.to_owned(), shards))
}

pub(crate) fn main(args: Args) -> Exit {
    conclude(super::runtime().and_then(|runtime| runtime.block_on(serve(args))))
}

async fn serve(args: Args) -> Result<Exit, Failure> {
    let options = LocalOptions {
        kinesis: args.kinesis,
        dynamodb: args.dynamodb,
        model: ModelOptions {
            create_ms: args.state_ms,
            update_ms: args.state_ms,
            delete_ms: args.state_ms,
            consumer_ms: args.state_ms,
            enforce_throughput: args.limits,
            ..ModelOptions::default()
        },
        seed: args.seed,
        ..LocalOptions::default()
    };
    let aws = LocalAws::start(options)
        .await
        .map_err(|error| Failure::chain(Exit::Failed, &error))?;
    for (name, shards) in args.streams {
        let request = CreateStream::provisioned(name, shards);
        aws.kinesis()
            .lock()
            .create_stream(request, crate::clock::system_wall())
            .map_err(|error| Failure::new(Exit::Usage, error))?;
    }
    let line = serde_json::json!({ "kinesis": aws.kinesis_url(), "dynamodb": aws.dynamodb_url() });
    println!("{line}");
    super::run::told_to_stop().await?;
    aws.shutdown().await;
    Ok(Exit::Done)
}
