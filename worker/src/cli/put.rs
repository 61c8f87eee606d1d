//! `shardkeeper put`: records into a stream, from standard input, a file or a generator.

mod input;
mod key;
mod pump;
mod rate;
mod report;
mod target;

use std::{path::PathBuf, time::Duration};

use super::exit::{Exit, Failure, conclude};
use crate::{
    aws::Aws,
    backoff::Random,
    clock::Clock,
    config::{ByteSize, Endpoint, Problem, Region, duration_from},
    limits,
    producer::{Options, Producer, ProducerError},
};
use input::Input;
use key::KeyRule;
use pump::{Ended, Pump};
use rate::Rate;
use report::{Progress, Report};
use target::target;

/// Arguments of `put`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Put records into a stream: lines, JSON lines or generated ones, plain or as KPL aggregates",
    long_about = "Put records into a stream: the lines of standard input or of a file, or generated ones.\n\n\
                  Without --jsonl a line is the data of a record, without its line break; empty lines are\n\
                  skipped. With --jsonl a line is an object: {\"data\": …} or {\"data_base64\": \"…\"}, and if wanted\n\
                  \"partition_key\" and \"explicit_hash_key\". A string is the data itself, any other JSON value is\n\
                  put as JSON. What `shardkeeper run` writes can be put again as it is.\n\n\
                  What is refused is tried again, with growing pauses, until --give-up-after. Records of one\n\
                  partition key stay in order as far as Kinesis allows: it may refuse one record of a call and take\n\
                  the next one. A call without an answer is repeated, so a record may be put twice; one that could\n\
                  not be put is always reported.",
    after_help = "Examples:\n  \
                  seq 1000 | shardkeeper put --stream orders --region eu-central-1\n  \
                  shardkeeper put orders.jsonl --jsonl --config worker.toml --key json:customer.id\n  \
                  shardkeeper put --stream orders --generate 10000 --rate 500/s --aggregate\n  \
                  shardkeeper put --stream orders --endpoint http://127.0.0.1:4567 < orders.txt\n\n\
                  The last one is for `shardkeeper local` and other stand-ins; they take any credentials and\n\
                  region (AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_REGION=us-east-1).\n\n\
                  Exit codes: 0 all put, 1 some could not be put (they are listed), 2 wrong arguments or a bad\n\
                  line, 4 no such stream, 5 no credentials or access."
)]
pub(crate) struct Args {
    /// Read from this file; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The stream's name or ARN. With --config: the name of one of its streams; without it, the first.
    #[arg(long, short, value_name = "NAME", required_unless_present = "config")]
    stream: Option<String>,
    /// The stream's region. Default: that of the ARN or the file, or what the AWS SDK finds.
    #[arg(long, value_name = "REGION", value_parser = Region::new)]
    region: Option<Region>,
    /// Base URL of Kinesis, for stand-ins, VPC endpoints and proxies.
    #[arg(long, value_name = "URL", value_parser = Endpoint::new)]
    endpoint: Option<Endpoint>,
    /// Take the stream, and how it is reached, from a worker's configuration.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override a key of the configuration, e.g. `--set stream.0.region=eu-west-1`.
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "config")]
    sets: Vec<String>,
    /// Each line is a JSON object.
    #[arg(long)]
    jsonl: bool,
    /// Make N records instead of reading them. Each begins with its number.
    #[arg(long, value_name = "N", conflicts_with_all = ["file", "jsonl"])]
    generate: Option<u64>,
    /// Data bytes of each generated record.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1KiB",
        requires = "generate"
    )]
    size: ByteSize,
    /// Seed of random keys and generated data; the same seed gives the same records. Default: a fresh one.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Put at most so many records in a time, e.g. `500/s`, `30/m`. Default: as fast as the stream takes them.
    #[arg(long, value_name = "N/s")]
    rate: Option<Rate>,
    /// Partition keys: `random`, `fixed:KEY`, `line` (the line itself), `sequence` (1, 2, …) or `json:FIELD` (`json:customer.id` or
    /// `json:items.0` for deeper ones).
    #[arg(long, value_name = "RULE", default_value = "random")]
    key: KeyRule,
    /// Pack user records into KPL aggregates of at most SIZE, grouped by shard. Without `=SIZE`: 50KiB, as the KPL does.
    #[arg(
        long,
        value_name = "SIZE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "50KiB",
        value_parser = aggregate_size
    )]
    aggregate: Option<ByteSize>,
    /// How long a record may wait for others to share its call, and its aggregate.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration_from)]
    linger: Duration,
    /// Give a record up so long after it was first refused.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration_from)]
    give_up_after: Duration,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
}

fn aggregate_size(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text
        .parse()
        .map_err(|problem: Problem| problem.to_string())?;
    let most = ByteSize::bytes(limits::RECORD_MOST_BYTES as u64);
    if (ByteSize::bytes(64)..=most).contains(&size) {
        return Ok(size);
    }
    Err(format!(
        "an aggregate is one Kinesis record: 64 bytes to {most}, and no more than the stream is set to (1MiB unless changed)"
    ))
}

pub(crate) fn main(args: Args) -> Exit {
    conclude(super::runtime().and_then(|runtime| runtime.block_on(put(&args))))
}

async fn put(args: &Args) -> Result<Exit, Failure> {
    let target = target(args)?;
    let mut random = Random::seeded(args.seed.unwrap_or_else(Random::fresh_seed));
    let input = Input::open(args, &mut random)?;
    let aws = Aws::load(target.access.region.as_ref()).await;
    aws.credentials().await?;
    let client = aws.kinesis_of(&target.name, &target.access).await?;
    let options = Options {
        aggregate: args.aggregate.map(ByteSize::as_usize),
        linger: args.linger,
        give_up: args.give_up_after,
        ..Options::default()
    };
    let clock = Clock::start();
    let mut producer = Producer::open(
        client,
        &target.name,
        target.arn.clone(),
        options,
        clock.clone(),
        random.fork(),
    )
    .await?;
    let mut pump = Pump {
        producer: &mut producer,
        input,
        rate: args.rate,
        clock: &clock,
        progress: Progress::new(),
    };
    let ended = pump.run().await?;
    let report = Report {
        stream: &target.name,
        unit: if args.generate.is_some() {
            "record"
        } else {
            "line"
        },
        summary: producer.summary(),
        elapsed: clock.mono().since_origin(),
        ended: &ended,
    };
    report.print(args.json);
    Ok(exit(&ended, producer.summary().unplaced.is_empty()))
}

fn exit(ended: &Ended, all_put: bool) -> Exit {
    match ended {
        Ended::BadInput(_) => Exit::Usage,
        Ended::Fatal(error) => exit_of(error),
        Ended::Told(_) | Ended::AtOnce => Exit::Failed,
        Ended::AllRead if all_put => Exit::Done,
        Ended::AllRead => Exit::Failed,
    }
}

fn exit_of(error: &ProducerError) -> Exit {
    match error {
        ProducerError::NoStream { .. } => Exit::Absent,
        ProducerError::Denied { .. } => Exit::Denied,
        ProducerError::NoShards { .. } => Exit::Failed,
    }
}

impl From<ProducerError> for Failure {
    fn from(error: ProducerError) -> Self {
        Failure::new(exit_of(&error), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregate_is_a_record() {
        assert_eq!(aggregate_size("50KiB"), Ok(ByteSize::bytes(51_200)));
        for text in ["63", "11MiB", "big"] {
            assert!(aggregate_size(text).is_err(), "{text}");
        }
    }
}
