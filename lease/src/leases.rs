//! Rule: the state machine of one worker – everything it knows of the table, and what it does about it.
//!
//! ```text
//!            answers, news of consumers                    what to do
//!   shell ───────── handle(Event, Now) ─────▶ Leases ───── step(Now) ─────▶ [Action]  ─▶ shell
//!                                              │  ├ view    what the table shows, and since when (expiry)
//!                                              │  ├ held    one rule per held lease (renew.rs)
//!                                              │  ├ share   sync + assign → writes on rows that are not held
//!                                              │  └ leave   hand everything over, then go
//! ```
//! The shell executes every action and hands each answer back exactly once; it decides nothing. `timeout()` says when
//! to call `step` at the latest. Properties: a row is only written by a conditional write that was derived from an
//! observation of that row; at most one write per row is under way from here, except that a holder's renewal does not
//! wait for the start of a hand-over; a consumer of a shard is only started when the former one of the same process is
//! gone (hazard H8).

mod held;
mod leave;
mod share;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use checkpoint::Position;

use crate::{
    id::{LeaseKey, Session, ShardId, StreamId, WorkerId},
    leader::Leader,
    lease::Lease,
    renew::{Held, Tenure},
    shard::{Shard, Shards},
    sync::Start,
    table::{Consistency, Lock, LockWrite, TableError, View},
    time::Time,
    timing::Timing,
    write::Write,
};

use view::Sight;

/// The moment, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock: all decisions.
    pub mono: Time,
    /// The wall clock, epoch milliseconds: only to pin a `LATEST`, and for the first counter of a new row.
    pub wall: i64,
}

/// One stream of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// In tables that serve several streams.
    pub id: Option<StreamId>,
    /// What rows are marked with: the ARN, or the name where there is none.
    pub made_for: String,
    /// Where to start without leases.
    pub start: Start,
}

/// What a worker is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This worker.
    pub me: WorkerId,
    /// This run of it.
    pub session: Session,
    /// The intervals.
    pub timing: Timing,
    /// Never hold more.
    pub max_leases: usize,
    /// The streams, in the order the shell numbers them.
    pub streams: Vec<Stream>,
}

/// Names one write that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(u64);

/// Names one caller who waits for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller(pub u64);

/// What the shell is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Read the table; answer with [`Event::Listed`].
    List(Consistency),
    /// Ask Kinesis for all shards (and, for a timestamp start, for those open at that time); answer with
    /// [`Event::ShardsListed`].
    ListShards(usize),
    /// Do the write; answer with [`Event::Written`].
    Write(WriteId, Write),
    /// Read one row, consistently; answer with [`Event::Read`].
    Read(LeaseKey),
    /// Do the write; answer with [`Event::Locked`].
    Lock(LockWrite),
    /// Write this worker's row; answer with [`Event::WorkerPut`].
    PutWorker {
        /// The next row will come within this time.
        every: Duration,
        /// This worker is on its way out.
        leaving: bool,
    },
    /// Remove a worker's row (the own one at the end, or one of a worker long dead); no answer.
    RemoveWorker {
        /// The worker.
        id: WorkerId,
        /// `lut` as seen; `None`: the own row, whatever it says.
        updated: Option<i64>,
    },
    /// Start to read the shard; report with [`Event::ShardEnded`] or [`Event::Stopped`].
    Start {
        /// The row to start from.
        lease: Box<Lease>,
        /// The tenure, to name in reports.
        tenure: Tenure,
        /// Until when nothing has to be renewed.
        valid_until: Time,
    },
    /// The consumer may hand records over before this time.
    Believe {
        /// The row.
        key: LeaseKey,
        /// The end of the belief.
        until: Time,
    },
    /// Stop the consumer of a row; it reports [`Event::Stopped`] when it is gone.
    Stop {
        /// The row.
        key: LeaseKey,
        /// How.
        halt: Halt,
    },
    /// A caller's checkpoint is stored or cannot be.
    Answer {
        /// The caller.
        caller: Caller,
        /// Stored, or lost.
        stored: bool,
    },
    /// For logs and metrics.
    Tell(News),
    /// This worker has left: nothing is held, nothing is under way.
    Gone,
    /// This worker must end at once.
    Fatal(Fatal),
}

