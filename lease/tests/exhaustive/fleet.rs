//! Two workers and several shards side by side, which share the clock, the workers' lives and what may go wrong at all.
//!
//! The steps of a shard are worked out once for each state of the shard; a state of the whole is a few references.

use std::{cell::RefCell, collections::HashMap, collections::HashSet, rc::Rc};

use lease::{ShardId, Time};

use crate::{
    explore::{Model, Step},
    print::{Lens, Plain},
    quiet,
    shard::{Setting, Shard},
    share::{self, Sight},
    steps,
};

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) setting: Setting,
    pub(crate) may: Left,
    /// How far time goes; `None`: until nothing new happens any more.
    pub(crate) ticks: Option<u32>,
    /// States that differ in names only are one.
    pub(crate) symmetry: bool,
}

/// One shard at one time.
pub(crate) struct Place {
    pub(crate) tick: u32,
    pub(crate) shard: Shard,
    /// See [`Shard::prints`].
    pub(crate) prints: [u128; 2],
    /// Of what a plan of each worker sees of it.
    sights: [u128; 2],
}

impl Place {
    /// The same for the same state under other names.
    pub(crate) fn print(&self) -> u128 {
        self.prints[0].min(self.prints[1])
    }
}

/// What can come after a [`Place`].
pub(crate) struct Next {
    pub(crate) steps: Vec<Near>,
    pub(crate) ticked: Rc<Place>,
    /// Where workers may restart at all.
    pub(crate) restarted: Option<[Rc<Place>; 2]>,
}

/// What may still go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    /// Lost replies, lost and late requests.
    pub(crate) faults: u8,
    /// Restarts, releases, hand-overs and shard ends.
    pub(crate) moves: u8,
}

/// A step of one shard, see [`steps::Local`].
pub(crate) struct Near {
    pub(crate) what: Rc<str>,
    pub(crate) worker: usize,
    pub(crate) faults: u8,
    pub(crate) moves: u8,
    pub(crate) to: Result<Rc<Place>, String>,
}

/// A time and a fingerprint.
type At = (u32, u128);
type Kept<K, V> = RefCell<HashMap<K, Rc<V>, Plain>>;

/// The places of one shard, and what comes after each.
pub(crate) struct Places {
    pub(crate) setting: Setting,
    known: Kept<(At, bool, bool), Next>,
    places: Kept<At, Place>,
    /// Whether a place is come to more than once.
    keep: bool,
}

impl Places {
    pub(crate) fn new(setting: Setting, keep: bool) -> Self {
        Places {
            setting,
            keep,
            known: RefCell::default(),
            places: RefCell::default(),
        }
    }

    pub(crate) fn now(&self, tick: u32) -> Time {
        self.setting.at(tick)
    }

    pub(crate) fn place(&self, tick: u32, mut shard: Shard) -> Rc<Place> {
        shard.tidy(self.now(tick), &self.setting);
        let now = self.now(tick);
        let prints = shard.prints(now, &self.setting);
        let new = || {
            let sight = |worker| Sight::of(&shard, worker, now, &self.setting);
            // Alone it is planned with nothing else.
            let print = |worker| Lens::of_words().print(&sight(worker));
            let sights = [0, 1].map(|worker| if self.keep { print(worker) } else { 0 });
            Rc::new(Place {
                tick,
                shard,
                prints,
                sights,
            })
        };
        if !self.keep {
            return new();
        }
        let mut places = self.places.borrow_mut();
        places.entry((tick, prints[0])).or_insert_with(new).clone()
    }

    /// What can happen, with what may still go wrong.
    pub(crate) fn next(&self, place: &Place, left: Left) -> Rc<Next> {
        let work_out = || Rc::new(self.work_out(place, left));
        if !self.keep {
            return work_out();
        }
        let at = (place.tick, place.prints[0]);
        let key = (at, left.faults > 0, left.moves > 0);
        if let Some(next) = self.known.borrow().get(&key) {
            return next.clone();
        }
        let next = work_out();
        self.known.borrow_mut().insert(key, next.clone());
        next
    }

    fn work_out(&self, place: &Place, left: Left) -> Next {
        let Place { tick, shard, .. } = place;
        let near = |local: steps::Local| Near {
            what: local.what.into(),
            worker: local.worker,
            faults: local.faults,
            moves: local.moves,
            to: local.to.map(|shard| self.place(*tick, shard)),
        };
        let restart = |worker| {
            let mut after = shard.clone();
            after.restart(worker);
            self.place(*tick, after)
        };
        let affordable =
            |local: &steps::Local| local.faults <= left.faults && local.moves <= left.moves;
        let steps = steps::steps(shard, self.now(*tick), &self.setting);
        Next {
            steps: steps.into_iter().filter(affordable).map(near).collect(),
            ticked: self.place(tick + 1, shard.clone()),
            restarted: (left.moves > 0).then(|| [0, 1].map(restart)),
        }
    }
}

