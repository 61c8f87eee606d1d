//! The stage of a world: what everybody in it shares – clock, dice, stream, table, outages and the history.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
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
    plan::{EPOCH, Plan},
    table::Store,
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
    pub(super) fn new(plan: &Plan) -> Self {
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

    /// Nobody reaches the table for a while.
    pub(super) fn take_table_away(&self, span: Duration) {
        self.count("table_away");
        self.take_away(|outages| &mut outages.table, span);
    }

    /// Nobody reaches Kinesis for a while.
    pub(super) fn take_stream_away(&self, span: Duration) {
        self.count("stream_away");
        self.take_away(|outages| &mut outages.stream, span);
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

    pub(super) fn fall_calm(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.record(Event::Quiet);
    }

    pub(super) fn finish(&self) -> History {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let mut history = std::mem::take(&mut *history);
        history.faults = self.tally.take();
        history.failover = self.plan.failover;
        history
    }

    /// The rows by shard.
    pub(super) fn rows(&self) -> BTreeMap<ShardId, Row> {
        let rows = self.store.rows();
        rows.iter()
            .map(|lease| (lease.shard.clone(), Row::from(lease)))
            .collect()
    }

    /// The last record of each shard that is to be delivered.
    pub(super) fn last_records(&self) -> BTreeMap<ShardId, Position> {
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
