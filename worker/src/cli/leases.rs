//! `shardkeeper leases`: who reads which shard, and how far. Reads only.

mod rows;
mod show;

use std::{collections::BTreeMap, time::Duration};

use futures::StreamExt as _;
use lease::{Consistency, DynamoTable, Lease, LeaseKey, Table as _, TableError, View};

use super::{
    ConfigArgs,
    exit::{Exit, Failure, conclude},
    run::told_to_stop,
};
use crate::{
    aws::Aws,
    backoff::{Backoff, Random},
    clock::Clock,
    config::{Config, duration_from},
    source::{Source as _, kinesis::KinesisSource},
};
use rows::{Lag, Sightings};

/// Arguments of `leases`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Show the lease table: who reads which shard, and how far",
    long_about = "Show the lease table: who reads which shard, and how far it was read. Reads only; works on tables\n\
                  of the Java KCL 2.x and 3.x as well.\n\n\
                  States:\n  \
                  reading             somebody holds the lease\n  \
                  handing over        one worker still reads while another waits for it to let go\n  \
                  free                nobody holds it\n  \
                  waiting for parent  a parent shard is not read to its end yet\n  \
                  finished            read to the end of the shard\n\n\
                  A table cannot tell by itself whether an owner is alive: that takes two looks (--for, --watch).\n\
                  A lease that is renewed between them has a living owner; one that stays silent for longer than\n\
                  lease.failover is up for grabs.",
    after_help = "Examples:\n  \
                  shardkeeper leases --config worker.toml\n  \
                  shardkeeper leases --config worker.toml --for 4s        is everybody alive?\n  \
                  shardkeeper leases --config worker.toml --watch --lag   as it goes, until Ctrl-C\n  \
                  shardkeeper leases --json | jq -r 'select(.state == \"free\").shard'\n\n\
                  Exit codes: 0 shown, 1 the table did not answer, 2 wrong arguments or configuration,\n\
                  4 no such table, 5 no credentials or access."
)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Look a second time after so long, and say which leases were renewed meanwhile.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration_from, conflicts_with = "watch")]
    again: Option<Duration>,
    /// Look again and again; every 2s unless given (`--watch=5s`).
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s",
        value_parser = watch_every
    )]
    watch: Option<Duration>,
    /// How far each shard's reader is behind: reads one record behind each position. That counts against the 5 reads per
    /// second that all readers of a shard share, so do not watch a busy stream with it.
    #[arg(long)]
    lag: bool,
    /// Show positions and hash ranges in full.
    #[arg(long)]
    full: bool,
    /// Print one JSON object per row: leases (`"kind":"lease"`), the leader, workers, and rows that cannot be read.
    #[arg(long)]
    json: bool,
}

fn watch_every(text: &str) -> Result<Duration, String> {
    let every = duration_from(text).map_err(|problem| problem.to_string())?;
    if every < Duration::from_millis(200) {
        return Err("each look reads the whole table; at least 200ms".to_owned());
    }
    Ok(every)
}

pub(crate) fn main(args: Args) -> Exit {
    conclude(super::runtime().and_then(|runtime| runtime.block_on(leases(&args))))
}

async fn leases(args: &Args) -> Result<Exit, Failure> {
    let config = args.config.load()?;
    let aws = Aws::load(config.default_region()).await;
    aws.credentials().await?;
    let client = aws.dynamodb(&config).await?;
    let table = DynamoTable::new(&client, config.lease.table.as_str());
    let sources = if args.lag {
        sources(&aws, &config).await?
    } else {
        Vec::new()
    };
    let looker = Looker {
        args,
        config: &config,
        table,
        sources,
        clock: Clock::start(),
    };
    match (args.again, args.watch) {
        (None, None) => looker.once().await?,
        (Some(after), _) => looker.twice(after).await?,
        (None, Some(every)) => {
            tokio::select! {
                biased;
                told = told_to_stop() => told?,
                never = looker.for_ever(every) => never?,
            }
        }
    }
    Ok(Exit::Done)
}

/// The streams by name.
async fn sources(aws: &Aws, config: &Config) -> Result<Vec<(String, KinesisSource)>, Failure> {
    let mut sources = Vec::new();
    for stream in &config.streams {
        let client = aws.kinesis(stream).await?;
        let arn = stream.arn.as_ref().map(|arn| arn.as_str().to_owned());
        let name = stream.name.to_string();
        sources.push((name.clone(), KinesisSource::new(client, name, arn)));
    }
    Ok(sources)
}