/// The fleet, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Living workers.
    pub workers: usize,
    /// Leases that nobody holds and that could be read.
    pub unassigned: usize,
    /// Leases whose holder is dead.
    pub expired: usize,
    /// Leases that wait for a parent.
    pub blocked: usize,
}

/// How a consumer stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Read no more; the batch in hand completes.
    Drain,
    /// The lease is lost: hand nothing more over, cancel what runs.
    Lost,
    /// The holder gives up on it: cancel what runs.
    Cancel,
}

/// Something a log or a metric wants to know.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A lease was acquired or taken.
    Took {
        /// The row.
        key: LeaseKey,
        /// `acquire`, `take`.
        how: &'static str,
        /// From whom, where the row named somebody else.
        from: Option<WorkerId>,
    },
    /// A lease was lost to somebody else, or to time.
    Lost {
        /// The row.
        key: LeaseKey,
        /// Why.
        why: Loss,
    },
    /// A lease was given back.
    Released(LeaseKey),
    /// A lease was handed over.
    HandedOver {
        /// The row.
        key: LeaseKey,
        /// The heir.
        to: WorkerId,
    },
    /// A shard's end is stored.
    Finished(LeaseKey),
    /// A checkpoint is stored.
    Stored(LeaseKey, Position),
    /// A row was made.
    Created(LeaseKey, Position),
    /// A finished row was removed.
    Deleted(LeaseKey),
    /// A list failed.
    ListFailed(TableError),
    /// A write failed otherwise than by its condition.
    WriteFailed(LeaseKey, &'static str, TableError),
    /// A row cannot be read as a lease.
    Unreadable(String, String),
    /// A `AT_TIMESTAMP` row has no timestamp and the configuration names none: it starts at its beginning.
    NoTimestamp(LeaseKey),
    /// This worker became leader, or is no longer.
    Leads(bool),
    /// A row's heir did not answer; the row was taken back.
    HeirSilent(LeaseKey, WorkerId),
    /// A shard's consumer is stuck and the lease is given up.
    Stuck(LeaseKey),
}

/// Why a lease was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Somebody else has it now.
    To(Option<WorkerId>),
    /// The row is gone.
    Deleted,
    /// No renewal succeeded in time.
    Expired,
    /// Its consumer was cut off and did not end: a handler that blocks its thread.
    Stuck,
}

/// Why a worker must end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// Another process runs under the same worker id and has taken over (hazard H44).
    #[error(
        "another process runs with the worker id {0} and has taken over its leases; worker ids must be unique"
    )]
    DuplicateWorker(WorkerId),
}

/// What the shell reports.
#[derive(Clone, Debug)]
pub enum Event {
    /// The answer to [`Action::List`].
    Listed(Result<View, TableError>),
    /// The answer to [`Action::ListShards`]: the shards, and the ids that were open at the start timestamp.
    ShardsListed {
        /// Which stream.
        stream: usize,
        /// A complete list, or `None` if it failed.
        shards: Option<(Vec<Shard>, Option<BTreeSet<ShardId>>)>,
    },
    /// The answer to [`Action::Write`].
    Written {
        /// Which write.
        id: WriteId,
        /// Its answer.
        result: Result<Option<Lease>, TableError>,
    },
    /// The answer to [`Action::Read`].
    Read {
        /// Which row.
        key: LeaseKey,
        /// Its answer.
        result: Result<Option<Lease>, TableError>,
    },
    /// The answer to [`Action::Lock`].
    Locked(Result<Option<Lock>, TableError>),
    /// The answer to [`Action::PutWorker`].
    WorkerPut(bool),
    /// A processor wants its watermark stored now.
    Checkpoint {
        /// The row.
        key: LeaseKey,
        /// The consumer's tenure.
        tenure: Tenure,
        /// The position that must be stored; the watermark is there already.
        position: Position,
        /// Who waits.
        caller: Caller,
    },
    /// A consumer has settled the last record of its shard and is gone.
    ShardEnded {
        /// The row.
        key: LeaseKey,
        /// Its tenure.
        tenure: Tenure,
        /// The children, as Kinesis told.
        children: Vec<Shard>,
    },
    /// A consumer is gone.
    Stopped {
        /// The row.
        key: LeaseKey,
        /// Its tenure.
        tenure: Tenure,
    },
    /// A consumer makes no progress: its reader is dead or its handler hangs.
    Stuck {
        /// The row.
        key: LeaseKey,
        /// Its tenure.
        tenure: Tenure,
    },
    /// Leave the fleet.
    Leave,
    /// The time to leave runs out: whatever still drains is cut off, and goes with what is settled.
    CutShort,
}

