//! The demo: the main job on the embedded AWS, in front of one's eyes, with a proof at the end.
//!
//! ```text
//! producer ─▶ embedded Kinesis ─▶ three workers (child processes) ─▶ one file each ─▶ witness ─▶ proof
//!                    ▲                    ▲        │ leases
//!       split, merge │     start, kill, stop       ▼
//!                    └──────── stage ─────── embedded DynamoDB ─▶ show
//! ```
//! The witness knows what was put and reads what the workers wrote; it believes neither of them.

mod producer;
mod show;
mod stage;
mod witness;

use std::{collections::BTreeSet, time::Duration};

use lease::{Consistency, DynamoTable, Table as _};

use crate::{backoff::Random, clock::Clock, local::LocalAws};
use producer::Producer;
use show::Show;
use stage::Stage;
pub use witness::Proof;
use witness::Witness;

/// How the demo is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// One JSON object per line instead of a display.
    pub json: bool,
    /// User records per second.
    pub rate: u32,
    /// Seed of keys and sizes.
    pub seed: u64,
}

/// Why the demo could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Files or processes.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The embedded AWS did not start.
    #[error(transparent)]
    Local(#[from] crate::local::StartError),
    /// The embedded Kinesis refused something.
    #[error("the embedded Kinesis refused: {0}")]
    Kinesis(#[from] crate::local::model::Error),
    /// A worker ended by itself.
    #[error("worker {worker} ended by itself: {status}")]
    WorkerEnded {
        /// Which.
        worker: String,
        /// How.
        status: String,
    },
}

pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> DemoError {
    let what = what.into();
    |source| DemoError::Io { what, source }
}

/// The stream of the demo.
const STREAM: &str = "demo";
/// How often the witness and the display look.
const TICK: Duration = Duration::from_millis(100);
/// How long the workers may take for what is still on its way when the producer has stopped.
const PATIENCE: Duration = Duration::from_secs(20);

/// What happens, and when (milliseconds from the first record on).
const SCRIPT: [(u64, Act); 7] = [
    (0, Act::Start("worker-a")),
    (2_500, Act::Start("worker-b")),
    (2_500, Act::Start("worker-c")),
    (8_000, Act::Kill("worker-a")),
    (14_000, Act::Split),
    (18_000, Act::Merge),
    (22_000, Act::Stop("worker-b")),
];
/// When the producer stops.
const LAST_RECORD: u64 = 26_000;

#[derive(Clone, Copy, Debug)]
enum Act {
    Start(&'static str),
    Kill(&'static str),
    Split,
    Merge,
    Stop(&'static str),
}

/// Shows the demo and returns its proof.
///
/// # Errors
/// When it cannot be shown; a proof that fails is no error here.
pub async fn run(options: Options) -> Result<Proof, DemoError> {
    let aws = LocalAws::start(crate::local::LocalOptions::default()).await?;
    let mut stage = Stage::new(&aws)?;
    let table = stage.table().await;
    let clock = Clock::start();
    let mut show = Show::new(options.json);
    let mut producer = Producer::new(aws.kinesis(), options.rate, Random::seeded(options.seed));
    let mut witness = Witness::default();
    show.begin(&stage.summary());
    let mut script = SCRIPT.iter().peekable();
    let mut ended = None;
    loop {
        let at = clock.mono().since_origin();
        while let Some((_, act)) = script.next_if(|(when, _)| Duration::from_millis(*when) <= at) {
            perform(*act, &mut stage, &aws, &mut show)?;
        }
        if at < Duration::from_millis(LAST_RECORD) {
            witness.put(producer.produce(at)?);
        } else if ended.is_none() {
            ended = Some(at);
            show.say(
                "the producer stops; the workers finish what is on its way",
                &[],
            );
        }
        stage.check()?;
        witness.look(&mut stage.files)?;
        show.status(&status(at, &witness, &table).await);
        if let Some(ended) = ended
            && (witness.all_there() || at > ended + PATIENCE)
        {
            break;
        }
        tokio::time::sleep(TICK).await;
    }
    finish(stage, witness, &aws, &mut show).await
}

fn perform(act: Act, stage: &mut Stage, aws: &LocalAws, show: &mut Show) -> Result<(), DemoError> {
    match act {
        Act::Start(worker) => {
            let pid = stage.start(worker)?;
            let text = format!("{worker} starts (process {pid})");
            show.say(
                &text,
                &[
                    ("event", "worker_started".into()),
                    ("worker", worker.into()),
                    ("pid", pid.into()),
                ],
            );
        }
        Act::Kill(worker) => {
            stage.kill(worker)?;
            let text = format!("{worker} is killed without warning (SIGKILL); it led the others");
            show.say(
                &text,
                &[("event", "worker_killed".into()), ("worker", worker.into())],
            );
        }
        Act::Stop(worker) => {
            stage.stop(worker)?;
            let text = format!("{worker} is asked to stop (SIGTERM) and hands its shards over");
            show.say(
                &text,
                &[
                    ("event", "worker_stopping".into()),
                    ("worker", worker.into()),
                ],
            );
        }
        Act::Split => {
            let shard = producer::split(&aws.kinesis())?;
            let text = format!("{shard} is split in two");
            show.say(&text, &[("event", "split".into()), ("shard", shard.into())]);
        }
        Act::Merge => {
            let (first, second) = producer::merge(&aws.kinesis())?;
            let text = format!("{first} and {second} are merged");
            show.say(
                &text,
                &[
                    ("event", "merge".into()),
                    ("shards", vec![first, second].into()),
                ],
            );
        }
    }
    Ok(())
}

async fn status(at: Duration, witness: &Witness, table: &DynamoTable) -> show::Status {
    // A look that fails shows nothing; the next one is a moment away.
    let mut leases = table
        .list(Consistency::Strong)
        .await
        .map(|view| view.leases)
        .unwrap_or_default();
    leases.sort_by(|a, b| a.shard.cmp(&b.shard));
    show::Status {
        at,
        put: witness.records_put(),
        delivered: witness.delivered(),
        repeated: witness.repeated(),
        leases,
    }
}

/// The last workers stop politely; then everything is counted.
async fn finish(
    mut stage: Stage,
    mut witness: Witness,
    aws: &LocalAws,
    show: &mut Show,
) -> Result<Proof, DemoError> {
    stage.stop_all().await?;
    witness.look(&mut stage.files)?;
    witness.look(&mut stage.files)?;
    let parents = producer::parents(&aws.kinesis())?;
    let killed: BTreeSet<&str> = SCRIPT
        .iter()
        .filter_map(|(_, act)| match act {
            Act::Kill(worker) => Some(*worker),
            _ => None,
        })
        .collect();
    let proof = witness.proof(&parents, &killed);
    show.proof(&proof);
    stage.clean_up(proof.ok);
    Ok(proof)
}
