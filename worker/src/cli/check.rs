//! `shardkeeper check`: is the configuration right, and does AWS allow what it asks for? Changes nothing.

mod aws;
mod effective;

use super::{
    ConfigArgs,
    exit::{Exit, Failure, conclude},
    look::{Look, columns},
};

/// Arguments of `check`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Check a configuration, and with --aws whether AWS allows what it asks for",
    long_about = "Check a configuration file, and print in short what would be used, with what the environment and\n\
                  --set override.\n\n\
                  With --aws also try everything a worker needs: credentials, each stream (DescribeStreamSummary,\n\
                  ListShards, GetShardIterator, and GetRecords of one record of one shard) and the lease table.\n\
                  Writes to the table are tried with a condition that no row can fulfil, so nothing is changed.\n\
                  Making a table or its index cannot be tried.",
    after_help = "Examples:\n  \
                  shardkeeper check --config worker.toml\n  \
                  shardkeeper check --config worker.toml --aws\n  \
                  shardkeeper check --config worker.toml --set lease.failover=5s\n\n\
                  Exit codes: 0 all is well, 1 something gave no clear answer, 2 the configuration is wrong,\n\
                  3 the table belongs to another application or stream, 4 a stream (or the table, where it may not\n\
                  be made) does not exist, 5 no credentials, or a permission is missing."
)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Try credentials, streams and table as well.
    #[arg(long)]
    aws: bool,
}

pub(crate) fn main(args: Args) -> Exit {
    conclude(super::runtime().and_then(|runtime| runtime.block_on(check(&args))))
}

async fn check(args: &Args) -> Result<Exit, Failure> {
    let config = args.config.load()?;
    let look = Look::stdout();
    println!("{} is a good configuration", args.config.config.display());
    let rows = effective::rows(&config, &args.config.sets);
    print!(
        "{}",
        columns(&rows, |_, column, cell| if column == 0 {
            look.faint(cell)
        } else {
            cell.to_owned()
        })
    );
    if !args.aws {
        return Ok(Exit::Done);
    }
    println!();
    let findings = aws::check(&config).await;
    let rows: Vec<Vec<String>> = findings.iter().map(aws::Finding::row).collect();
    print!(
        "{}",
        columns(&rows, |row, column, cell| match column {
            0 => findings[row].paint(look, cell),
            _ => cell.to_owned(),
        })
    );
    Ok(aws::exit(&findings))
}
