//! `shardkeeper run`: a worker on real AWS, or whatever answers at the configured endpoints.

use std::{pin::pin, sync::Arc, time::Duration};

use lease::{
    DynamoTable, EnsureError, TableSpec, Timing, WorkerId, leases::Stream as LeaseStream,
    sync::Start,
};
use tokio::{runtime, sync::watch};

use super::{
    ConfigArgs,
    exit::{Exit, Failure, conclude},
};
use crate::{
    admin::{self, Health},
    aws::{self, Aws, AwsError},
    backoff::{Backoff, Random},
    budget::Budget,
    clock::Clock,
    config::{self, Config},
    delivery::BatchLimits,
    handler::sink::{Output, SinkFactory, WriterEnd},
    logging, metrics,
    run::{Delivery, Outcome, Pulse, Stop, Stream, Worker},
    source::{kinesis::KinesisSource, polling::Pace},
};

/// Arguments of `run`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Work: share the shards with the other copies and hand records to the handler, until told to stop",
    long_about = "Work: share the shards with the other copies and hand records to the handler, until told to stop.\n\n\
                  SIGTERM or SIGINT: hand every lease over with its last position, then exit 0; exit 1 if the deadline \
                  (shutdown.deadline) passes first. A second signal ends the process at once. When nobody reads the standard output any \
                  more, leases are handed over too, then exit 1. Nothing is lost either way."
)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn main(args: Args) -> Exit {
    conclude(start(&args))
}

fn start(args: &Args) -> Result<Exit, Failure> {
    let config = args.config.load()?;
    logging::install(&config.log).map_err(|error| Failure::new(Exit::Usage, error))?;
    // Two runtimes: a handler that blocks its threads cannot keep leases from being renewed.
    let data = runtime::Builder::new_multi_thread()
        .thread_name("shardkeeper-data")
        .enable_all()
        .build()
        .map_err(|error| Failure::chain(Exit::Failed, &error))?;
    let control = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::chain(Exit::Failed, &error))?;
    let outcome = control.block_on(work(&config, data.handle().clone()));
    // Handlers that do not react are left behind.
    data.shutdown_timeout(Duration::from_millis(500));
    control.shutdown_timeout(Duration::from_millis(100));
    match outcome? {
        Outcome::Drained => Ok(Exit::Done),
        Outcome::DeadlinePassed => Err(Failure::new(
            Exit::Failed,
            "the deadline passed before everything was handed over; others take it over after the failover time",
        )),
        Outcome::AtOnce => Err(Failure::new(Exit::Failed, "told to end at once")),
    }
}

async fn work(config: &Config, data: runtime::Handle) -> Result<Outcome, Failure> {
    let mut random = Random::seeded(Random::fresh_seed());
    let (say, stop) = signals()?;
    let clock = Clock::start();
    let pulse = Arc::new(Pulse::default());
    let (health, admin) = admin_server(config, &clock, &pulse).await?;
    let aws = Aws::load(config.default_region()).await;
    let id = worker_id(config, &mut random)?;
    tracing::info!(worker = %id, application = %config.app.name, "starting");
    let made = tokio::select! {
        biased;
        _ = stopped(stop.clone()) => return Ok(Outcome::Drained),
        () = beat(&pulse, &clock) => unreachable!("beats for ever"),
        made = connect(config, &aws, &mut random) => made?,
    };
    let (table, streams) = made;
    let (output, writer) =
        Output::open(&config.handler, &id).map_err(|error| Failure::new(Exit::Failed, error))?;
    let worker = Worker {
        id: WorkerId::from(id.as_str()),
        table: Arc::new(table),
        streams,
        processors: SinkFactory::new(output),
        timing: Timing::new(config.lease.failover, config.checkpoint.every),
        max_leases: config
            .lease
            .max_leases
            .map_or(usize::MAX, |most| most.get() as usize),
        budget: Budget::new(config.delivery.buffer.as_usize()),
        stuck_after: config.delivery.stuck_after,
        deadline: config.shutdown.deadline,
        clock,
        seed: random.number(),
        data: data.clone().into(),
        health,
        pulse,
    };
    let mut writer = data.spawn(writer);
    let outcome = {
        let mut run = pin!(worker.run(stop));
        tokio::select! {
            biased;
            outcome = &mut run => outcome?,
            // Nothing can be written any more, but all leases can be handed over.
            end = &mut writer => {
                let reason = match end {
                    Ok(WriterEnd::ReaderGone | WriterEnd::Done) => READER_GONE,
                    Err(_) => "the output has failed; what was not written comes again after a restart",
                };
                tracing::error!("{reason}");
                drain(&say);
                run.await?;
                return Err(Failure::new(Exit::Failed, reason));
            }
        }
    };
    // Everything that counts is written by now; this closes the file.
    let _ = tokio::time::timeout(Duration::from_secs(1), writer).await;
    if let Some(admin) = admin {
        admin.abort();
    }
    tracing::info!(?outcome, "ended");
    Ok(outcome)
}

