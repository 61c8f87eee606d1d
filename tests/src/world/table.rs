//! The lease table as a network shows it: slow, refusing, forgetful. What is written is decided by [`MemoryTable`].
//!
//! A request travels in a task of its own: a caller that gives up, or dies, does not call it back.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lease::{
    Consistency, Lease, LeaseKey, Lock, LockWrite, MemoryTable, Table, TableError, View, WorkerId,
    WorkerRow, Write,
};
use tokio::sync::oneshot;

use super::{
    history::{Event, Process, Row},
    stage::Scene,
};

/// The table of a world, with every version of every row.
#[derive(Debug, Default)]
pub struct Store {
    memory: MemoryTable,
    past: Mutex<Past>,
}

#[derive(Debug, Default)]
struct Past {
    leases: BTreeMap<LeaseKey, Versions<Lease>>,
    lock: Versions<Lock>,
    workers: BTreeMap<WorkerId, Versions<WorkerRow>>,
}

/// What a row was, from when on.
#[derive(Debug)]
struct Versions<T>(Vec<(Duration, Option<T>)>);

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Versions(Vec::new())
    }
}

impl<T: Clone> Versions<T> {
    fn put(&mut self, at: Duration, row: Option<T>) {
        self.0.push((at, row));
    }

    fn at(&self, at: Duration) -> Option<&T> {
        let newest = self.0.iter().rev().find(|(since, _)| *since <= at);
        newest.and_then(|(_, row)| row.as_ref())
    }

    fn last(&self) -> Option<&T> {
        self.0.last().and_then(|(_, row)| row.as_ref())
    }
}

impl Store {
    fn with<T>(&self, act: impl FnOnce(&mut Past) -> T) -> T {
        act(&mut self.past.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The lease rows as they are.
    pub fn rows(&self) -> Vec<Lease> {
        self.with(|past| {
            past.leases
                .values()
                .filter_map(Versions::last)
                .cloned()
                .collect()
        })
    }

    fn row(&self, key: &LeaseKey) -> Option<Lease> {
        self.with(|past| past.leases.get(key)?.last().cloned())
    }

    /// Each row as it was at some moment that `when` picks for it.
    fn view(&self, mut when: impl FnMut() -> Duration) -> View {
        self.with(|past| View {
            leases: past
                .leases
                .values()
                .filter_map(|row| row.at(when()).cloned())
                .collect(),
            lock: past.lock.at(when()).cloned(),
            workers: past
                .workers
                .values()
                .filter_map(|row| row.at(when()).cloned())
                .collect(),
            unreadable: Vec::new(),
        })
    }

    fn write(&self, scene: &Scene, process: Process, write: &Write) -> Answer<Option<Lease>> {
        let before = self.row(write.key());
        let after = self.memory.write_now(write)?;
        let key = write.key().clone();
        self.with(|past| {
            past.leases
                .entry(key.clone())
                .or_default()
                .put(scene.now(), after.clone())
        });
        scene.record(Event::Applied {
            process,
            operation: write.name(),
            key,
            before: before.as_ref().map(Row::from),
            after: after.as_ref().map(Row::from),
        });
        Ok(after)
    }

    fn lock(&self, scene: &Scene, write: &LockWrite) -> Answer<Option<Lock>> {
        let after = self.memory.lock_now(write)?;
        self.with(|past| past.lock.put(scene.now(), after.clone()));
        Ok(after)
    }

    fn put_worker(&self, scene: &Scene, row: &WorkerRow) -> Answer<()> {
        self.memory.put_worker_now(row);
        self.with(|past| {
            let versions = past.workers.entry(row.id.clone()).or_default();
            versions.put(scene.now(), Some(row.clone()));
        });
        Ok(())
    }

    fn remove_worker(&self, scene: &Scene, worker: &WorkerId, seen: i64) -> Answer<()> {
        self.memory.remove_worker_now(worker, seen)?;
        self.with(|past| {
            past.workers
                .entry(worker.clone())
                .or_default()
                .put(scene.now(), None)
        });
        Ok(())
    }
}

type Answer<T> = Result<T, TableError>;

/// The table as one process reaches it.
#[derive(Debug)]
pub struct RemoteTable {
    /// The world.
    pub scene: Arc<Scene>,
    /// Who calls.
    pub process: Process,
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Good,
    Refused,
    Failed,
    LostReply,
    Late,
    Hangs { applied: bool },
}

impl RemoteTable {
    fn course(&self, writes: bool) -> Course {
        let scene = &self.scene;
        let odds = scene.table_odds();
        let strikes = |kind, odds| scene.strikes(kind, odds);
        if scene.table_away() {
            let hangs = scene.dice.chance(0.5);
            return if hangs {
                Course::Hangs { applied: false }
            } else {
                Course::Failed
            };
        }
        if strikes("table_throttle", odds.throttle) {
            Course::Refused
        } else if strikes("table_failed", odds.failed) {
            Course::Failed
        } else if strikes("table_lost_reply", odds.lost_reply) {
            Course::LostReply
        } else if writes && strikes("table_late_write", odds.late) {
            Course::Late
        } else if strikes("table_hang", odds.hang) {
            Course::Hangs {
                applied: scene.dice.chance(0.5),
            }
        } else {
            Course::Good
        }
    }

    fn latency(&self) -> Duration {
        let scene = &self.scene;
        if scene.strikes("table_delay", scene.table_odds().delay) {
            return scene
                .dice
                .between(Duration::ZERO, scene.plan.failover * 3 / 2);
        }
        scene
            .dice
            .between(Duration::from_millis(1), Duration::from_millis(8))
    }

    /// Sends a request; `act` is what the table does with it.
    fn call<R: Send + 'static>(
        &self,
        writes: bool,
        act: impl FnOnce(&Scene, Process) -> Answer<R> + Send + 'static,
    ) -> impl Future<Output = Answer<R>> + Send {
        let course = self.course(writes);
        let (there, back) = (self.latency(), self.latency());
        let late = self
            .scene
            .dice
            .between(Duration::ZERO, self.scene.plan.failover * 3 / 2);
        let (scene, process) = (self.scene.clone(), self.process);
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            tokio::time::sleep(there).await;
            if course == Course::Late {
                // Whoever waits is answered first.
                let _ = tell.send(Err(unknown()));
                tokio::time::sleep(late).await;
                let _ = act(&scene, process);
                return;
            }
            let answer = match course {
                Course::Refused => Err(refusal(&scene)),
                Course::Failed | Course::Hangs { applied: false } => Err(unknown()),
                Course::LostReply => act(&scene, process).and(Err(unknown())),
                _ => act(&scene, process),
            };
            tokio::time::sleep(back).await;
            if matches!(course, Course::Hangs { .. }) {
                std::future::pending::<()>().await;
            }
            // The caller may have given up.
            let _ = tell.send(bare(&scene, answer));
        });
        async move { told.await.unwrap_or_else(|_| Err(unknown())) }
    }
}

