//! Rule: the state machine of one worker – everything it knows of the table, and what it does about it.
//!
//! ```text
//!            answers, news of consumers                    what to do
//!   shell ───────── handle(Event, Now) ─────▶ Leases ───── step(Now) ─────▶ [Action]  ─▶ shell
//!                                              │  ├ look      when the table is looked at, and how
//!                                              │  ├ sight     what it shows, and since when (expiry)
//!                                              │  ├ workers   who lives, who does what
//!                                              │  ├ streams   what Kinesis lists, and when it is asked
//!                                              │  ├ held      one rule per held lease (renew.rs); callers: who waits for it
//!                                              │  ├ consumers who reads: started, stopped, given up
//!                                              │  ├ hand_over rows on their way out; shard_end: children first, then the end
//!                                              │  ├ share     sync + assign → writes on rows that are not held
//!                                              │  ├ writes    what waits to be written and what is under way
//!                                              │  ├ presence  the leader lock and this worker's own row
//!                                              │  └ leave     hand everything over, then go
//! ```
//! The shell executes every action and hands each answer back exactly once; it decides nothing. `timeout()` says when
//! to call `step` at the latest. Properties: a row is only written by a conditional write that was derived from an
//! observation of that row; at most one write per row is under way from here, except that a holder's renewal does not
//! wait for the start of a hand-over; a consumer of a shard is only started when the former one of the same process is
//! gone (hazard H8).

mod settings;

mod action;
mod event;
mod news;

mod callers;
mod consumers;
mod hand_over;
mod held;
mod holdings;
mod leave;
mod look;
mod shard_end;
mod share;
mod sight;
mod streams;
mod workers;

mod fleet;
mod presence;
mod writes;

use std::collections::BTreeMap;

use checkpoint::Position;

use crate::{
    id::LeaseKey,
    leader::Leader,
    lease::Lease,
    renew::{Held, Tenure},
    time::Time,
};

pub use action::{Action, Halt};
pub use event::{Caller, Event};
pub use fleet::Fleet;
pub use news::{Fatal, Loss, Made, News};
pub use settings::{Settings, Stream};
pub use writes::WriteId;

use callers::Callers;
use holdings::Holdings;
use look::Lists;
use presence::OwnRow;
use sight::Sight;
use streams::StreamState;
use writes::Writes;

/// The moment, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock: all decisions.
    pub mono: Time,
    /// The wall clock, epoch milliseconds: only to pin a `LATEST`, and for the first counter of a new row.
    pub wall: i64,
}

/// What a consumer has done in its tenure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handled {
    /// Everything up to there may be stored.
    pub watermark: Option<Position>,
    /// Bytes of payload.
    pub bytes: u64,
}

impl From<Option<Position>> for Handled {
    fn from(watermark: Option<Position>) -> Self {
        Handled {
            watermark,
            bytes: 0,
        }
    }
}

/// The state machine. See the module's comment.
#[derive(Debug)]
pub struct Leases {
    settings: Settings,
    streams: Vec<StreamState>,
    lists: Lists,
    sight: Sight,
    leader: Leader,
    led: bool,
    held: Holdings,
    /// Consumers that were told to stop, or ended by themselves, and have not reported yet.
    winding_down: BTreeMap<LeaseKey, Tenure>,
    /// Rows this worker has given up lately.
    avoid: BTreeMap<LeaseKey, Time>,
    callers: Callers,
    /// Children of shards that were finished here, and until when this worker looks out for them.
    entitled: BTreeMap<LeaseKey, Time>,
    writes: Writes,
    /// Reads under way: the tenure they are for, and when they were asked for.
    reads: BTreeMap<LeaseKey, (Tenure, Time)>,
    own_row: OwnRow,
    joined: Time,
    leaving: bool,
    gone: bool,
    replan: bool,
    out: Vec<Action>,
}

impl Leases {
    /// A worker that knows nothing yet.
    pub fn new(settings: Settings, now: Now) -> Self {
        let timing = settings.timing;
        let streams = settings
            .streams
            .iter()
            .map(|spec| StreamState::new(spec.clone(), now.mono))
            .collect();
        Leases {
            leader: Leader::new(
                settings.me.clone(),
                settings.session.clone(),
                timing.failover(),
                timing.margin(),
                timing.lock_every(),
            ),
            lists: Lists::new(now.mono),
            sight: Sight::new(),
            streams,
            settings,
            led: false,
            held: Holdings::new(timing),
            winding_down: BTreeMap::new(),
            avoid: BTreeMap::new(),
            callers: Callers::default(),
            entitled: BTreeMap::new(),
            writes: Writes::default(),
            reads: BTreeMap::new(),
            own_row: OwnRow::new(now.mono),
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

    /// Everything that is to be done now. `handled` tells how far the consumer of a row is **in this tenure**: what a
    /// former one of the same process had done is not for the present row, which may have been reset.
    pub fn step<H: Into<Handled>>(
        &mut self,
        handled: impl Fn(&LeaseKey, Tenure) -> H,
        now: Now,
    ) -> Vec<Action> {
        if self.gone {
            return std::mem::take(&mut self.out);
        }
        self.expire(now);
        self.leadership(now);
        self.look(now);
        self.ask_for_shards(now);
        self.replan |= now.mono >= self.sight.next_unread() || now.mono >= self.avoid_ends();
        if self.replan {
            self.replan = false;
            self.share(now);
        }
        self.advance_leaving(now);
        self.write_held(&handled, now);
        self.write_queued(now);
        self.write_own_row(now);
        std::mem::take(&mut self.out)
    }

    /// When `step` has something to do at the latest, if nothing happens before.
    pub fn timeout(&self) -> Time {
        if self.gone {
            return Time::NEVER;
        }
        let streams = self
            .streams
            .iter()
            .map(|stream| self.list_shards_due(stream));
        streams
            .chain([
                self.held.next_due(),
                self.lists.due(),
                self.sight.next_unread(),
                self.avoid_ends(),
                self.leader.due(self.wants_to_lead()).unwrap_or(Time::NEVER),
                self.own_row.due(),
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

    /// When the next row may be written again that rests after a failure.
    fn avoid_ends(&self) -> Time {
        self.avoid.values().copied().min().unwrap_or(Time::NEVER)
    }
}
