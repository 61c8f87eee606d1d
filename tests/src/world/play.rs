//! The play: from the first record to the last, step by step as planned, until the world is at rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use checkpoint::Position;
use shardkeeper::local::model::ShardInfo;

use super::{
    history::{Event, History},
    plan::{Plan, Step},
    producer::Producer,
    stage::{STREAM, Scene},
    workers::Fleet,
};

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
    rest(&scene, &mut fleet).await;
    if plan.encore {
        fleet.all_leave().await;
        fleet.join();
        producer.coda();
        rest(&scene, &mut fleet).await;
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
        Step::TableAway(span) => scene.take_table_away(*span),
        Step::StreamAway(span) => scene.take_stream_away(*span),
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
async fn rest(scene: &Scene, fleet: &mut Fleet) {
    let end = scene.now() + scene.plan.patience();
    while scene.now() < end && !at_rest(scene, fleet) {
        // Two processes with one id may both end for it; whoever watches over them starts another.
        if fleet.living().is_empty() {
            fleet.join();
        }
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