struct Looker<'a> {
    args: &'a Args,
    config: &'a Config,
    table: DynamoTable,
    sources: Vec<(String, KinesisSource)>,
    clock: Clock,
}

impl Looker<'_> {
    async fn once(&self) -> Result<(), Failure> {
        let mut sightings = Sightings::default();
        let view = self.look(&mut sightings).await?;
        print!("{}", self.shown(&view, &sightings).await);
        Ok(())
    }

    async fn twice(&self, after: Duration) -> Result<(), Failure> {
        let mut sightings = Sightings::default();
        self.look(&mut sightings).await?;
        self.clock.sleep_until(self.clock.mono() + after).await;
        let view = self.look(&mut sightings).await?;
        print!("{}", self.shown(&view, &sightings).await);
        Ok(())
    }

    async fn for_ever(&self, every: Duration) -> Result<(), Failure> {
        let mut sightings = Sightings::default();
        let redraw = !self.args.json && std::io::IsTerminal::is_terminal(&std::io::stdout());
        loop {
            let view = self.look(&mut sightings).await?;
            let shown = self.shown(&view, &sightings).await;
            // Home and clear, written with the rest so that nothing flickers.
            print!("{}{shown}", if redraw { "\x1b[H\x1b[2J" } else { "" });
            self.clock.sleep_until(self.clock.mono() + every).await;
        }
    }

    /// Reads the table; tries again when it is busy.
    async fn look(&self, sightings: &mut Sightings) -> Result<View, Failure> {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(2));
        let mut backoff = Backoff::new(min, max, Random::seeded(Random::fresh_seed()));
        let view = loop {
            let error = match self.table.list(Consistency::Strong).await {
                Ok(view) => break view,
                Err(error @ (TableError::Throttled(_) | TableError::Unknown(_))) => error,
                Err(error) => return Err(self.no_table(&error)),
            };
            if backoff.failures() >= 4 {
                return Err(self.no_table(&error));
            }
            let wait = backoff.next_wait();
            self.clock.sleep_until(self.clock.mono() + wait).await;
        };
        sightings.note(&view.leases, self.clock.mono());
        Ok(view)
    }

    fn no_table(&self, error: &TableError) -> Failure {
        let exit = match error {
            TableError::Missing(_) => Exit::Absent,
            TableError::Refused(_) => Exit::Denied,
            _ => Exit::Failed,
        };
        Failure::new(exit, format!("table {}: {error}", self.table.name()))
    }

    async fn shown(&self, view: &View, sightings: &Sightings) -> String {
        let lags = self.lags(view).await;
        let shown = show::Shown {
            view,
            sightings,
            lags: self.args.lag.then_some(&lags),
            table: self.table.name(),
            failover: self.config.lease.failover,
            full: self.args.full,
        };
        if self.args.json {
            shown.json()
        } else {
            shown.text(super::look::Look::stdout())
        }
    }

    async fn lags(&self, view: &View) -> BTreeMap<LeaseKey, Lag> {
        if !self.args.lag {
            return BTreeMap::new();
        }
        let lags = view
            .leases
            .iter()
            .map(async |lease| (lease.key.clone(), self.lag(lease).await));
        futures::stream::iter(lags)
            .buffer_unordered(8)
            .collect()
            .await
    }

    /// What Kinesis says to a read behind the position.
    async fn lag(&self, lease: &Lease) -> Lag {
        let Some(from) = rows::read_from(lease) else {
            return Lag::Untold;
        };
        let name = lease.stream.as_ref().and_then(rows::stream_name);
        let source = match name {
            None => self.sources.first(),
            Some(name) => self.sources.iter().find(|(known, _)| known == name),
        };
        let Some((_, source)) = source else {
            return Lag::Untold;
        };
        let page = async {
            let iterator = source.iterator(&lease.shard, &from).await?;
            source.records(&iterator, 1).await
        };
        match page.await {
            Ok(page) => Lag::Behind(page.behind),
            Err(error) => Lag::Failed(error.to_string()),
        }
    }
}
