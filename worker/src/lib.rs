//! A distributed Kinesis consumer: many copies of one worker share the shards of Kinesis streams through leases in
//! DynamoDB, unpack KPL aggregates, hand user records to a handler, and checkpoint sequence **and** sub-sequence numbers.
//!
//! The program `shardkeeper` does this with built-in handlers and a TOML file. This library is for handlers in Rust:
//! implement [`Processor`](handler::Processor), and give it to a [`Worker`](run::Worker).
//!
//! ```no_run
//! use std::{sync::Arc, time::Duration};
//!
//! use lease::{DynamoTable, TableSpec, Timing, leases::Stream as LeaseStream, sync::Start};
//! use shardkeeper::{
//!     admin::Health,
//!     backoff::Random,
//!     budget::Budget,
//!     clock::Clock,
//!     delivery::BatchLimits,
//!     handler::{Batch, Checkpointer, Commit, HandlerError, Processor, ShardContext},
//!     run::{Delivery, Pulse, Stop, Stream, Worker},
//!     source::{kinesis::KinesisSource, polling::Pace},
//! };
//!
//! /// Counts orders, and says itself how far it is.
//! struct Orders {
//!     seen: u64,
//! }
//!
//! impl Processor for Orders {
//!     fn commit(&self) -> Commit {
//!         Commit::Manual // the default, `Auto`, checkpoints each batch that succeeds
//!     }
//!
//!     async fn process(&mut self, batch: &Batch, checkpointer: &Checkpointer) -> Result<(), HandlerError> {
//!         for record in &batch.records {
//!             self.seen += 1;
//!             if self.seen % 1_000 == 0 {
//!                 // Up to exactly this user record, also inside an aggregate:
//!                 checkpointer.checkpoint_record(record).await?;
//!                 // … which is the same as both numbers by hand:
//!                 checkpointer.checkpoint_at(&record.sequence, record.sub_sequence).await?;
//!             }
//!         }
//!         // The sequence number alone means sub-sequence number 0: what follows in the aggregate comes again after a
//!         // restart. Only allowed where it does not go back, so this is for records that are no aggregates.
//!         // checkpointer.checkpoint_sequence(&record.sequence).await?;
//!
//!         // Everything that was handed over so far:
//!         checkpointer.checkpoint().await?;
//!         Ok(())
//!     }
//!
//!     async fn shard_ended(&mut self, checkpointer: &Checkpointer) -> Result<(), HandlerError> {
//!         checkpointer.checkpoint().await?; // only then are the shard's children read
//!         Ok(())
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let aws = aws_config::load_defaults(aws_config::BehaviorVersion::latest()).await;
//! // The worker retries by its own rules; the SDK must not do so as well.
//! let kinesis = aws_sdk_kinesis::Client::from_conf(
//!     aws_sdk_kinesis::config::Builder::from(&aws)
//!         .retry_config(aws_sdk_kinesis::config::retry::RetryConfig::disabled())
//!         .build(),
//! );
//! let table = DynamoTable::new(&aws_sdk_dynamodb::Client::new(&aws), "orders-app");
//! table.ensure(&TableSpec { create: true, ..TableSpec::default() }, tokio::time::sleep).await?;
//!
//! let clock = Clock::start();
//! let pulse = Arc::new(Pulse::default());
//! let health = Health::new(Duration::from_secs(30), {
//!     let (pulse, clock) = (pulse.clone(), clock.clone());
//!     move || pulse.age(clock.mono())
//! });
//! let worker = Worker {
//!     id: format!("orders-{}", std::process::id()).into(),
//!     table: Arc::new(table),
//!     streams: vec![Stream {
//!         name: "orders".into(),
//!         lease: LeaseStream { id: None, made_for: "orders".into(), start: Start::TrimHorizon },
//!         source: Arc::new(KinesisSource::new(kinesis, "orders".into(), None)),
//!         delivery: Delivery {
//!             pace: Pace { min: Duration::from_millis(200), max: Duration::from_secs(1), limit: 10_000 },
//!             batch: BatchLimits { records: 500, bytes: 4 << 20, wait: Duration::ZERO },
//!             retry: (Duration::from_millis(100), Duration::from_secs(30)),
//!             hash_range: checkpoint::HashRangePolicy::DropRecord,
//!             retention: None,
//!         },
//!     }],
//!     processors: |_: &ShardContext| Orders { seen: 0 },
//!     timing: Timing::new(Duration::from_secs(10), Duration::from_secs(5)),
//!     max_leases: usize::MAX,
//!     budget: Budget::new(256 << 20),
//!     stuck_after: Duration::from_secs(300),
//!     deadline: Duration::from_secs(25),
//!     clock,
//!     seed: Random::fresh_seed(),
//!     data: tokio::runtime::Handle::current().into(),
//!     health,
//!     pulse,
//! };
//! let (say, stop) = tokio::sync::watch::channel(Stop::No);
//! tokio::spawn(async move {
//!     let _ = tokio::signal::ctrl_c().await;
//!     let _ = say.send(Stop::Drain);
//! });
//! worker.run(stop).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Records by hand, without leases and without AWS: see [`checkpoint::deaggregate`].

pub mod admin;
pub mod aws;
pub mod backoff;
pub mod budget;
pub mod cli;
pub mod clock;
pub mod config;
mod consumer;
mod coordinator;
pub mod delivery;
#[cfg(feature = "local")]
pub mod demo;
pub mod handler;
pub mod limits;
#[cfg(feature = "local")]
pub mod local;
pub mod logging;
pub mod metrics;
pub mod producer;
pub mod run;
pub mod source;
