//! One of our workers leads a fleet with a Java worker in it, told by what the table shows of the Java worker: it looks
//! for new rows once in a failover time, renews a third of a failover time after that, says nothing when it stops, and
//! its own row promises life for a minute.

use std::{collections::BTreeMap, time::Duration};

use checkpoint::{HashRange, Position};
use lease::{
    Lease, LeaseKey, LockWrite, MemoryTable, Shard, ShardId, Time, Timing, WorkerId, WorkerRow,
    leases::{Action, Event, Leases, News, Now, Settings, Stream},
    renew::Tenure,
    sync::Start,
};

const FAILOVER: Duration = Duration::from_secs(10);
const SHARDS: u32 = 4;
const TICK: Duration = Duration::from_millis(100);

/// A Java worker as the table sees it.
struct Java {
    id: WorkerId,
    /// The rows it renews, and when each is due.
    renews: BTreeMap<LeaseKey, Duration>,
    next_look: Duration,
    next_row: Duration,
}

impl Java {
    fn new(at: Duration) -> Self {
        Java {
            id: WorkerId::from("java"),
            renews: BTreeMap::new(),
            next_look: at,
            next_row: at,
        }
    }

    fn act(&mut self, table: &MemoryTable, at: Duration) {
        if at >= self.next_row {
            self.next_row = at + Duration::from_secs(30);
            table.put_worker_now(&WorkerRow {
                id: self.id.clone(),
                updated: i64::try_from(at.as_secs()).expect("short runs") + 1,
                every: None,
                leaving: false,
            });
        }
        if at >= self.next_look {
            self.next_look = at + Duration::from_millis(9_975);
            for lease in table.view().leases {
                let mine = lease.owner.as_ref() == Some(&self.id) && !lease.handing_over();
                if mine && !self.renews.contains_key(&lease.key) {
                    self.renews
                        .insert(lease.key, at + Duration::from_millis(3_300));
                }
            }
        }
        for (key, due) in &mut self.renews {
            let Some(mut lease) = table.row(key).filter(|_| at >= *due) else {
                continue;
            };
            *due = at + Duration::from_millis(3_300);
            if lease.reader() != Some(&self.id) {
                continue;
            }
            lease.counter += 1;
            // Its part of a hand-over away from it.
            if lease.checkpoint_owner.take().is_some() {
                lease.heir_ready = false;
            }
            table.put(lease);
        }
        self.renews
            .retain(|key, _| table.row(key).and_then(|row| row.owner) == Some(self.id.clone()));
    }
}

/// Our worker, alone with the table.
struct Keeper {
    leases: Leases,
    table: MemoryTable,
    at: Duration,
    tenures: BTreeMap<LeaseKey, Tenure>,
    handed_over: Vec<(Duration, WorkerId)>,
    taken: Vec<Option<WorkerId>>,
}

impl Keeper {
    fn new() -> Self {
        let settings = Settings {
            me: WorkerId::from("keeper"),
            session: "keeper-1".into(),
            timing: Timing::new(FAILOVER, Duration::from_secs(1)),
            max_leases: usize::MAX,
            streams: vec![Stream {
                id: None,
                made_for: "orders".into(),
                start: Start::TrimHorizon,
            }],
        };
        Keeper {
            leases: Leases::new(settings, Self::moment(Duration::ZERO)),
            table: MemoryTable::new(),
            at: Duration::ZERO,
            tenures: BTreeMap::new(),
            handed_over: Vec::new(),
            taken: Vec::new(),
        }
    }

    fn moment(at: Duration) -> Now {
        Now {
            mono: Time::new(at + Duration::from_secs(1_000)),
            wall: 1_700_000_000_000 + i64::try_from(at.as_millis()).expect("short runs"),
        }
    }

    fn shards() -> Vec<Shard> {
        (0..SHARDS)
            .map(|number| Shard {
                id: ShardId::from(format!("shardId-{number:012}")),
                parents: Default::default(),
                range: HashRange::FULL,
                starting_sequence: None,
                closed: false,
            })
            .collect()
    }

    /// Runs both until `until`.
    fn run(&mut self, mut java: Option<&mut Java>, until: Duration) {
        while self.at < until {
            if let Some(java) = &mut java {
                java.act(&self.table, self.at);
            }
            let now = Self::moment(self.at);
            loop {
                let actions = self.leases.step(|_, _| Some(Position::TrimHorizon), now);
                if actions.is_empty() {
                    break;
                }
                for action in actions {
                    self.act(action, now);
                }
            }
            self.at += TICK;
        }
    }

