//! The stage of a world – what everybody in it shares – and the play from the first record to the last.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use checkpoint::Position;
use lease::ShardId;
use shardkeeper::{
    clock::Clock,
    local::{
        SharedKinesis,
        model::{CreateStream, Kinesis, ShardFilter, ShardInfo},
    },
};

use super::{
    faults::{Dice, HandlerOdds, StreamOdds, TableOdds, Tally},
    history::{Event, Fate, History, Row},
    kinesis::parents,
    millis,
    plan::{EPOCH, Plan, Step},
    producer::Producer,
    table::Store,
    workers::Fleet,
};

/// The name of the one stream.
pub const STREAM: &str = "orders";

/// What everybody in a world shares.
#[derive(Debug)]
pub struct Scene {
    /// What was planned.
    pub plan: Plan,
    /// Decide what was not.
    pub dice: Dice,
    /// The stream.
    pub kinesis: SharedKinesis,
    /// The table.
    pub store: Store,
    clock: Clock,
    tally: Tally,
    calm: AtomicBool,
    history: Mutex<History>,
    outages: Mutex<Outages>,
    shards: Mutex<BTreeMap<String, Duration>>,
}

#[derive(Debug, Default)]
struct Outages {
    table: Duration,
    stream: Duration,
}

impl Scene {
    fn new(plan: &Plan) -> Self {
        let mut kinesis = Kinesis::new(plan.model.clone());
        kinesis
            .create_stream(CreateStream::provisioned(STREAM, plan.shards), EPOCH)
            .expect("a plan names a valid stream");
        Scene {
            dice: Dice::new(plan.seed ^ 0x5eed),
            kinesis: SharedKinesis::new(kinesis),
            store: Store::default(),
            clock: Clock::start(),
            tally: Tally::default(),
            calm: AtomicBool::new(false),
            history: Mutex::default(),
            outages: Mutex::default(),
            shards: Mutex::default(),
            plan: plan.clone(),
        }
    }

    /// Time since the world began.
    pub fn now(&self) -> Duration {
        self.clock.mono().since_origin()
    }

    /// The clock of Kinesis.
    pub fn epoch_millis(&self) -> i64 {
        EPOCH + millis(self.now())
    }

    /// Notes an event.
    pub fn record(&self, event: Event) {
        let now = self.now();
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.events.push((now, event));
    }

    /// Whether a fault of this kind, which is so likely, strikes now.
    pub fn strikes(&self, kind: &'static str, odds: f64) -> bool {
        let strikes = self.dice.chance(odds);
        if strikes {
            self.count(kind);
        }
        strikes
    }

    /// One more fault of this kind.
    pub fn count(&self, kind: &'static str) {
        self.tally.count(kind);
    }

    /// No more faults.
    pub fn calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// The odds of the table at the moment.
    pub fn table_odds(&self) -> TableOdds {
        if self.calm() {
            TableOdds::default()
        } else {
            self.plan.table
        }
    }

    /// The odds of Kinesis at the moment.
    pub fn stream_odds(&self) -> StreamOdds {
        if self.calm() {
            StreamOdds::default()
        } else {
            self.plan.stream
        }
    }

    /// The odds of handlers at the moment.
    pub fn handler_odds(&self) -> HandlerOdds {
        if self.calm() {
            HandlerOdds::default()
        } else {
            self.plan.handler
        }
    }

    /// Whether nobody reaches the table at the moment.
    pub fn table_away(&self) -> bool {
        self.outage(|outages| outages.table)
    }

    /// Whether nobody reaches Kinesis at the moment.
    pub fn stream_away(&self) -> bool {
        self.outage(|outages| outages.stream)
    }

    fn outage(&self, which: impl Fn(&Outages) -> Duration) -> bool {
        let outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        !self.calm() && self.now() < which(&outages)
    }

    fn take_away(&self, which: impl Fn(&mut Outages) -> &mut Duration, span: Duration) {
        let until = self.now() + span;
        let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        let end = which(&mut outages);
        *end = until.max(*end);
    }

    /// All shards of the stream.
    pub fn shards(&self) -> Vec<ShardInfo> {
        let now = self.epoch_millis();
        let mut kinesis = self.kinesis.lock();
        let page = kinesis.list_shards(STREAM, &ShardFilter::FromTrimHorizon, None, 10_000, now);
        page.expect("the stream is there from beginning to end")
            .shards
    }

    /// Notes shards that are new.
    pub fn note_shards(&self) {
        for info in self.shards() {
            let mut known = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
            if known.contains_key(&info.shard_id) {
                continue;
            }
            known.insert(info.shard_id.clone(), self.now());
            drop(known);
            self.record(Event::Shard {
                shard: ShardId::from(info.shard_id.as_str()),
                parents: parents(&info).into_iter().collect(),
            });
        }
    }

    /// Whether a shard has been there for longer than `lag`.
    pub fn known_for(&self, shard: &str, lag: Duration) -> bool {
        let known = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let since = known.get(shard).copied();
        lag.is_zero() || since.is_some_and(|since| since.is_zero() || self.now() >= since + lag)
    }

    fn fall_calm(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.record(Event::Quiet);
    }

    fn finish(&self) -> History {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let mut history = std::mem::take(&mut *history);
        history.faults = self.tally.take();
        history.failover = self.plan.failover;
        history
    }

    /// The rows by shard.
    fn rows(&self) -> BTreeMap<ShardId, Row> {
        let rows = self.store.rows();
        rows.iter()
            .map(|lease| (lease.shard.clone(), Row::from(lease)))
            .collect()
    }

