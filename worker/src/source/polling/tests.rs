//! When a shard is asked for what, and what its answers mean.

use checkpoint::{HashRange, KinesisRecord};

use super::*;

const PACE: Pace = Pace {
    min: Duration::from_millis(200),
    max: Duration::from_secs(1),
    limit: 10,
};

fn at(millis: u64) -> Time {
    Time::new(Duration::from_millis(millis))
}

fn polling(start: From) -> Polling {
    Polling::new("shard-1".into(), start, PACE, Random::seeded(1), Time::ZERO)
}

fn page(sequences: &[u128], behind: u64) -> Page {
    Page {
        records: sequences
            .iter()
            .map(|sequence| KinesisRecord::new(SequenceNumber::from(*sequence), "key", "data"))
            .collect(),
        next: Some(ShardIterator("next".into())),
        behind: Duration::from_millis(behind),
        children: Vec::new(),
    }
}

fn shard(id: &str, parents: &[&str]) -> Shard {
    Shard {
        id: id.into(),
        parents: parents
            .iter()
            .map(|parent| ShardId::from(*parent))
            .collect(),
        range: HashRange::FULL,
        starting_sequence: None,
        closed: false,
    }
}

fn end(children: Vec<Shard>) -> Page {
    Page {
        next: None,
        children,
        ..page(&[], 0)
    }
}

#[test]
fn an_iterator_is_asked_for_where_reading_began_until_a_record_was_accepted() {
    // Hazard 1: with AFTER in place of AT, the rest of the aggregate at the checkpoint would be skipped.
    let start = From::At(SequenceNumber::from(7));
    let mut polling = polling(start.clone());
    assert_eq!(polling.ask(at(0)), Ask::Iterator(start.clone()));
    polling.iterator(ShardIterator("first".into()));
    polling.page(&page(&[], 500), at(0), at(1));
    polling.failed(&SourceError::ExpiredIterator, at(300_000));
    assert_eq!(polling.ask(at(300_000)), Ask::Iterator(start));
    polling.iterator(ShardIterator("second".into()));
    polling.page(&page(&[7, 8], 0), at(300_000), at(300_001));
    polling.failed(&SourceError::ExpiredIterator, at(600_000));
    let after = From::After(SequenceNumber::from(8));
    assert_eq!(polling.ask(at(600_000)), Ask::Iterator(after));
}

#[test]
fn polls_are_five_a_second_while_there_is_data_and_rarer_when_there_is_none() {
    let mut polling = polling(From::TrimHorizon);
    polling.iterator(ShardIterator("first".into()));
    polling.page(&page(&[1], 0), at(0), at(5));
    assert_eq!(polling.ask(at(5)), Ask::Wait(at(200)));
    // Empty but behind the tip: AWS answers so; the data is further on.
    polling.page(&page(&[], 1_000), at(200), at(205));
    assert_eq!(polling.ask(at(205)), Ask::Wait(at(400)));
    let mut sent = 400;
    let mut waits = Vec::new();
    for _ in 0..6 {
        polling.page(&page(&[], 0), at(sent), at(sent));
        let Ask::Wait(next) = polling.ask(at(sent)) else {
            panic!("an idle shard is not read at once");
        };
        waits.push(next.since(at(sent)).as_millis());
        sent = u64::try_from(next.since_origin().as_millis()).expect("small");
    }
    assert_eq!(waits, [300, 450, 675, 1_000, 1_000, 1_000]);
    polling.page(&page(&[2], 0), at(sent), at(sent));
    assert_eq!(polling.ask(at(sent)), Ask::Wait(at(sent + 200)));
}

#[test]
fn a_large_page_makes_the_next_read_wait_for_the_shards_two_megabytes_a_second() {
    let mut polling = polling(From::TrimHorizon);
    let mut large = page(&[1], 5_000);
    large.records[0].data = vec![0; 8 << 20].into();
    polling.iterator(ShardIterator("first".into()));
    polling.page(&large, at(0), at(50));
    let Ask::Wait(next) = polling.ask(at(50)) else {
        panic!("8 MiB were just read");
    };
    assert!(next >= at(4_000) && next < at(4_010), "{next:?}");
}

#[test]
fn throttles_wait_longer_each_time_and_a_success_forgets_them() {
    let mut polling = polling(From::TrimHorizon);
    polling.iterator(ShardIterator("first".into()));
    let mut now = at(0);
    let mut last = Duration::ZERO;
    for _ in 0..4 {
        polling.failed(&SourceError::Throttled("slow down".into()), now);
        let Ask::Wait(next) = polling.ask(now) else {
            panic!("a throttled shard is not read at once");
        };
        assert!(next.since(now) > last / 2, "waits grow");
        last = next.since(now);
        now = next;
    }
    assert!(last >= Duration::from_millis(800));
    assert!(
        matches!(polling.ask(now), Ask::Records(..)),
        "the iterator is kept"
    );
    polling.page(&page(&[1], 0), now, now);
    assert_eq!(polling.failures(), 0);
}

#[test]
fn the_end_counts_once_children_are_known() {
    let child = shard("shard-2", &["shard-1"]);
    let mut told = polling(From::TrimHorizon);
    told.iterator(ShardIterator("first".into()));
    told.page(&end(vec![child.clone()]), at(0), at(0));
    assert_eq!(told.ask(at(0)), Ask::Ended(vec![child.clone()]));

    // Hazard H28: an end without children is no end until ListShards names them.
    let mut untold = polling(From::TrimHorizon);
    untold.iterator(ShardIterator("first".into()));
    untold.page(&end(Vec::new()), at(0), at(0));
    assert_eq!(untold.ask(at(0)), Ask::Shards);
    untold.shards(vec![shard("shard-1", &[])], at(0));
    let Ask::Wait(next) = untold.ask(at(0)) else {
        panic!("ListShards is not asked again at once");
    };
    assert_eq!(untold.ask(next), Ask::Shards);
    untold.shards(vec![shard("shard-1", &[]), child.clone()], next);
    assert_eq!(untold.ask(next), Ask::Ended(vec![child]));
}

#[test]
fn not_found_means_nothing_until_the_shards_were_listed() {
    // Hazard H29: a wrong endpoint, or a moment of confusion, must not finish a shard.
    let mut polling = polling(From::TrimHorizon);
    polling.iterator(ShardIterator("first".into()));
    polling.failed(&SourceError::NotFound("no such shard".into()), at(0));
    let Ask::Wait(next) = polling.ask(at(0)) else {
        panic!("waits first");
    };
    assert_eq!(polling.ask(next), Ask::Shards);
    // It is listed: read on, with a new iterator.
    polling.shards(vec![shard("shard-1", &[])], next);
    let Ask::Wait(next) = polling.ask(next) else {
        panic!("waits first");
    };
    assert_eq!(polling.ask(next), Ask::Iterator(From::TrimHorizon));
    // It is not: its data has expired as a whole, and its children follow.
    polling.failed(&SourceError::NotFound("no such shard".into()), next);
    let child = shard("shard-2", &["shard-1"]);
    let later = next + Duration::from_secs(60);
    assert_eq!(polling.ask(later), Ask::Shards);
    polling.shards(Vec::new(), later);
    assert!(
        !matches!(polling.ask(later), Ask::Ended(_)),
        "an empty list proves nothing"
    );
    polling.shards(vec![child.clone()], later);
    assert_eq!(polling.ask(later), Ask::Ended(vec![child]));
}