    fn act(&mut self, action: Action, now: Now) {
        let event = match action {
            Action::List(_) => Event::Listed(Ok(self.table.view())),
            Action::ListShards(stream) => Event::ShardsListed {
                stream,
                shards: Some((Self::shards(), None)),
            },
            Action::Write(id, write) => Event::Written {
                id,
                result: self.table.write_now(&write),
            },
            Action::Read(key) => Event::Read {
                result: Ok(self.table.row(&key)),
                key,
            },
            Action::Lock(write) => Event::Locked(self.table.lock_now(&write)),
            Action::PutWorker { every, leaving } => {
                self.table.put_worker_now(&WorkerRow {
                    id: WorkerId::from("keeper"),
                    updated: now.wall / 1_000,
                    every: Some(every),
                    leaving,
                });
                Event::WorkerPut(true)
            }
            Action::Stop { key, .. } => {
                let tenure = self.tenures.remove(&key).expect("it was started");
                Event::Stopped { key, tenure }
            }
            Action::Start { lease, tenure, .. } => {
                self.tenures.insert(lease.key, tenure);
                return;
            }
            Action::Tell(News::HandedOver { to, .. }) => {
                self.handed_over.push((self.at, to));
                return;
            }
            Action::Tell(News::Took { from, .. }) => {
                self.taken.push(from);
                return;
            }
            _ => return,
        };
        self.leases.handle(event, now);
    }

    /// A Java worker leads and reads everything.
    fn led_by(&self, java: &str) {
        let me = WorkerId::from(java);
        for shard in Self::shards() {
            let mut lease = Lease::new(None, shard.id, Position::TrimHorizon);
            lease.owner = Some(me.clone());
            lease.counter = 7;
            self.table.put(lease);
        }
        let lock = LockWrite::Acquire {
            me,
            version: "a".into(),
            duration: Duration::from_secs(120),
            seen: None,
        };
        self.table.lock_now(&lock).expect("there is none yet");
    }

    fn taken_from(&self, java: &Java) -> usize {
        let from = |taken: &&Option<WorkerId>| **taken == Some(java.id.clone());
        self.taken.iter().filter(from).count()
    }

    fn rows_of(&self, worker: &str) -> usize {
        self.table
            .view()
            .leases
            .iter()
            .filter(|lease: &&Lease| {
                lease
                    .reader()
                    .is_some_and(|reader| reader.as_str() == worker)
            })
            .count()
    }
}

#[test]
fn a_java_worker_is_given_its_share_and_time_to_find_it() {
    let mut keeper = Keeper::new();
    keeper.run(None, Duration::from_secs(20));
    assert_eq!(keeper.rows_of("keeper"), 4);
    // It looks just before the hand-over, so that it finds the rows nearly ten seconds later.
    let mut java = Java::new(Duration::from_secs(20));
    keeper.run(Some(&mut java), Duration::from_secs(120));
    assert_eq!((keeper.rows_of("keeper"), keeper.rows_of("java")), (2, 2));
    assert_eq!(keeper.handed_over.len(), 2, "{:?}", keeper.handed_over);
    assert_eq!(
        keeper.taken_from(&java),
        0,
        "rows were taken back before it could find them"
    );
}

#[test]
fn a_java_worker_that_stopped_is_given_nothing_more() {
    let mut keeper = Keeper::new();
    keeper.run(None, Duration::from_secs(20));
    let mut java = Java::new(Duration::from_secs(20));
    keeper.run(Some(&mut java), Duration::from_secs(60));
    assert_eq!(keeper.rows_of("java"), 2);
    // Its last renewals of the two rows lie apart, so that they expire one after the other.
    for (number, due) in java.renews.values_mut().enumerate() {
        *due += Duration::from_millis(1_700) * u32::try_from(number).expect("two");
    }
    keeper.run(Some(&mut java), Duration::from_secs(70));
    let handed_over = keeper.handed_over.len();
    keeper.run(None, Duration::from_secs(85));
    assert_eq!(
        keeper.rows_of("keeper"),
        4,
        "its rows are rescued after the failover time"
    );
    assert_eq!(keeper.taken_from(&java), 2);
    keeper.run(None, Duration::from_secs(150));
    assert_eq!(keeper.rows_of("keeper"), 4);
    assert_eq!(
        keeper.handed_over.len(),
        handed_over,
        "{:?}",
        keeper.handed_over
    );
    // It comes back under its name: its row speaks for it again.
    let mut java = Java::new(keeper.at);
    keeper.run(Some(&mut java), Duration::from_secs(250));
    assert_eq!((keeper.rows_of("keeper"), keeper.rows_of("java")), (2, 2));
}

#[test]
fn the_shards_of_a_dead_java_leader_do_not_wait_for_its_lock() {
    let mut keeper = Keeper::new();
    keeper.led_by("a-java-leader");
    // Another Java worker comes first by name. It lives, but only a leader of its kind shares out.
    let mut java = Java::new(Duration::ZERO);
    assert!(java.id < WorkerId::from("keeper"));
    keeper.run(Some(&mut java), Duration::from_secs(20));
    assert_eq!(keeper.rows_of("keeper"), 4);
}