    /// The last record of each shard that is to be delivered.
    fn last_records(&self) -> BTreeMap<ShardId, Position> {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = BTreeMap::new();
        for (_, event) in &history.events {
            if let Event::Put {
                shard,
                position,
                fate: Fate::Deliver,
                ..
            } = event
            {
                last.insert(shard.clone(), position.clone());
            }
        }
        last
    }
}

/// Plays a world to its end.
pub(super) async fn play(plan: &Plan) -> History {
    let scene = Arc::new(Scene::new(plan));
    scene.note_shards();
    let producer = tokio::spawn(Producer::new(scene.clone()).run());
    tokio::time::sleep(plan.opening).await;
    let mut fleet = Fleet::new(scene.clone());
    for _ in 0..plan.workers {
        fleet.join();
    }
    for (at, step) in &plan.steps {
        sleep_until(&scene, *at).await;
        take(&scene, &mut fleet, step);
    }
    sleep_until(&scene, plan.quiet).await;
    producer.abort();
    scene.fall_calm();
    fleet.wake_all();
    if fleet.living().is_empty() {
        fleet.join();
    }
    let mut producer = Producer::new(scene.clone());
    producer.coda();
    rest(&scene, &fleet).await;
    if plan.encore {
        fleet.all_leave().await;
        fleet.join();
        producer.coda();
        rest(&scene, &fleet).await;
    }
    fleet.all_leave().await;
    scene.finish()
}

async fn sleep_until(scene: &Scene, at: Duration) {
    tokio::time::sleep(at.saturating_sub(scene.now())).await;
}

fn take(scene: &Scene, fleet: &mut Fleet, step: &Step) {
    match step {
        Step::Join => fleet.join(),
        Step::Return(which) => fleet.come_back(*which),
        Step::Twin(which) => fleet.twin(*which),
        Step::Drain(which) => fleet.drain(*which),
        Step::Crash(which) => fleet.crash(*which),
        Step::Freeze(which, span) => fleet.freeze(*which, *span),
        Step::Jump(which, by) => fleet.jump(*which, *by),
        Step::Split(which) => split(scene, *which),
        Step::Merge(which) => merge(scene, *which),
        Step::TableAway(span) => {
            scene.count("table_away");
            scene.take_away(|outages| &mut outages.table, *span);
        }
        Step::StreamAway(span) => {
            scene.count("stream_away");
            scene.take_away(|outages| &mut outages.stream, *span);
        }
    }
}

fn open_shards(scene: &Scene) -> Vec<ShardInfo> {
    let shards = scene.shards().into_iter();
    let mut open: Vec<_> = shards
        .filter(|shard| shard.ending_sequence.is_none())
        .collect();
    open.sort_by_key(|shard| shard.starting_hash_key);
    open
}

/// Splits a shard in two halves. Refused, as on AWS, while another reshard is under way.
fn split(scene: &Scene, which: usize) {
    let open = open_shards(scene);
    let shard = &open[which % open.len()];
    let middle =
        shard.starting_hash_key + (shard.ending_hash_key - shard.starting_hash_key) / 2 + 1;
    let now = scene.epoch_millis();
    let done = scene
        .kinesis
        .lock()
        .split_shard(STREAM, &shard.shard_id, middle, now);
    if done.is_ok() {
        scene.count("split");
    }
    scene.note_shards();
}

/// Merges a shard with its right neighbour.
fn merge(scene: &Scene, which: usize) {
    let open = open_shards(scene);
    if open.len() < 2 {
        return;
    }
    let left = which % (open.len() - 1);
    let (a, b) = (&open[left].shard_id, &open[left + 1].shard_id);
    let now = scene.epoch_millis();
    if scene.kinesis.lock().merge_shards(STREAM, a, b, now).is_ok() {
        scene.count("merge");
    }
    scene.note_shards();
}

/// Waits until nothing is left to do, or patience ends, and notes what the table shows then.
async fn rest(scene: &Scene, fleet: &Fleet) {
    let end = scene.now() + scene.plan.patience();
    while scene.now() < end && !at_rest(scene, fleet) {
        tokio::time::sleep(scene.plan.failover / 4).await;
    }
    scene.record(Event::Rest {
        rows: scene.rows(),
        living: fleet.living(),
    });
}

/// Whether every open shard is held by a worker that lives, shares are even and every record is stored as done.
fn at_rest(scene: &Scene, fleet: &Fleet) -> bool {
    let (rows, last) = (scene.rows(), scene.last_records());
    let mut shares: BTreeMap<_, usize> = fleet
        .living()
        .into_iter()
        .map(|worker| (worker, 0))
        .collect();
    let open: BTreeSet<String> = open_shards(scene)
        .into_iter()
        .map(|shard| shard.shard_id)
        .collect();
    for id in &open {
        let Some(row) = rows.get(id.as_str()) else {
            return false;
        };
        let Some(share) = row.owner.as_ref().and_then(|owner| shares.get_mut(owner)) else {
            return false;
        };
        *share += 1;
        let done = last
            .get(id.as_str())
            .is_none_or(|last| row.checkpoint >= *last);
        if row.checkpoint_owner.is_some() || !done {
            return false;
        }
    }
    let mut closed = rows
        .iter()
        .filter(|(shard, _)| !open.contains(shard.as_str()));
    let (least, most) = (shares.values().min(), shares.values().max());
    closed.all(|(_, row)| row.checkpoint == Position::ShardEnd)
        && least
            .zip(most)
            .is_some_and(|(least, most)| most - least <= 1)
}
