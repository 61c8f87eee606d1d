//! Calls of the table and of Kinesis: when they reach it, what it does, when the caller hears – or does not.

use lease::{Lease, LeaseKey, LockWrite, TableError, WorkerId, WorkerRow, Write};
use lease::{
    leases::{Event, WriteId},
    sync::Start,
};

use super::{Ev, MILLI, Pid, World};
use crate::table::{Fate, Undo};

/// A call under way.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    List { sent: u64, stale: u64 },
    Write(WriteId, Write),
    Read(LeaseKey),
    Lock(LockWrite),
    PutWorker(WorkerRow),
    RemoveWorker(WorkerId, i64),
}

/// What the table tells.
#[derive(Debug)]
enum Told {
    View(Box<lease::View>),
    Row(Option<Box<Lease>>),
    Lock(Option<lease::Lock>),
    Nothing,
}

impl World {
    pub(super) fn call(&mut self, pid: Pid, call: Call) {
        self.check.called(self.now, pid, &call);
        let timeout = u64::try_from(self.timing.request_timeout().as_micros()).expect("short");
        let away =
            (self.now < self.away_until).then(|| self.hangs || self.moody && self.rng.bool());
        let fate = Fate::draw(&self.weather, timeout, away, &mut self.rng);
        match fate.done {
            Some(done) if done <= fate.heard => {
                let heard = Some(fate.heard - done);
                self.order(done, Ev::Reach(pid, call, heard, fate.instead));
            }
            done => {
                let error = fate.instead.expect("an answer needs a deed");
                if let Some(event) = answer_of(&call, Err(error)) {
                    self.order(fate.heard, Ev::Hear(pid, Box::new(event)));
                }
                if let Some(done) = done {
                    self.order(done, Ev::Reach(pid, call, None, None));
                }
            }
        }
    }

    /// The table does a call.
    pub(super) fn reach(
        &mut self,
        pid: Pid,
        call: Call,
        heard: Option<u64>,
        instead: Option<TableError>,
    ) {
        let result = self.perform(pid, &call);
        if let (Some(after), Some(event)) = (heard, {
            let told = match instead {
                Some(error) => Err(error),
                None => result,
            };
            answer_of(&call, told)
        }) {
            self.order(after, Ev::Hear(pid, Box::new(event)));
        }
    }

    fn perform(&mut self, pid: Pid, call: &Call) -> Result<Told, TableError> {
        let rows = &self.table.rows;
        let mut undo = None;
        let result = match call {
            Call::List { sent, stale } => {
                let from = sent.saturating_sub(*stale).max(1);
                return Ok(Told::View(Box::new(self.table.scan(
                    from,
                    self.now,
                    &mut self.rng,
                ))));
            }
            Call::Read(key) => return Ok(Told::Row(rows.row(key).map(Box::new))),
            Call::Write(_, write) => {
                let before = rows.row(write.key());
                let result = rows.write_now(write);
                if result.is_ok() {
                    if before.is_none() && rows.len() == 1 {
                        self.check.reborn(self.now);
                    }
                    let after = result.clone().expect("looked at");
                    self.check.stored(
                        self.now,
                        pid,
                        write,
                        before.as_ref(),
                        after.as_ref(),
                        &self.stream,
                    );
                    undo = Some(Undo::Lease(write.key().clone(), before.map(Box::new)));
                }
                result.map(|row| Told::Row(row.map(Box::new)))
            }
            Call::Lock(write) => {
                let before = rows.lock_row();
                let result = rows.lock_now(write).map(Told::Lock);
                undo = result.is_ok().then_some(Undo::Lock(before));
                result
            }
            Call::PutWorker(row) => {
                rows.put_worker_now(row);
                Ok(Told::Nothing)
            }
            Call::RemoveWorker(id, lut) => rows.remove_worker_now(id, *lut).map(|()| Told::Nothing),
        };
        if let Some(undo) = undo {
            self.table.changed(self.now, undo);
        }
        self.say(|| format!("{pid} did   {call:?}: {}", result.is_ok()));
        result
    }

    pub(super) fn list_shards(&mut self, pid: Pid, stream: usize) {
        let fails = self.weather.throttled > 0 && self.rng.u32(0..8) == 0;
        let open = match self.start {
            Start::AtTimestamp(at) => Some(
                self.stream
                    .open_at(u64::try_from(at).expect("not negative") * MILLI),
            ),
            _ => None,
        };
        let shards = (!fails).then(|| (self.stream.list(), open));
        let after = self.rng.u64(5..100) * MILLI;
        self.order(
            after,
            Ev::Hear(pid, Box::new(Event::ShardsListed { stream, shards })),
        );
    }
}

fn answer_of(call: &Call, told: Result<Told, TableError>) -> Option<Event> {
    let row = |told: Result<Told, TableError>| {
        told.map(|told| match told {
            Told::Row(row) => row.map(|row| *row),
            _ => unreachable!("rows answer reads and writes"),
        })
    };
    Some(match call {
        Call::List { .. } => Event::Listed(told.map(|told| match told {
            Told::View(view) => *view,
            _ => unreachable!("views answer lists"),
        })),
        Call::Write(id, _) => Event::Written {
            id: *id,
            result: row(told),
        },
        Call::Read(key) => Event::Read {
            key: key.clone(),
            result: row(told),
        },
        Call::Lock(_) => Event::Locked(told.map(|told| match told {
            Told::Lock(lock) => lock,
            _ => unreachable!("locks answer lock writes"),
        })),
        Call::PutWorker(_) => Event::WorkerPut(told.is_ok()),
        Call::RemoveWorker(..) => return None,
    })
}