/// `N` shards.
pub(crate) struct Fleet<const N: usize> {
    pub(crate) bounds: Bounds,
    pub(crate) places: Places,
    rest: quiet::Known,
    planned: RefCell<HashSet<u128, Plain>>,
}

/// A state of the whole.
#[derive(Clone)]
pub(crate) struct State<const N: usize> {
    pub(crate) tick: u32,
    pub(crate) left: Left,
    pub(crate) shards: [Rc<Place>; N],
}

impl<const N: usize> Fleet<N> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Fleet {
            bounds,
            places: Places::new(bounds.setting, N > 1),
            rest: quiet::Known::default(),
            planned: RefCell::default(),
        }
    }

    /// Whatever was, once nothing goes wrong any more every shard is read.
    pub(crate) fn comes_to_rest(&self, state: &State<N>) -> Result<(), String> {
        let rest = |place| quiet::comes_to_rest(&self.places, &self.rest, place);
        state.shards.iter().try_for_each(rest)
    }

    /// Nothing is planned about the shards together that is not wanted for each of them alone.
    pub(crate) fn plans_are_covered(&self, state: &State<N>) -> Result<(), String> {
        let setting = &self.bounds.setting;
        let now = self.places.now(state.tick);
        for worker in [0, 1] {
            let prints = state.shards.each_ref().map(|place| place.sights[worker]);
            let print = Lens::of_words().print(&(prints, worker));
            if !self.planned.borrow_mut().insert(print) {
                continue;
            }
            let sight = |(number, place): (usize, &Rc<Place>)| {
                let mut sight = Sight::of(&place.shard, worker, now, setting)?;
                sight.rename(&ShardId::from(format!("s{number}")));
                Some(sight)
            };
            let sights: Vec<Sight> = state.shards.iter().enumerate().filter_map(sight).collect();
            share::covered(&sights, worker)?;
        }
        Ok(())
    }
}

impl<const N: usize> Model for Fleet<N> {
    type State = State<N>;

    fn start(&self) -> State<N> {
        let shard = || self.places.place(0, Shard::new("s", Default::default()));
        State {
            tick: 0,
            left: self.bounds.may,
            shards: std::array::from_fn(|_| shard()),
        }
    }

    fn print(&self, state: &State<N>) -> u128 {
        let tick = self.bounds.ticks.map(|_| state.tick);
        let rest = (tick, state.left);
        let print = |names: usize| {
            let mut prints: [u128; N] =
                std::array::from_fn(|shard| state.shards[shard].prints[names]);
            if self.bounds.symmetry {
                prints.sort_unstable();
            }
            Lens::of_words().print(&(rest, prints))
        };
        if self.bounds.symmetry {
            print(0).min(print(1))
        } else {
            print(0)
        }
    }

    fn steps(&self, state: &State<N>) -> Vec<Step<State<N>>> {
        let left = state.left;
        let next: [Rc<Next>; N] =
            std::array::from_fn(|shard| self.places.next(&state.shards[shard], left));
        let mut all = Vec::new();
        if self.bounds.ticks.is_none_or(|last| state.tick < last) {
            all.push(Step {
                what: "time goes on".into(),
                to: Ok(State {
                    tick: state.tick + 1,
                    shards: next.each_ref().map(|next| next.ticked.clone()),
                    left,
                }),
            });
        }
        for (shard, next) in next.iter().enumerate() {
            for near in &next.steps {
                let to = near.to.as_ref().map_err(Clone::clone).map(|place| {
                    let mut shards = state.shards.clone();
                    shards[shard] = place.clone();
                    State {
                        tick: state.tick,
                        left: Left {
                            faults: left.faults - near.faults,
                            moves: left.moves - near.moves,
                        },
                        shards,
                    }
                });
                let what = near.what.clone();
                all.push(Step { what, to });
            }
        }
        if left.moves > 0 {
            for worker in [0, 1] {
                let restarted = |next: &Rc<Next>| {
                    let places = next.restarted.as_ref();
                    places.expect("moves are left")[worker].clone()
                };
                all.push(Step {
                    what: format!("{worker} restarts").into(),
                    to: Ok(State {
                        tick: state.tick,
                        left: Left {
                            moves: left.moves - 1,
                            ..left
                        },
                        shards: next.each_ref().map(restarted),
                    }),
                });
            }
        }
        all
    }
}
