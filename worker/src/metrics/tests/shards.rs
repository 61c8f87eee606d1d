//! Gauges live and die with their shard; without shard labels what is told of all shards is the sum or the worst.

use super::*;

#[test]
fn the_gauges_of_a_shard_vanish_with_it_and_the_rest_stays() {
    let scene = Scene::new(ShardLabels::Shard);
    let given_up = everything(&scene);
    let kept = scene.shard("orders", "shardId-8");
    kept.iterator_age(seconds(1), None);
    let another_handle = given_up.clone();
    drop(given_up);
    let age_of =
        |shard: &str| format!("iterator_age_seconds{{stream=\"orders\",shard=\"{shard}\"}}");
    assert_eq!(
        scene.value(&age_of("shardId-7")),
        Some(100.0),
        "a clone still holds it"
    );
    drop(another_handle);
    assert_eq!(scene.value(&age_of("shardId-7")), None);
    assert_eq!(
        scene.value("retention_left_seconds{stream=\"orders\",shard=\"shardId-7\"}"),
        None
    );
    for _ in 0..3 {
        assert_eq!(
            scene.value(&age_of("shardId-8")),
            Some(1.0),
            "a quiet shard stays"
        );
        assert_eq!(scene.value("leases_held"), Some(14.0));
        assert_eq!(scene.value("worker_state{state=\"draining\"}"), Some(1.0));
    }
    assert_eq!(
        scene.value("records_read_total{stream=\"orders\",shard=\"shardId-7\"}"),
        Some(3.0),
        "counters never go"
    );
    let again = scene.shard("orders", "shardId-7");
    assert_eq!(
        scene.value(&age_of("shardId-7")),
        None,
        "a new tenure knows no age yet"
    );
    again.iterator_age(seconds(5), None);
    assert_eq!(scene.value(&age_of("shardId-7")), Some(5.0));
}

#[test]
fn without_shard_labels_counters_add_up_and_gauges_show_the_worst() {
    for (labels, suffix) in [
        (ShardLabels::Stream, "{stream=\"orders\"}"),
        (ShardLabels::Off, ""),
    ] {
        let scene = Scene::new(labels);
        let shards = [
            scene.shard("orders", "a"),
            scene.shard("orders", "b"),
            scene.shard("orders", "unset"),
        ];
        for (shard, age) in shards.iter().zip([100, 400]) {
            shard.iterator_age(seconds(age), Some(seconds(1_000)));
            shard.checkpoint_lag(age);
            shard.records_read(1, 1);
            shard.shard_ended();
        }
        let value = |name: &str| scene.value(&format!("{name}{suffix}"));
        assert_eq!(value("iterator_age_seconds"), Some(400.0));
        assert_eq!(value("retention_left_seconds"), Some(600.0));
        assert_eq!(value("checkpoint_lag_records"), Some(500.0));
        assert_eq!(value("records_read_total"), Some(2.0));
        assert_eq!(value("shard_ends_total"), Some(2.0));
        assert!(!scene.render().contains("shard=\""));
        let [_first, worst, _unset] = shards;
        drop(worst);
        assert_eq!(
            scene.value(&format!("iterator_age_seconds{suffix}")),
            Some(100.0)
        );
    }
}

#[test]
fn streams_are_told_apart_without_shard_labels() {
    let scene = Scene::new(ShardLabels::Stream);
    let shards = [scene.shard("orders", "a"), scene.shard("payments", "a")];
    shards[0].iterator_age(seconds(1), None);
    shards[1].iterator_age(seconds(2), None);
    assert_eq!(
        scene.value("iterator_age_seconds{stream=\"orders\"}"),
        Some(1.0)
    );
    assert_eq!(
        scene.value("iterator_age_seconds{stream=\"payments\"}"),
        Some(2.0)
    );
}