/// How many writes on rows that are not held are under way at most.
const WRITES_AT_ONCE: usize = 32;

/// The state machine. See the module's comment.
#[derive(Debug)]
pub struct Leases {
    settings: Settings,
    streams: Vec<StreamState>,
    sight: Sight,
    leader: Leader,
    led: bool,
    held: BTreeMap<LeaseKey, Held>,
    /// Consumers that were told to stop, or ended by themselves, and have not reported yet.
    winding_down: BTreeMap<LeaseKey, Tenure>,
    /// Rows this worker has given up lately.
    avoid: BTreeMap<LeaseKey, Time>,
    callers: Vec<(LeaseKey, Position, Caller)>,
    /// Children of shards that were finished here, and until when this worker looks out for them.
    entitled: BTreeMap<LeaseKey, Time>,
    /// Writes on rows that are not held: waiting, and under way.
    queue: VecDeque<(Write, Purpose)>,
    writes: BTreeMap<WriteId, UnderWay>,
    /// The keys in `queue`: at most one write per row waits.
    queued: BTreeSet<LeaseKey>,
    /// The keys in `writes`, and how many writes of each: two while a renewal meets the start of a hand-over.
    writing: BTreeMap<LeaseKey, u32>,
    /// Reads under way, by the tenure they are for.
    reads: BTreeMap<LeaseKey, Tenure>,
    next_id: u64,
    own_row: OwnRow,
    joined: Time,
    leaving: bool,
    gone: bool,
    replan: bool,
    out: Vec<Action>,
}

#[derive(Debug)]
struct StreamState {
    spec: Stream,
    shards: Option<Shards>,
    open_at_start: Option<BTreeSet<ShardId>>,
    asked: Option<Time>,
    next: Time,
    /// When `shards` was asked for.
    listed: Option<Time>,
    /// A row is younger than `shards` and needs it to be judged.
    outdated: bool,
}

/// Why a write on a row that is not held is done.
#[derive(Clone, Debug, PartialEq)]
enum Purpose {
    /// To hold it.
    Seize,
    /// To share out, to repair, to clean up.
    Fleet,
    /// So that the parent's end may be written.
    ChildOf(LeaseKey),
}

#[derive(Debug)]
struct UnderWay {
    write: Write,
    purpose: Option<Purpose>,
    sent: Time,
}

#[derive(Debug, Default)]
struct OwnRow {
    next: Time,
    asked: bool,
}

impl Leases {
    /// A worker that knows nothing yet.
    pub fn new(settings: Settings, now: Now) -> Self {
        let timing = settings.timing;
        let streams = settings
            .streams
            .iter()
            .map(|spec| StreamState {
                spec: spec.clone(),
                shards: None,
                open_at_start: None,
                asked: None,
                next: now.mono,
                listed: None,
                outdated: false,
            })
            .collect();
        Leases {
            leader: Leader::new(
                settings.me.clone(),
                settings.session.clone(),
                timing.failover(),
                timing.margin(),
                timing.lock_every(),
            ),
            sight: Sight::new(now.mono),
            streams,
            settings,
            led: false,
            held: BTreeMap::new(),
            winding_down: BTreeMap::new(),
            avoid: BTreeMap::new(),
            callers: Vec::new(),
            entitled: BTreeMap::new(),
            queue: VecDeque::new(),
            writes: BTreeMap::new(),
            queued: BTreeSet::new(),
            writing: BTreeMap::new(),
            reads: BTreeMap::new(),
            next_id: 0,
            own_row: OwnRow {
                next: now.mono,
                asked: false,
            },
            joined: now.mono,
            leaving: false,
            gone: false,
            replan: false,
            out: Vec::new(),
        }
    }

