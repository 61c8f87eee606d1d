//! What a worker does about a row that it does not hold, by the plan – in whatever company.
//!
//! A plan looks at the whole table, a step of this model at one shard. So the plan is asked about this row as leader,
//! as deputy and as follower, beside a row of either worker and alone, with and without a limit, with the other
//! worker present, new or absent; whatever it wants in any of these cases may happen. [`wanted`] is a superset of what a
//! plan over two rows wants for each of them; `pair.rs` compares the two wherever they meet.

use std::{cell::RefCell, collections::BTreeMap, collections::HashMap, rc::Rc, time::Duration};

use lease::{
    Assign, Lease, LeaseKey, Seize, ShardId, Time, WorkerId, Write,
    assign::{self, Move, Role, Row, Scene},
    renew::Phase,
};

use crate::{
    planted::Planted,
    print::{Lens, Plain},
    shard::{Ask, Setting, Shard, id},
    steps::Local,
};

/// What a plan sees of one row.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Sight {
    pub(crate) lease: Lease,
    unread: Option<Duration>,
    held: bool,
    busy: bool,
    /// A write that seizes it is under way.
    mine_soon: bool,
}

impl Sight {
    /// What `worker` sees of a shard; `None` before it has looked.
    pub(crate) fn of(shard: &Shard, worker: usize, now: Time, setting: &Setting) -> Option<Self> {
        let seat = &shard.seats[worker];
        let (row, since) = seat.seen.as_ref()?;
        let age = now.since(*since);
        let unread = match row.reader() {
            None => Some(age),
            Some(_) => age.checked_sub(setting.timing().failover()),
        };
        let on_its_way = |phase: &Phase| !matches!(phase, Phase::Running | Phase::Blocked);
        let held = seat.held.as_ref();
        Some(Sight {
            lease: held.map_or(row, |held| &held.lease).clone(),
            // For how long does not matter: the deputy has no patience here.
            unread: unread.filter(|_| held.is_none()).map(|_| Duration::ZERO),
            held: held.is_some(),
            busy: match held {
                Some(held) => on_its_way(&held.phase),
                None => seat.call.is_some(),
            },
            mine_soon: held.is_none() && seat.call.is_some(),
        })
    }

    /// The same as if it were of another shard.
    pub(crate) fn rename(&mut self, shard: &ShardId) {
        self.lease.key = LeaseKey::of(None, shard);
        self.lease.shard = shard.clone();
    }

    fn row<'a>(&'a self, me: &'a WorkerId) -> Row<'a> {
        Row {
            lease: &self.lease,
            unread: self.unread,
            going_to: self.mine_soon.then_some(me),
            startable: true,
            held: self.held,
            busy: self.busy,
        }
    }
}

/// What a plan depends on besides the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    role: Role,
    max_leases: usize,
    /// Whether the other worker is there, and whether it has just joined.
    other: Option<bool>,
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let roles = [Role::Leader, Role::Deputy, Role::Follower];
    roles.into_iter().flat_map(|role| {
        [usize::MAX, 1].into_iter().flat_map(move |max_leases| {
            let others = [None, Some(false), Some(true)];
            others.into_iter().map(move |other| Case {
                role,
                max_leases,
                other,
            })
        })
    })
}

/// What the plan wants.
pub(crate) fn plan<'a>(
    worker: usize,
    case: Case,
    rows: impl IntoIterator<Item = &'a Sight>,
) -> Vec<Move> {
    let me = id(worker);
    let other = case
        .other
        .map(|quick| (id(1 - worker), assign::Worker { quick }));
    let mut workers = BTreeMap::from([(me.clone(), assign::Worker { quick: false })]);
    workers.extend(other);
    assign::plan(&Scene {
        me: &me,
        role: case.role,
        rows: rows.into_iter().map(|sight| sight.row(&me)).collect(),
        workers,
        max_leases: case.max_leases,
        entitled: &BTreeMap::new(),
        deputy_patience: Duration::ZERO,
    })
}

/// Everything that some plan in some company wants to be done about this row.
pub(crate) fn wanted(sight: &Sight, worker: usize) -> Rc<[Move]> {
    thread_local! {
        static KNOWN: RefCell<HashMap<u128, Rc<[Move]>, Plain>> = RefCell::default();
    }
    // A plan does not look at counters and sessions: rows that differ in nothing else need not be asked about again.
    let mut like = sight.clone();
    like.lease.counter = 0;
    like.lease.session = None;
    let print = Lens::of_words().print(&(&like, worker));
    KNOWN.with_borrow_mut(|known| {
        let ask = || ask(sight, worker).into();
        known.entry(print).or_insert_with(ask).clone()
    })
}

fn ask(sight: &Sight, worker: usize) -> Vec<Move> {
    let beside = |owner: Option<WorkerId>| {
        let mut lease = Lease::new(None, ShardId::from("beside"), lease_start());
        let held = owner == Some(id(worker));
        lease.owner = owner;
        Sight {
            unread: lease.owner.is_none().then_some(Duration::ZERO),
            lease,
            held,
            busy: false,
            mine_soon: false,
        }
    };
    let company = [
        vec![],
        vec![beside(None)],
        vec![beside(Some(id(0)))],
        vec![beside(Some(id(1)))],
    ];
    let mut wanted = Vec::new();
    for case in cases() {
        for beside in &company {
            for step in plan(worker, case, beside.iter().chain([sight])) {
                if *key_of(&step) == sight.lease.key && !wanted.contains(&step) {
                    wanted.push(step);
                }
            }
        }
    }
    wanted
}