/// A worker that waits for AWS lives: restarting it would not help.
async fn beat(pulse: &Pulse, clock: &Clock) {
    loop {
        pulse.beat(clock.mono());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The table, made if need be, and the streams. Faults that may pass are waited out.
async fn connect(
    config: &Config,
    aws: &Aws,
    random: &mut Random,
) -> Result<(DynamoTable, Vec<Stream<KinesisSource>>), Failure> {
    aws.credentials().await?;
    let mut patience = || {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(5));
        Backoff::new(min, max, random.fork())
    };
    let (table_backoff, mut backoff) = (patience(), patience());
    let table = async {
        let client = aws.dynamodb(config).await?;
        ensure(&client, config, table_backoff).await
    };
    let streams = async {
        let mut streams = Vec::new();
        for stream in &config.streams {
            streams.push(open(aws, config, stream, &mut backoff).await?);
        }
        Ok::<_, Failure>(streams)
    };
    // The table may take seconds to be made; the streams are asked meanwhile.
    futures::future::try_join(table, streams).await
}

/// Makes a call again until it is answered, or fails in a way that will not pass by itself.
async fn patiently<T, E: std::fmt::Display, F: Future<Output = Result<T, E>>>(
    call: impl Fn() -> F,
    may_pass: impl Fn(&E) -> bool,
    backoff: &mut Backoff,
) -> Result<T, E> {
    loop {
        match call().await {
            Err(error) if may_pass(&error) => {
                let wait = backoff.next_wait();
                tracing::warn!(retry_in = ?wait, "cannot start yet: {error}");
                tokio::time::sleep(wait).await;
            }
            answer => return answer,
        }
    }
}

async fn ensure(
    client: &aws_sdk_dynamodb::Client,
    config: &Config,
    mut backoff: Backoff,
) -> Result<DynamoTable, Failure> {
    let table = DynamoTable::new(client, config.lease.table.as_str());
    let spec = table_spec(config);
    let ensure = || table.ensure(&spec, tokio::time::sleep);
    let may_pass = |error: &EnsureError| {
        matches!(
            error,
            EnsureError::Failed {
                transient: true,
                ..
            }
        )
    };
    let ensured = patiently(ensure, may_pass, &mut backoff).await?;
    for warning in &ensured.warnings {
        tracing::warn!(table = %config.lease.table, "{warning}");
    }
    if ensured.created {
        tracing::info!(table = %config.lease.table, "lease table made");
    }
    Ok(table)
}

fn table_spec(config: &Config) -> TableSpec {
    let lease = &config.lease;
    TableSpec {
        provisioned: match lease.billing {
            config::Billing::OnDemand => None,
            config::Billing::Provisioned { read, write } => {
                Some((i64::from(read.get()), i64::from(write.get())))
            }
        },
        tags: lease.tags.clone().into_iter().collect(),
        deletion_protection: lease.deletion_protection,
        point_in_time_recovery: lease.point_in_time_recovery,
        create: lease.create,
    }
}

async fn open(
    aws: &Aws,
    config: &Config,
    stream: &config::Stream,
    backoff: &mut Backoff,
) -> Result<Stream<KinesisSource>, Failure> {
    let client = aws.kinesis(stream).await?;
    let describe = || Aws::describe(&client, stream);
    let may_pass = |error: &AwsError| matches!(error, AwsError::Failed { .. });
    let facts = patiently(describe, may_pass, backoff).await?;
    Ok(Stream {
        name: stream.name.to_string(),
        lease: LeaseStream {
            id: (config.streams.len() > 1).then(|| aws::stream_id(stream.name.as_str(), &facts)),
            made_for: facts.arn.clone(),
            start: match stream.start {
                config::Start::TrimHorizon => Start::TrimHorizon,
                config::Start::Latest => Start::Latest,
                config::Start::AtTimestamp(at) => Start::AtTimestamp(at),
            },
        },
        delivery: Delivery {
            retention: Some(facts.retention),
            ..delivery(stream, &config.delivery)
        },
        source: Arc::new(aws::source(client, stream, &facts)),
    })
}

fn delivery(stream: &config::Stream, config: &config::Delivery) -> Delivery {
    Delivery {
        pace: Pace {
            min: stream.poll.min,
            max: stream.poll.max,
            limit: stream.page_records,
        },
        batch: BatchLimits {
            records: config.batch.records as usize,
            bytes: config.batch.bytes.as_usize(),
            wait: config.batch.wait,
        },
        retry: (config.retry.min, config.retry.max),
        hash_range: match stream.hash_range {
            config::HashRangePolicy::DropRecord => checkpoint::HashRangePolicy::DropRecord,
            config::HashRangePolicy::StrictKcl => checkpoint::HashRangePolicy::StrictKcl,
            config::HashRangePolicy::Off => checkpoint::HashRangePolicy::Off,
        },
        retention: None,
    }
}

/// The configured id, or the host's name and a random word: ids of replaced pods never come back.
fn worker_id(config: &Config, random: &mut Random) -> Result<config::WorkerId, Failure> {
    if let Some(id) = &config.app.worker_id {
        return Ok(id.clone());
    }
    let host: String = std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .map(|name| name.trim().to_owned())
        .unwrap_or_default()
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
        .collect();
    let host = if host.is_empty() {
        "worker".to_owned()
    } else {
        host
    };
    let word = random.word();
    config::WorkerId::new(&format!("{host}-{}", &word[..8]))
        .map_err(|problem| Failure::new(Exit::Usage, problem))
}

async fn admin_server(
    config: &Config,
    clock: &Clock,
    pulse: &Arc<Pulse>,
) -> Result<(Health, Option<tokio::task::JoinHandle<()>>), Failure> {
    let (pulse, clock) = (pulse.clone(), clock.clone());
    let health = Health::new(config.lease.failover * 3, move || pulse.age(clock.mono()));
    let Some(listen) = config.admin.listen else {
        return Ok((health, None));
    };
    let listener = admin::bind(listen)
        .await
        .map_err(|error| Failure::new(Exit::Failed, error))?;
    let exporter = metrics::install(config.admin.shard_labels)
        .map_err(|error| Failure::new(Exit::Failed, error))?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "admin server listens");
    }
    let served = admin::serve(
        listener,
        health.clone(),
        Arc::new(exporter),
        std::future::pending(),
    );
    Ok((health, Some(tokio::spawn(served))))
}

