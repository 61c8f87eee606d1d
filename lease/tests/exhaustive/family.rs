//! A shard and the one that follows it: the child's row is made before the parent's end is stored, the child is read
//! after it, and the parent's row goes when the child has begun – and is never made anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use checkpoint::HashRange;
use lease::{
    Lease, LeaseKey, ShardId, Shards, Write,
    renew::Phase,
    sync::{self, Start},
};

use crate::{
    explore::{Model, Step},
    fleet::{Left, Near, Place, Places},
    planted::Planted,
    print::Lens,
    shard::{Ask, Setting, Shard, WALL},
    share,
    steps::Local,
};

/// The parent and its child, as Kinesis lists them all the time.
pub(crate) fn listed() -> Shards {
    Shards::new([parent(), child()])
}

fn parent() -> lease::Shard {
    lease::Shard {
        id: ShardId::from("p"),
        parents: BTreeSet::new(),
        range: HashRange::FULL,
        starting_sequence: None,
        closed: true,
    }
}

/// The shard that follows.
pub(crate) fn child() -> lease::Shard {
    lease::Shard {
        id: ShardId::from("c"),
        parents: BTreeSet::from([ShardId::from("p")]),
        closed: false,
        ..parent()
    }
}

/// Two workers, a parent and its child.
pub(crate) struct Family {
    pub(crate) places: Places,
    pub(crate) may: Left,
    pub(crate) ticks: Option<u32>,
    listed: Shards,
}

#[derive(Clone)]
pub(crate) struct State {
    tick: u32,
    left: Left,
    parent: Rc<Place>,
    child: Rc<Place>,
}

impl Family {
    pub(crate) fn new(setting: Setting, may: Left, ticks: Option<u32>) -> Self {
        let setting = Setting {
            child: Some(child),
            ..setting
        };
        Family {
            places: Places::new(setting, true),
            may,
            ticks,
            listed: listed(),
        }
    }

    fn planted(&self, planted: Planted) -> bool {
        self.places.setting.planted(planted)
    }

    /// What must hold for the two together.
    fn check(&self, state: State) -> Result<State, String> {
        let now = self.places.now(state.tick);
        let rows = [&state.parent.shard.row, &state.child.shard.row];
        let unfinished = rows[0].as_ref().is_some_and(|row| !row.ended());
        if unfinished && state.child.shard.readers(now) > 0 {
            return Err("a child is read before its parent's end".to_owned());
        }
        let rows: Vec<&Lease> = rows.into_iter().flatten().collect();
        if rows.len() == 2 {
            return Ok(state);
        }
        let leases: BTreeMap<ShardId, &Lease> =
            rows.iter().map(|row| (row.shard.clone(), *row)).collect();
        let missing = sync::missing(&sync::Scene {
            stream: None,
            made_for: None,
            start: Start::TrimHorizon,
            shards: &self.listed,
            open_at_start: None,
            leases: &leases,
            wall: WALL,
        });
        match missing.first() {
            None => Ok(state),
            Some(row) => Err(format!("the table shows a hole: {}", row.key)),
        }
    }

    /// What a worker does about both rows: makes the child's, begins to read the child, removes the parent's.
    fn together(&self, state: &State, worker: usize, steps: &mut Vec<Step<State>>) {
        let tick = state.tick;
        let mut add = |what: String, parent: Option<Shard>, child: Option<Shard>, faults: u8| {
            let place = |shard: Option<Shard>, old: &Rc<Place>| {
                shard.map_or_else(|| old.clone(), |shard| self.places.place(tick, shard))
            };
            let Some(faults) = state.left.faults.checked_sub(faults) else {
                return;
            };
            let after = State {
                tick,
                left: Left {
                    faults,
                    ..state.left
                },
                parent: place(parent, &state.parent),
                child: place(child, &state.child),
            };
            steps.push(Step {
                what: what.into(),
                to: self.check(after),
            });
        };
        let now = self.places.now(tick);
        let seats = [&state.parent, &state.child].map(|place| &place.shard.seats[worker]);
        let seen = seats.map(|seat| seat.seen.as_ref().map(|(row, _)| row));
        if let Some(held) = &seats[0].held
            && let Phase::Ended { todo, .. } = &held.phase
            && let Some(row) = todo.first()
        {
            if seen[1].is_some() {
                let parent = told_of_the_child(&state.parent.shard, worker);
                let what = format!("{worker} knows the child's row");
                add(what, Some(parent), None, 0);
            } else if seats[1].call.is_none() {
                let mut child = state.child.shard.clone();
                let write = Write::Create(Box::new(row.clone()));
                child.seats[worker].send(Ask::Write(write), now);
                let what = format!("{worker} makes the child's row");
                add(what, None, Some(child), 0);
            }
        }
        if let Some(held) = &seats[1].held
            && held.phase == Phase::Blocked
            && self.startable(&held.lease, seen)
        {
            let mut child = state.child.shard.clone();
            let seat = &mut child.seats[worker];
            seat.held.as_mut().expect("looked at above").phase = Phase::Running;
            seat.reading = true;
            let what = format!("{worker} begins to read the child");
            add(what, None, Some(child), 0);
        }
        for local in self.retire(state, worker, seen) {
            if let Ok(parent) = local.to {
                add(local.what, Some(parent), None, local.faults);
            }
        }
    }