fn unknown() -> TableError {
    TableError::Unknown("simulated".into())
}

/// Refused for lack of throughput, or for want of rights: somebody takes the policy away and gives it back.
fn refusal(scene: &Scene) -> TableError {
    match scene.dice.below(8) {
        0 => TableError::Missing("simulated".into()),
        _ => TableError::Throttled("simulated".into()),
    }
}

/// A refused condition does not always come with the row.
fn bare<R>(scene: &Scene, answer: Answer<R>) -> Answer<R> {
    match answer {
        Err(TableError::Changed(Some(_))) if !scene.calm() && scene.dice.chance(0.1) => {
            Err(TableError::Changed(None))
        }
        other => other,
    }
}

impl Table for RemoteTable {
    async fn list(&self, consistency: Consistency) -> Answer<View> {
        let sent = self.scene.now();
        self.call(false, move |scene, _| {
            let now = scene.now();
            let stale = consistency == Consistency::Eventual
                && scene.strikes("table_stale_list", scene.table_odds().stale);
            // A scan meets its rows one after the other, between question and answer.
            let oldest = if stale {
                now.saturating_sub(Duration::from_secs(2))
            } else {
                sent
            };
            Ok(scene.store.view(|| scene.dice.between(oldest, now)))
        })
        .await
    }

    async fn get(&self, key: &LeaseKey) -> Answer<Option<Lease>> {
        let key = key.clone();
        self.call(false, move |scene, _| Ok(scene.store.row(&key)))
            .await
    }

    async fn write(&self, write: &Write) -> Answer<Option<Lease>> {
        let write = write.clone();
        self.call(true, move |scene, process| {
            scene.store.write(scene, process, &write)
        })
        .await
    }

    async fn lock(&self, write: &LockWrite) -> Answer<Option<Lock>> {
        let write = write.clone();
        self.call(true, move |scene, _| scene.store.lock(scene, &write))
            .await
    }

    async fn put_worker(&self, row: &WorkerRow) -> Answer<()> {
        let row = row.clone();
        self.call(true, move |scene, _| scene.store.put_worker(scene, &row))
            .await
    }

    async fn remove_worker(&self, worker: &WorkerId, seen_updated: i64) -> Answer<()> {
        let worker = worker.clone();
        self.call(true, move |scene, _| {
            scene.store.remove_worker(scene, &worker, seen_updated)
        })
        .await
    }
}