const READER_GONE: &str = "nobody reads the standard output any more; what was not written whole comes again after a restart";

/// Unless it was told so, or more, before.
fn drain(say: &watch::Sender<Stop>) {
    say.send_if_modified(|stop| {
        let first = *stop == Stop::No;
        if first {
            *stop = Stop::Drain;
        }
        first
    });
}

/// SIGTERM or SIGINT: drain; a second one: end at once.
fn signals() -> Result<(watch::Sender<Stop>, watch::Receiver<Stop>), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |error| Failure::new(Exit::Failed, format!("cannot listen for signals: {error}"));
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
    let (say, stop) = watch::channel(Stop::No);
    let orders = say.clone();
    tokio::spawn(async move {
        for order in [Stop::Drain, Stop::Now] {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            tracing::info!(?order, "signal");
            if order == Stop::Drain {
                drain(&orders);
            } else {
                orders.send_replace(order);
            }
        }
        // The sender must outlive the worker.
        std::future::pending::<()>().await;
    });
    Ok((say, stop))
}

async fn stopped(mut stop: watch::Receiver<Stop>) {
    let _ = stop.wait_for(|stop| *stop != Stop::No).await;
}

/// Waits for the first signal.
pub(super) async fn told_to_stop() -> Result<(), Failure> {
    let (_, stop) = signals()?;
    stopped(stop).await;
    Ok(())
}