    fn startable(&self, lease: &Lease, seen: [Option<&Lease>; 2]) -> bool {
        let row_of = |shard: &ShardId| seen.into_iter().flatten().find(|row| row.shard == *shard);
        self.planted(Planted::ChildUnblocked) || sync::startable(lease, row_of, Some(&self.listed))
    }

    /// The parent's row goes, by what this worker has seen.
    fn retire(&self, state: &State, worker: usize, seen: [Option<&Lease>; 2]) -> Vec<Local> {
        let rows = seen.into_iter().flatten();
        let leases: BTreeMap<ShardId, &Lease> = rows.map(|row| (row.shard.clone(), row)).collect();
        let mut retired = sync::retired(&leases, &self.listed);
        if self.planted(Planted::RetiredEarly) && seen[0].is_some_and(Lease::ended) {
            retired = vec![LeaseKey::from("p")];
        }
        let parent = &state.parent.shard;
        let mut steps = Vec::new();
        for key in retired {
            if parent.seats[worker].held.is_none() {
                let write = Write::Delete { key };
                share::at_once(parent, worker, &write, 0, &self.places.setting, &mut steps);
            }
        }
        steps
    }

    fn after(
        &self,
        state: &State,
        near: &Near,
        put: impl FnOnce(&mut State, Rc<Place>),
    ) -> Step<State> {
        let to = near.to.as_ref().map_err(Clone::clone).and_then(|place| {
            let mut after = state.clone();
            after.left.faults -= near.faults;
            after.left.moves -= near.moves;
            put(&mut after, place.clone());
            self.check(after)
        });
        Step {
            what: near.what.clone(),
            to,
        }
    }
}

/// The parent once its holder knows that the child's row is there.
fn told_of_the_child(parent: &Shard, worker: usize) -> Shard {
    let mut parent = parent.clone();
    let held = parent.seats[worker].held.as_mut();
    if let Phase::Ended { todo, .. } = &mut held.expect("it has ended").phase {
        todo.clear();
    }
    parent
}

impl Model for Family {
    type State = State;

    fn start(&self) -> State {
        State {
            tick: 0,
            left: self.may,
            parent: self.places.place(0, Shard::new("p", BTreeSet::new())),
            child: self.places.place(0, Shard::absent()),
        }
    }

    fn print(&self, state: &State) -> u128 {
        let tick = self.ticks.map(|_| state.tick);
        let print = |names: usize| {
            let prints = (state.parent.prints[names], state.child.prints[names]);
            Lens::of_words().print(&(tick, state.left, prints))
        };
        print(0).min(print(1))
    }

    fn steps(&self, state: &State) -> Vec<Step<State>> {
        let left = state.left;
        let parent = self.places.next(&state.parent, left);
        let child = self.places.next(&state.child, left);
        let mut all = Vec::new();
        if self.ticks.is_none_or(|last| state.tick < last) {
            all.push(Step {
                what: "time goes on".into(),
                to: self.check(State {
                    tick: state.tick + 1,
                    left,
                    parent: parent.ticked.clone(),
                    child: child.ticked.clone(),
                }),
            });
        }
        for near in &parent.steps {
            all.push(self.after(state, near, |after, place| after.parent = place));
        }
        for near in &child.steps {
            all.push(self.after(state, near, |after, place| after.child = place));
        }
        for worker in [0, 1] {
            self.together(state, worker, &mut all);
        }
        if let (Some(parents), Some(children)) = (&parent.restarted, &child.restarted) {
            for (worker, (parent, child)) in parents.iter().zip(children).enumerate() {
                all.push(Step {
                    what: format!("{worker} restarts").into(),
                    to: self.check(State {
                        tick: state.tick,
                        left: Left {
                            moves: left.moves - 1,
                            ..left
                        },
                        parent: parent.clone(),
                        child: child.clone(),
                    }),
                });
            }
        }
        all
    }
}