/// Whether a plan over these rows wants nothing that is not [`wanted`] for each of them.
///
/// # Errors
/// A move that is not.
pub(crate) fn covered(sights: &[Sight], worker: usize) -> Result<(), String> {
    for case in cases() {
        for step in plan(worker, case, sights) {
            let of = |sight: &&Sight| sight.lease.key == *key_of(&step);
            let sight = sights.iter().find(of).expect("a row of the plan");
            if !wanted(sight, worker).contains(&step) {
                return Err(format!("{worker} plans {step:?} in {case:?}"));
            }
        }
    }
    Ok(())
}

fn lease_start() -> checkpoint::Position {
    checkpoint::Position::TrimHorizon
}

pub(crate) fn key_of(step: &Move) -> &LeaseKey {
    match step {
        Move::Acquire(key) | Move::Ready(key) | Move::Take(key) | Move::Assign(key, _) => key,
        Move::HandOff { key, .. } => key,
    }
}

pub(crate) fn steps(
    shard: &Shard,
    worker: usize,
    now: Time,
    setting: &Setting,
    steps: &mut Vec<Local>,
) {
    without_a_look(shard, worker, setting, steps);
    let Some(sight) = Sight::of(shard, worker, now, setting) else {
        return;
    };
    for step in wanted(&sight, worker).iter() {
        if let Move::Take(_) = step
            && setting.planted(Planted::NobodyRescues)
            && sight.lease.owner.is_some()
        {
            continue;
        }
        act(shard, worker, step, now, setting, steps);
    }
    if setting.planted(Planted::EndedTaken) && sight.lease.ended() && !sight.busy {
        let step = Move::Take(sight.lease.key.clone());
        act(shard, worker, &step, now, setting, steps);
    }
    // Kinesis lists a finished shard no more, or never had children for it: its row goes.
    if sight.lease.ended() && !sight.held && sight.lease.children.is_empty() {
        let key = sight.lease.key.clone();
        at_once(shard, worker, &Write::Delete { key }, 0, setting, steps);
    }
}

/// Two writes are not conditional on the counter, so an old plan may do them at any time: they do not wait for a plan.
fn without_a_look(shard: &Shard, worker: usize, setting: &Setting, steps: &mut Vec<Local>) {
    let Some(row) = &shard.row else { return };
    let key = row.key.clone();
    let me = id(worker);
    if row.owner.as_ref() == Some(&me) && row.handing_over() && !row.heir_ready {
        let key = key.clone();
        let write = Write::HeirReady { key, me };
        at_once(shard, worker, &write, 0, setting, steps);
    }
    if let Some(from) = row.owner.clone() {
        let to = id(usize::from(from == id(0)));
        let write = Write::HandOff { key, from, to };
        at_once(shard, worker, &write, 1, setting, steps);
    }
}

/// Does what the plan wants.
fn act(
    shard: &Shard,
    worker: usize,
    step: &Move,
    now: Time,
    setting: &Setting,
    steps: &mut Vec<Local>,
) {
    let (seen, _) = shard.seats[worker]
        .seen
        .as_ref()
        .expect("it was planned with");
    let key = seen.key.clone();
    let me = id(worker);
    let seize = Seize {
        key: key.clone(),
        me: me.clone(),
        session: shard.session(worker),
        seen_counter: seen.counter,
        pin: None,
    };
    let owner = seen.owner.clone();
    let write = match step {
        Move::Acquire(_) => Write::Acquire(seize),
        Move::Take(_) => match &shard.row {
            Some(row) if setting.planted(Planted::TakenUnseen) => Write::Take {
                seize: Seize {
                    seen_counter: row.counter,
                    ..seize
                },
                owner: row.owner.clone(),
            },
            _ => Write::Take { seize, owner },
        },
        Move::Ready(_) | Move::HandOff { .. } => return,
        Move::Assign(_, to) => {
            let write = Write::Assign(Assign {
                key,
                to: to.clone(),
                owner,
                checkpoint_owner: seen.checkpoint_owner.clone(),
                counter: seen.counter,
            });
            return at_once(shard, worker, &write, 1, setting, steps);
        }
    };
    if shard.seats[worker].call.is_some() {
        return;
    }
    let mut after = shard.clone();
    let what = format!("{worker} sends {write}");
    after.seats[worker].send(Ask::Write(write), now);
    steps.push(Local::free(what, Ok(after)));
}

/// A write whose answer nobody waits for: done at once, or late.
pub(crate) fn at_once(
    shard: &Shard,
    worker: usize,
    write: &Write,
    moves: u8,
    setting: &Setting,
    steps: &mut Vec<Local>,
) {
    let mut after = shard.clone();
    let to = match after.apply(write, false, setting) {
        Ok(Ok(_)) => Ok(after),
        Ok(Err(_)) => return,
        Err(wrong) => Err(wrong),
    };
    steps.push(Local {
        moves,
        ..Local::free(format!("{worker} does {write}"), to)
    });
    let mut after = shard.clone();
    after.seats[worker].late.push(write.clone());
    steps.push(Local {
        moves,
        ..Local::fault(format!("{worker}'s {write} is on its way"), after)
    });
}
