//! Reading records: where an iterator starts, what a page holds, and when an iterator is of no more use.

use aws_sdk_kinesis::operation::get_shard_iterator::builders::GetShardIteratorFluentBuilder;
use aws_sdk_kinesis::primitives::{Blob, DateTime};
use aws_sdk_kinesis::types::ShardIteratorType;
use shardkeeper::local::model::ModelOptions;

use crate::world::{T0, World, code, entry, millis, payloads, shard, start};

/// A stream `s` with `r0` to `r3` in its first shard, 100 ms apart, and one record in its second; their sequence numbers.
async fn five_records() -> (World, [String; 4], String) {
    let world = start(ModelOptions::default()).await;
    world.create("s", 2).await;
    let mut numbers = <[String; 4]>::default();
    for (i, number) in numbers.iter_mut().enumerate() {
        *number = world.put("s", &format!("r{i}"), 0).await.1;
        world.advance(100);
    }
    let other = world.put("s", "other", u128::MAX).await.1;
    (world, numbers, other)
}

/// Builds requests for iterators of the first shard of `s`.
struct Iterators<'a>(&'a World);

impl Iterators<'_> {
    fn of(&self, kind: ShardIteratorType) -> GetShardIteratorFluentBuilder {
        let get = self.0.kinesis.get_shard_iterator();
        let get = get.stream_name("s").shard_id(shard(0));
        get.shard_iterator_type(kind)
    }

    fn at(&self, number: &str) -> GetShardIteratorFluentBuilder {
        self.of(ShardIteratorType::AtSequenceNumber)
            .starting_sequence_number(number)
    }

    fn after(&self, number: &str) -> GetShardIteratorFluentBuilder {
        self.of(ShardIteratorType::AfterSequenceNumber)
            .starting_sequence_number(number)
    }

    fn at_time(&self, millis: i64) -> GetShardIteratorFluentBuilder {
        self.of(ShardIteratorType::AtTimestamp)
            .timestamp(DateTime::from_millis(millis))
    }
}

#[tokio::test]
async fn iterators_start_where_they_say() {
    let (world, numbers, _) = five_records().await;
    let iterators = Iterators(&world);
    let all = &["r0", "r1", "r2", "r3"][..];
    let cases = [
        (iterators.of(ShardIteratorType::TrimHorizon), all),
        (iterators.of(ShardIteratorType::Latest), &[]),
        (iterators.at(&numbers[1]), &["r1", "r2", "r3"]),
        (iterators.after(&numbers[1]), &["r2", "r3"]),
        (iterators.after(&numbers[3]), &[]),
        (iterators.at_time(T0 + 100), &["r1", "r2", "r3"]),
        (iterators.at_time(T0 + 101), &["r2", "r3"]),
        (iterators.at_time(T0 + 400), &[]),
        (iterators.at_time(0), all),
    ];
    let mut open = Vec::new();
    for (request, expect) in cases {
        let iterator = request.send().await.expect("iterator").shard_iterator;
        let page = world.page(&iterator.expect("iterator")).await;
        assert_eq!(payloads(&page.records), expect);
        assert_eq!(page.millis_behind_latest, Some(0));
        open.push(page.next_shard_iterator.expect("open shard"));
    }
    world.put("s", "new", 0).await;
    for iterator in open {
        assert_eq!(payloads(&world.page(&iterator).await.records), ["new"]);
    }
}

#[tokio::test]
async fn an_iterator_at_no_place_of_this_shard_is_refused() {
    let (world, _, other) = five_records().await;
    let iterators = Iterators(&world);
    let cases = [
        (iterators.at(&other), "a number of another shard"),
        (iterators.at("12345"), "no number of Kinesis"),
        (
            iterators.of(ShardIteratorType::AtSequenceNumber),
            "no number",
        ),
        (iterators.at_time(T0 + 401), "in the future"),
    ];
    for (request, why) in cases {
        assert_eq!(
            code(request.send().await),
            "InvalidArgumentException",
            "{why}"
        );
    }
    let no_shard = iterators.of(ShardIteratorType::Latest).shard_id(shard(99));
    assert_eq!(code(no_shard.send().await), "ResourceNotFoundException");
}

#[tokio::test]
async fn a_record_comes_with_its_key_its_number_and_its_time() {
    let (world, numbers, _) = five_records().await;
    let page = world.page(&world.trim_horizon("s", 0).await).await;
    let record = &page.records[1];
    assert_eq!(
        millis(record.approximate_arrival_timestamp.as_ref()),
        T0 + 100,
        "arrival in milliseconds"
    );
    assert_eq!(
        (
            record.sequence_number.as_str(),
            record.partition_key.as_deref()
        ),
        (numbers[1].as_str(), Some("k"))
    );
}

#[tokio::test]
async fn a_page_ends_at_ten_mebibytes() {
    let world = start(ModelOptions::default()).await;
    world.create("big", 1).await;
    for _ in 0..14 {
        let put = world.kinesis.put_record();
        let put = put.stream_name("big").partition_key("k");
        let put = put.data(Blob::new(vec![7; (1 << 20) - 10]));
        put.send().await.expect("put");
    }
    let first = world.page(&world.trim_horizon("big", 0).await).await;
    assert_eq!(first.records.len(), 10, "10 MiB");
    let second = world.page(&first.next_shard_iterator.expect("more")).await;
    assert_eq!(second.records.len(), 4);
}

#[tokio::test]
async fn a_page_ends_at_ten_thousand_records_or_the_limit() {
    let world = start(ModelOptions::default()).await;
    world.create("many", 1).await;
    for _ in 0..21 {
        let put = world.kinesis.put_records().stream_name("many");
        let put = put.set_records(Some(vec![entry("x"); 500]));
        put.send().await.expect("put");
    }
    world.advance(1500);
    let iterator = world.trim_horizon("many", 0).await;
    let get = || world.kinesis.get_records().shard_iterator(&iterator);
    let few = get().limit(10).send().await.expect("read");
    assert_eq!(
        (few.records.len(), few.millis_behind_latest),
        (10, Some(1500))
    );
    assert_eq!(world.page(&iterator).await.records.len(), 10_000);
    assert_eq!(
        code(get().limit(10_001).send().await),
        "ValidationException"
    );
}

#[tokio::test]
async fn an_iterator_is_good_for_five_minutes() {
    let (world, ..) = five_records().await;
    let get = |iterator: &str| world.kinesis.get_records().shard_iterator(iterator).send();
    assert_eq!(code(get("AAAAgarbage").await), "InvalidArgumentException");
    let iterator = world.trim_horizon("s", 0).await;
    world.advance(300_000);
    world.page(&iterator).await;
    world.advance(1);
    assert_eq!(code(get(&iterator).await), "ExpiredIteratorException");
}