    /// Takes an answer or a report.
    pub fn handle(&mut self, event: Event, now: Now) {
        match event {
            Event::Listed(result) => self.listed(result, now),
            Event::ShardsListed { stream, shards } => self.shards_listed(stream, shards, now),
            Event::Written { id, result } => self.written(id, result, now),
            Event::Read { key, result } => self.read(&key, result, now),
            Event::Locked(result) => {
                self.leader.answered(result, now.mono);
                self.replan = true;
            }
            Event::WorkerPut(ok) => self.worker_put(ok, now),
            Event::Checkpoint {
                key,
                tenure,
                position,
                caller,
            } => {
                self.checkpoint(key, tenure, position, caller);
            }
            Event::ShardEnded {
                key,
                tenure,
                children,
            } => self.shard_ended(&key, tenure, children, now),
            Event::Stopped { key, tenure } => self.stopped(&key, tenure, now),
            Event::Stuck { key, tenure } => self.stuck(&key, tenure, now),
            Event::Leave => self.leave(now),
            Event::CutShort => self.cut_short(now),
        }
    }

    /// Everything that is to be done now. `watermark` tells how far the consumer of a row has settled **in this
    /// tenure**: what a former one of the same process had done is not for the present row, which may have been reset.
    pub fn step(
        &mut self,
        watermark: impl Fn(&LeaseKey, Tenure) -> Option<Position>,
        now: Now,
    ) -> Vec<Action> {
        if self.gone {
            return std::mem::take(&mut self.out);
        }
        self.expire(now);
        self.leadership(now);
        self.look(now);
        self.replan |= now.mono >= self.sight.next_unread() || now.mono >= self.avoid_ends();
        if self.replan {
            self.replan = false;
            self.share(now);
        }
        self.advance_leaving(now);
        self.write_held(&watermark, now);
        self.write_queued(now);
        self.write_own_row(now);
        std::mem::take(&mut self.out)
    }

    /// When `step` has something to do at the latest, if nothing happens before.
    pub fn timeout(&self) -> Time {
        if self.gone {
            return Time::NEVER;
        }
        let held = self.held.values().map(|held| {
            held.due()
                .min(held.valid_until())
                .min(self.patience_ends(held))
        });
        let streams = self
            .streams
            .iter()
            .map(|stream| self.list_shards_due(stream));
        held.chain(streams)
            .chain([
                self.list_due(),
                self.sight.next_unread(),
                self.avoid_ends(),
                self.leader.due(self.wants_to_lead()).unwrap_or(Time::NEVER),
                if self.own_row.asked {
                    Time::NEVER
                } else {
                    self.own_row.next
                },
            ])
            .min()
            .unwrap_or(Time::NEVER)
    }

    /// What is held at the moment.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    /// Whether this worker leads.
    pub fn leads(&self, now: Now) -> bool {
        self.leader.leads(now.mono)
    }

    /// The rows as last seen.
    pub fn rows(&self) -> impl Iterator<Item = &Lease> {
        self.sight.rows()
    }

    /// The fleet as last seen.
    pub fn fleet(&self, now: Now) -> Fleet {
        let failover = self.settings.timing.failover();
        let mut fleet = Fleet {
            workers: self.living_workers(now).len(),
            ..Fleet::default()
        };
        let ours = |lease: &&Lease| !lease.ended() && self.stream_of(lease).is_some();
        for lease in self.sight.rows().filter(ours) {
            let unread = self.sight.unread(&lease.key, failover, now.mono).is_some();
            if self.held.contains_key(&lease.key) || !unread {
                continue;
            }
            match (self.startable(lease), lease.owner.is_some()) {
                (false, _) => fleet.blocked += 1,
                (true, false) => fleet.unassigned += 1,
                (true, true) => fleet.expired += 1,
            }
        }
        fleet.blocked += self
            .held
            .values()
            .filter(|held| held.phase == crate::renew::Phase::Blocked)
            .count();
        fleet
    }

