//! `shardkeeper demo`.

use super::exit::{Exit, Failure, conclude};
use crate::demo::{self, Options};

/// Arguments of `demo`.
#[derive(clap::Args, Debug)]
#[command(
    about = "See the main job done on an embedded AWS, with a proof at the end. Start here",
    long_about = "See the main job done, on an embedded AWS; needs no account and leaves nothing behind.\n\n\
                  A stream of 4 shards gets plain and aggregated records. Three workers – real processes – share it. One is \
                  killed without warning, a shard is split, two are merged, one worker is stopped politely. In the end \
                  everything is counted: what was put, delivered, lost, repeated (and why), and whether order was kept.\n\n\
                  Takes about half a minute. Exits 7 if the proof fails."
)]
pub(crate) struct Args {
    /// Print one JSON object per line; the last one is the proof.
    #[arg(long)]
    json: bool,
    /// User records per second.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    rate: u32,
    /// Seed of the records' keys and kinds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn main(args: Args) -> Exit {
    let options = Options {
        json: args.json,
        rate: args.rate,
        seed: args.seed,
    };
    conclude(super::runtime().and_then(|runtime| {
        let proof = runtime
            .block_on(demo::run(options))
            .map_err(|error| Failure::chain(Exit::Failed, &error))?;
        Ok(if proof.ok { Exit::Done } else { Exit::Unproven })
    }))
}