    /// What Kinesis lists for a stream, as last asked.
    pub fn shards(&self, stream: usize) -> Option<&Shards> {
        self.streams.get(stream)?.shards.as_ref()
    }

    /// The number of the stream a row belongs to.
    pub fn stream_of(&self, lease: &Lease) -> Option<usize> {
        self.streams
            .iter()
            .position(|stream| stream.spec.id == lease.stream)
    }

    /// When the next row may be written again that rests after a failure.
    fn avoid_ends(&self) -> Time {
        self.avoid.values().copied().min().unwrap_or(Time::NEVER)
    }

    fn wants_to_lead(&self) -> bool {
        !self.leaving && self.sight.loaded()
    }

    fn leadership(&mut self, now: Now) {
        if self.leaving {
            if let Some(write) = self.leader.release(now.mono) {
                self.out.push(Action::Lock(write));
            }
        } else if let Some(write) = self.leader.poll(self.wants_to_lead(), now.mono) {
            self.out.push(Action::Lock(write));
        }
        let leads = self.leader.leads(now.mono);
        if leads != self.led {
            self.led = leads;
            self.replan = true;
            self.out.push(Action::Tell(News::Leads(leads)));
        }
    }

    fn write_own_row(&mut self, now: Now) {
        if self.own_row.asked || now.mono < self.own_row.next {
            return;
        }
        let every = if self.held.is_empty() {
            self.settings.timing.idle_worker_row_every()
        } else {
            self.settings.timing.worker_row_every()
        };
        self.own_row.asked = true;
        self.own_row.next = now.mono + every;
        self.out.push(Action::PutWorker {
            every,
            leaving: self.leaving,
        });
    }

    fn worker_put(&mut self, ok: bool, now: Now) {
        self.own_row.asked = false;
        if !ok {
            self.own_row.next = now.mono + self.settings.timing.retry_after(4, 0);
        }
    }

    fn enqueue(&mut self, write: Write, purpose: Purpose) {
        let key = write.key();
        let free = !self.writing.contains_key(key) && !self.avoid.contains_key(key);
        if free && self.queued.insert(key.clone()) {
            self.queue.push_back((write, purpose));
        }
    }

    fn write_queued(&mut self, now: Now) {
        while !self.queue.is_empty() {
            let under_way = self
                .writes
                .values()
                .filter(|write| write.purpose.is_some())
                .count();
            if under_way >= WRITES_AT_ONCE {
                return;
            }
            let Some((write, purpose)) = self.queue.pop_front() else {
                return;
            };
            self.queued.remove(write.key());
            if self.writing.contains_key(write.key()) {
                // Overtaken by the holder's own write; if it is still wanted, the next look at the table says so.
                continue;
            }
            self.send(write, Some(purpose), now);
        }
    }

    fn send(&mut self, write: Write, purpose: Option<Purpose>, now: Now) {
        self.next_id += 1;
        let id = WriteId(self.next_id);
        self.out.push(Action::Write(id, write.clone()));
        *self.writing.entry(write.key().clone()).or_default() += 1;
        self.writes.insert(
            id,
            UnderWay {
                write,
                purpose,
                sent: now.mono,
            },
        );
    }

    fn written(&mut self, id: WriteId, result: Result<Option<Lease>, TableError>, now: Now) {
        let Some(under_way) = self.writes.remove(&id) else {
            return;
        };
        let key = under_way.write.key().clone();
        if let Some(count) = self.writing.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.writing.remove(&key);
            }
        }
        match &result {
            Ok(Some(row)) => self.sight.wrote(row, under_way.sent, now.mono),
            Ok(None) => self.sight.deleted(&key, now.mono),
            Err(TableError::Changed(Some(row))) => {
                self.sight.wrote(row, under_way.sent, now.mono);
            }
            Err(TableError::Changed(None)) => {}
            Err(error) => self.out.push(Action::Tell(News::WriteFailed(
                key.clone(),
                under_way.write.name(),
                error.clone(),
            ))),
        }
        match under_way.purpose.clone() {
            None => self.held_answered(&key, result, now),
            Some(purpose) => self.fleet_answered(under_way, purpose, result, now),
        }
    }
}
