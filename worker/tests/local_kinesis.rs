//! The real SDK against the embedded Kinesis, over HTTP: streams, shards, records.

mod local_support;

use aws_sdk_kinesis::primitives::{Blob, DateTime};
use aws_sdk_kinesis::types::{
    EncryptionType, MetricsName, PutRecordsRequestEntry, ScalingType, ShardFilter, ShardFilterType,
    ShardIteratorType, StreamMode, StreamModeDetails, StreamStatus,
};
use local_support::{T0, World, code, millis, payloads, shard, start};
use shardkeeper::local::model::ModelOptions;
use shardkeeper::local::{LocalAws, LocalOptions, StartError};

const HALF: u128 = 1 << 127;

fn slow() -> ModelOptions {
    ModelOptions {
        create_ms: 100,
        update_ms: 100,
        delete_ms: 100,
        ..ModelOptions::default()
    }
}

async fn status(world: &World, stream: &str) -> StreamStatus {
    let summary = world
        .kinesis
        .describe_stream_summary()
        .stream_name(stream)
        .send()
        .await
        .expect("described");
    summary
        .stream_description_summary
        .expect("summary")
        .stream_status
}

#[tokio::test]
async fn streams_are_created_described_and_deleted() {
    let world = start(slow()).await;
    let k = &world.kinesis;
    assert_eq!(
        code(k.describe_stream_summary().stream_name("s").send().await),
        "ResourceNotFoundException"
    );
    world.create("s", 2).await;
    assert_eq!(
        code(
            k.create_stream()
                .stream_name("s")
                .shard_count(1)
                .send()
                .await
        ),
        "ResourceInUseException"
    );
    assert_eq!(status(&world, "s").await, StreamStatus::Creating);
    assert_eq!(
        code(k.list_shards().stream_name("s").send().await),
        "ResourceInUseException"
    );
    world.advance(100);

    let summary = k
        .describe_stream_summary()
        .stream_name("s")
        .send()
        .await
        .expect("described")
        .stream_description_summary
        .expect("summary");
    assert_eq!(
        (
            summary.stream_status,
            summary.open_shard_count,
            summary.consumer_count
        ),
        (StreamStatus::Active, 2, Some(0))
    );
    assert_eq!(
        (summary.retention_period_hours, summary.encryption_type),
        (24, Some(EncryptionType::None))
    );
    assert_eq!(
        millis(Some(&summary.stream_creation_timestamp)),
        T0,
        "milliseconds are kept"
    );
    let by_arn = k
        .describe_stream_summary()
        .stream_arn(&summary.stream_arn)
        .send()
        .await
        .expect("described");
    assert_eq!(
        by_arn
            .stream_description_summary
            .expect("summary")
            .stream_name,
        "s"
    );
    assert_eq!(
        k.list_shards()
            .stream_arn(&summary.stream_arn)
            .send()
            .await
            .expect("listed")
            .shards()
            .len(),
        2
    );

    let first = k
        .describe_stream()
        .stream_name("s")
        .limit(1)
        .send()
        .await
        .expect("described")
        .stream_description
        .expect("description");
    assert_eq!((first.shards.len(), first.has_more_shards), (1, true));
    let after = &first.shards[0].shard_id;
    let second = k
        .describe_stream()
        .stream_name("s")
        .exclusive_start_shard_id(after)
        .send()
        .await
        .expect("described");
    let second = second.stream_description.expect("description");
    assert_eq!(
        (second.shards[0].shard_id.as_str(), second.has_more_shards),
        (shard(1).as_str(), false)
    );

    world.put("s", "old", 0).await;
    let iterator = world
        .iterator("s", &shard(0), ShardIteratorType::TrimHorizon)
        .await;
    k.delete_stream()
        .stream_name("s")
        .send()
        .await
        .expect("deleted");
    assert_eq!(status(&world, "s").await, StreamStatus::Deleting);
    world.advance(100);
    assert_eq!(
        code(k.describe_stream().stream_name("s").send().await),
        "ResourceNotFoundException"
    );
    world.create("s", 1).await;
    world.advance(100);
    assert_eq!(
        code(k.get_records().shard_iterator(iterator).send().await),
        "ResourceNotFoundException"
    );
    assert_eq!(
        world.drain("s", &shard(0)).await.0,
        Vec::<String>::new(),
        "nothing of the old stream"
    );
}

#[tokio::test]
async fn on_demand_streams_begin_with_four_shards() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    let details = StreamModeDetails::builder()
        .stream_mode(StreamMode::OnDemand)
        .build()
        .expect("complete");
    k.create_stream()
        .stream_name("s")
        .stream_mode_details(details.clone())
        .send()
        .await
        .expect("created");
    let summary = k
        .describe_stream_summary()
        .stream_name("s")
        .send()
        .await
        .expect("described")
        .stream_description_summary
        .expect("summary");
    assert_eq!(
        (summary.open_shard_count, summary.stream_mode_details),
        (4, Some(details))
    );
    let arn = summary.stream_arn;
    let provisioned = StreamModeDetails::builder()
        .stream_mode(StreamMode::Provisioned)
        .build()
        .expect("complete");
    k.update_stream_mode()
        .stream_arn(arn)
        .stream_mode_details(provisioned)
        .send()
        .await
        .expect("updated");
    let limits = k.describe_limits().send().await.expect("described");
    assert_eq!(
        (limits.open_shard_count, limits.on_demand_stream_count),
        (4, 0)
    );
}

#[tokio::test]
async fn streams_are_listed_in_pages_with_summaries() {
    let world = start(ModelOptions::default()).await;
    for name in ["c", "a", "b"] {
        world.create(name, 1).await;
    }
    let page = world
        .kinesis
        .list_streams()
        .limit(2)
        .send()
        .await
        .expect("listed");
    assert_eq!(
        (page.stream_names(), page.has_more_streams),
        (&["a".to_owned(), "b".to_owned()][..], true)
    );
    assert_eq!(page.stream_summaries()[1].stream_name, "b");
    assert_eq!(
        millis(
            page.stream_summaries()[1]
                .stream_creation_timestamp
                .as_ref()
        ),
        T0
    );
    let last = world
        .kinesis
        .list_streams()
        .next_token(page.next_token.expect("more"))
        .send()
        .await
        .expect("listed");
    assert_eq!(
        (
            last.stream_names(),
            last.has_more_streams,
            last.next_token()
        ),
        (&["c".to_owned()][..], false, None)
    );
    let after = world
        .kinesis
        .list_streams()
        .exclusive_start_stream_name("b")
        .send()
        .await
        .expect("listed");
    assert_eq!(after.stream_names(), ["c"]);
}

#[tokio::test]
async fn settings_are_kept() {
    let world = start(ModelOptions::default()).await;
    world.create("s", 1).await;
    let k = &world.kinesis;
    k.increase_stream_retention_period()
        .stream_name("s")
        .retention_period_hours(48)
        .send()
        .await
        .expect("increased");
    assert_eq!(
        code(
            k.increase_stream_retention_period()
                .stream_name("s")
                .retention_period_hours(9000)
                .send()
                .await
        ),
        "InvalidArgumentException"
    );
    k.add_tags_to_stream()
        .stream_name("s")
        .tags("a", "1")
        .tags("b", "2")
        .send()
        .await
        .expect("tagged");
    k.remove_tags_from_stream()
        .stream_name("s")
        .tag_keys("a")
        .send()
        .await
        .expect("untagged");
    let tags = k
        .list_tags_for_stream()
        .stream_name("s")
        .send()
        .await
        .expect("listed");
    assert_eq!(
        (
            tags.tags.len(),
            tags.tags[0].key.as_str(),
            tags.has_more_tags
        ),
        (1, "b", false)
    );
    k.enable_enhanced_monitoring()
        .stream_name("s")
        .shard_level_metrics(MetricsName::IncomingBytes)
        .send()
        .await
        .expect("enabled");
    k.start_stream_encryption()
        .stream_name("s")
        .encryption_type(EncryptionType::Kms)
        .key_id("alias/x")
        .send()
        .await
        .expect("started");
    world.put("s", "x", 0).await;

    let summary = k
        .describe_stream_summary()
        .stream_name("s")
        .send()
        .await
        .expect("described")
        .stream_description_summary
        .expect("summary");
    assert_eq!(
        (summary.retention_period_hours, summary.key_id()),
        (48, Some("alias/x"))
    );
    assert_eq!(
        summary.enhanced_monitoring[0].shard_level_metrics(),
        [MetricsName::IncomingBytes]
    );
    let iterator = world
        .iterator("s", &shard(0), ShardIteratorType::TrimHorizon)
        .await;
    assert_eq!(
        world.page(&iterator).await.records[0].encryption_type,
        Some(EncryptionType::Kms)
    );
    let arn = summary.stream_arn;
    k.tag_resource()
        .resource_arn(&arn)
        .tags("c", "3")
        .send()
        .await
        .expect("tagged");
    assert_eq!(
        k.list_tags_for_resource()
            .resource_arn(&arn)
            .send()
            .await
            .expect("listed")
            .tags()
            .len(),
        2
    );
}

#[tokio::test]
async fn shards_are_listed_by_page_and_by_filter() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    world.create("s", 2).await;
    world.advance(1000);
    k.split_shard()
        .stream_name("s")
        .shard_to_split(shard(0))
        .new_starting_hash_key("5")
        .send()
        .await
        .expect("split");
    world.advance(1000);
    k.merge_shards()
        .stream_name("s")
        .shard_to_merge(shard(3))
        .adjacent_shard_to_merge(shard(1))
        .send()
        .await
        .expect("merged");
    world.advance(1000);

    let mut seen = Vec::new();
    let mut page = k
        .list_shards()
        .stream_name("s")
        .max_results(2)
        .send()
        .await
        .expect("listed");
    loop {
        seen.extend(page.shards().iter().map(|s| s.shard_id.clone()));
        let Some(token) = page.next_token else { break };
        page = k
            .list_shards()
            .next_token(token)
            .max_results(2)
            .send()
            .await
            .expect("listed");
    }
    assert_eq!(seen, (0..5).map(shard).collect::<Vec<_>>());
    let token = k
        .list_shards()
        .stream_name("s")
        .max_results(2)
        .send()
        .await
        .expect("listed")
        .next_token
        .expect("more");
    assert_eq!(
        code(
            k.list_shards()
                .stream_name("s")
                .next_token(&token)
                .send()
                .await
        ),
        "InvalidArgumentException"
    );
    world.advance(300_001);
    assert_eq!(
        code(k.list_shards().next_token(&token).send().await),
        "ExpiredNextTokenException"
    );
    let after = k
        .list_shards()
        .stream_name("s")
        .exclusive_start_shard_id(shard(2))
        .send()
        .await
        .expect("listed");
    assert_eq!(after.shards().len(), 2);

    let filter = |kind| ShardFilter::builder().r#type(kind);
    let at = |millis| DateTime::from_millis(T0 + millis);
    let cases = [
        (filter(ShardFilterType::AtLatest), vec![2, 4]),
        (filter(ShardFilterType::AtTrimHorizon), vec![0, 1]),
        (
            filter(ShardFilterType::FromTrimHorizon),
            vec![0, 1, 2, 3, 4],
        ),
        (
            filter(ShardFilterType::AfterShardId).shard_id(shard(2)),
            vec![3, 4],
        ),
        (
            filter(ShardFilterType::AtTimestamp).timestamp(at(500)),
            vec![0, 1],
        ),
        (
            filter(ShardFilterType::AtTimestamp).timestamp(at(1500)),
            vec![1, 2, 3],
        ),
        (
            filter(ShardFilterType::FromTimestamp).timestamp(at(1500)),
            vec![1, 2, 3, 4],
        ),
        (
            filter(ShardFilterType::FromTimestamp).timestamp(at(2500)),
            vec![2, 4],
        ),
    ];
    for (filter, expect) in cases {
        let filter = filter.build().expect("complete");
        let listed = k
            .list_shards()
            .stream_name("s")
            .shard_filter(filter.clone())
            .send()
            .await
            .expect("listed");
        let ids: Vec<_> = listed.shards().iter().map(|s| s.shard_id.clone()).collect();
        assert_eq!(
            ids,
            expect.into_iter().map(shard).collect::<Vec<_>>(),
            "{filter:?}"
        );
    }
    let no_time = filter(ShardFilterType::AtTimestamp)
        .build()
        .expect("complete");
    assert_eq!(
        code(
            k.list_shards()
                .stream_name("s")
                .shard_filter(no_time)
                .send()
                .await
        ),
        "InvalidArgumentException"
    );
}

#[tokio::test]
async fn records_are_placed_numbered_and_limited() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    world.create("s", 2).await;
    world.create("t", 1).await;
    let mut last = String::new();
    for hash_key in [0, HALF - 1] {
        let (at, number) = world.put("s", "x", hash_key).await;
        assert_eq!((at, number.len()), (shard(0), 56));
        assert!(number > last);
        last = number;
    }
    assert_eq!(world.put("s", "x", HALF).await.0, shard(1));
    assert_eq!(world.put("s", "x", u128::MAX).await.0, shard(1));
    let bad_key = k
        .put_record()
        .stream_name("s")
        .partition_key("k")
        .explicit_hash_key("340282366920938463463374607431768211456");
    assert_eq!(
        code(bad_key.data(Blob::new("x")).send().await),
        "InvalidArgumentException"
    );

    let entry = |data: Vec<u8>| {
        PutRecordsRequestEntry::builder()
            .partition_key("k")
            .explicit_hash_key("0")
            .data(Blob::new(data))
            .build()
            .expect("complete")
    };
    let numbered: Vec<_> = (0..500)
        .map(|i: i32| entry(i.to_string().into_bytes()))
        .collect();
    let put = k
        .put_records()
        .stream_name("t")
        .set_records(Some(numbered))
        .send()
        .await
        .expect("put");
    assert_eq!((put.failed_record_count, put.records.len()), (Some(0), 500));
    assert!(put.records.is_sorted_by_key(|r| r.sequence_number.clone()));
    assert_eq!(
        world.drain("t", &shard(0)).await.0,
        (0..500).map(|i: i32| i.to_string()).collect::<Vec<_>>()
    );

    let refused = |records: Vec<PutRecordsRequestEntry>| {
        k.put_records()
            .stream_name("t")
            .set_records(Some(records))
            .send()
    };
    assert_eq!(
        code(refused(vec![entry(vec![0]); 501]).await),
        "ValidationException"
    );
    assert_eq!(
        code(refused(vec![entry(vec![0; (1 << 20) + 1])]).await),
        "ValidationException"
    );
    assert_eq!(
        code(refused(vec![entry(vec![0; 1 << 20])]).await),
        "ValidationException",
        "no room for the key"
    );
    assert_eq!(
        code(refused(vec![entry(vec![0; (1 << 20) - 1]); 11]).await),
        "InvalidArgumentException",
        "more than 10 MiB"
    );
    let single = k
        .put_record()
        .stream_name("s")
        .partition_key("k")
        .data(Blob::new(vec![0; (1 << 20) + 1]));
    assert_eq!(code(single.send().await), "ValidationException");
    assert_eq!(
        world.drain("s", &shard(0)).await.0.len(),
        2,
        "the streams are apart"
    );
}

#[tokio::test]
async fn iterators_start_where_they_say() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    world.create("s", 2).await;
    let mut numbers = Vec::new();
    for data in ["r0", "r1", "r2", "r3"] {
        numbers.push(world.put("s", data, 0).await.1);
        world.advance(100);
    }
    let other = world.put("s", "other", u128::MAX).await.1;
    let get = || k.get_shard_iterator().stream_name("s").shard_id(shard(0));
    let at = |millis| DateTime::from_millis(T0 + millis);
    let cases = [
        (
            get().shard_iterator_type(ShardIteratorType::TrimHorizon),
            &["r0", "r1", "r2", "r3"][..],
        ),
        (get().shard_iterator_type(ShardIteratorType::Latest), &[]),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AtSequenceNumber)
                .starting_sequence_number(&numbers[1]),
            &["r1", "r2", "r3"],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AfterSequenceNumber)
                .starting_sequence_number(&numbers[1]),
            &["r2", "r3"],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AfterSequenceNumber)
                .starting_sequence_number(&numbers[3]),
            &[],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AtTimestamp)
                .timestamp(at(100)),
            &["r1", "r2", "r3"],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AtTimestamp)
                .timestamp(at(101)),
            &["r2", "r3"],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AtTimestamp)
                .timestamp(at(400)),
            &[],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AtTimestamp)
                .timestamp(DateTime::from_millis(0)),
            &["r0", "r1", "r2", "r3"],
        ),
    ];
    let mut open = Vec::new();
    for (request, expect) in cases {
        let iterator = request
            .send()
            .await
            .expect("iterator")
            .shard_iterator
            .expect("iterator");
        let page = world.page(&iterator).await;
        assert_eq!(payloads(&page.records), expect);
        assert_eq!(page.millis_behind_latest, Some(0));
        open.push(page.next_shard_iterator.expect("open shard"));
    }
    world.put("s", "new", 0).await;
    for iterator in open {
        assert_eq!(payloads(&world.page(&iterator).await.records), ["new"]);
    }
    let page = world
        .page(
            &world
                .iterator("s", &shard(0), ShardIteratorType::TrimHorizon)
                .await,
        )
        .await;
    assert_eq!(
        millis(page.records[1].approximate_arrival_timestamp.as_ref()),
        T0 + 100,
        "arrival in milliseconds"
    );
    assert_eq!(
        (
            page.records[1].sequence_number.as_str(),
            page.records[1].partition_key.as_deref()
        ),
        (numbers[1].as_str(), Some("k"))
    );

    let by_number = |number: &str| {
        get()
            .shard_iterator_type(ShardIteratorType::AtSequenceNumber)
            .starting_sequence_number(number)
            .send()
    };
    assert_eq!(
        code(by_number(&other).await),
        "InvalidArgumentException",
        "a number of another shard"
    );
    assert_eq!(code(by_number("12345").await), "InvalidArgumentException");
    assert_eq!(
        code(
            get()
                .shard_iterator_type(ShardIteratorType::AtSequenceNumber)
                .send()
                .await
        ),
        "InvalidArgumentException",
        "no number"
    );
    let future = get()
        .shard_iterator_type(ShardIteratorType::AtTimestamp)
        .timestamp(at(401));
    assert_eq!(code(future.send().await), "InvalidArgumentException");
    let no_shard = k
        .get_shard_iterator()
        .stream_name("s")
        .shard_id(shard(99))
        .shard_iterator_type(ShardIteratorType::Latest);
    assert_eq!(code(no_shard.send().await), "ResourceNotFoundException");
}

#[tokio::test]
async fn pages_are_limited_and_iterators_expire() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    world.create("big", 1).await;
    for _ in 0..14 {
        let put = k
            .put_record()
            .stream_name("big")
            .partition_key("k")
            .data(Blob::new(vec![7; (1 << 20) - 10]));
        put.send().await.expect("put");
    }
    let iterator = world
        .iterator("big", &shard(0), ShardIteratorType::TrimHorizon)
        .await;
    let first = world.page(&iterator).await;
    assert_eq!(first.records.len(), 10, "10 MiB");
    let second = world.page(&first.next_shard_iterator.expect("more")).await;
    assert_eq!(second.records.len(), 4);

    world.create("many", 1).await;
    let entries = vec![
        PutRecordsRequestEntry::builder()
            .partition_key("k")
            .data(Blob::new("x"))
            .build()
            .expect("complete");
        500
    ];
    for _ in 0..21 {
        k.put_records()
            .stream_name("many")
            .set_records(Some(entries.clone()))
            .send()
            .await
            .expect("put");
    }
    world.advance(1500);
    let iterator = world
        .iterator("many", &shard(0), ShardIteratorType::TrimHorizon)
        .await;
    let few = k
        .get_records()
        .shard_iterator(&iterator)
        .limit(10)
        .send()
        .await
        .expect("read");
    assert_eq!(
        (few.records.len(), few.millis_behind_latest),
        (10, Some(1500))
    );
    assert_eq!(world.page(&iterator).await.records.len(), 10_000);
    assert_eq!(
        code(
            k.get_records()
                .shard_iterator(&iterator)
                .limit(10_001)
                .send()
                .await
        ),
        "ValidationException"
    );
    assert_eq!(
        code(k.get_records().shard_iterator("AAAAgarbage").send().await),
        "InvalidArgumentException"
    );
    world.advance(300_000);
    world.page(&iterator).await;
    world.advance(1);
    assert_eq!(
        code(k.get_records().shard_iterator(&iterator).send().await),
        "ExpiredIteratorException"
    );
}

#[tokio::test]
async fn a_split_ends_its_parent_and_a_merge_both() {
    let world = start(slow()).await;
    let k = &world.kinesis;
    world.create("s", 1).await;
    world.advance(100);
    world.put("s", "before", 0).await;
    let latest = world
        .iterator("s", &shard(0), ShardIteratorType::Latest)
        .await;
    let split = || {
        k.split_shard()
            .stream_name("s")
            .shard_to_split(shard(0))
            .new_starting_hash_key(HALF.to_string())
            .send()
    };
    split().await.expect("begun");
    assert_eq!(status(&world, "s").await, StreamStatus::Updating);
    assert_eq!(code(split().await), "ResourceInUseException");
    let (at, last) = world.put("s", "while updating", 0).await;
    assert_eq!(at, shard(0));
    world.advance(100);
    assert_eq!(status(&world, "s").await, StreamStatus::Active);
    assert_eq!(world.put("s", "after", 0).await.0, shard(1));
    assert_eq!(world.put("s", "after", HALF).await.0, shard(2));

    let described = k
        .describe_stream()
        .stream_name("s")
        .send()
        .await
        .expect("described")
        .stream_description
        .expect("description");
    let range = described.shards[0]
        .sequence_number_range
        .clone()
        .expect("range");
    assert!(range.ending_sequence_number.expect("closed") > last);
    let (all, end) = world.drain("s", &shard(0)).await;
    assert_eq!(
        (all, end.next_shard_iterator()),
        (vec!["before".to_owned(), "while updating".to_owned()], None)
    );
    let children: Vec<_> = end
        .child_shards()
        .iter()
        .map(|c| (c.shard_id.clone(), c.parent_shards.clone()))
        .collect();
    assert_eq!(
        children,
        [(shard(1), vec![shard(0)]), (shard(2), vec![shard(0)])]
    );
    let range = end.child_shards()[1].hash_key_range.clone().expect("range");
    assert_eq!(
        (range.starting_hash_key, range.ending_hash_key),
        (HALF.to_string(), u128::MAX.to_string())
    );
    let from_before = world.page(&latest).await;
    assert_eq!(
        (
            payloads(&from_before.records),
            from_before.next_shard_iterator()
        ),
        (vec!["while updating".to_owned()], None)
    );
    let on_closed = world
        .iterator("s", &shard(0), ShardIteratorType::Latest)
        .await;
    let on_closed = world.page(&on_closed).await;
    assert_eq!(
        (
            on_closed.records.len(),
            on_closed.next_shard_iterator(),
            on_closed.child_shards().len()
        ),
        (0, None, 2)
    );

    world.advance(1000);
    let merge = |a: u32, b: u32| {
        k.merge_shards()
            .stream_name("s")
            .shard_to_merge(shard(a))
            .adjacent_shard_to_merge(shard(b))
            .send()
    };
    merge(1, 2).await.expect("begun");
    world.advance(100);
    for parent in [1, 2] {
        let (all, end) = world.drain("s", &shard(parent)).await;
        assert_eq!(
            (all, end.next_shard_iterator()),
            (vec!["after".to_owned()], None)
        );
        assert_eq!(end.child_shards().len(), 1);
        assert_eq!(end.child_shards()[0].parent_shards, [shard(1), shard(2)]);
    }
    assert_eq!(
        world.family("s").await[&shard(3)],
        (Some(shard(1)), Some(shard(2)), true)
    );
    assert_eq!(
        code(merge(1, 3).await),
        "InvalidArgumentException",
        "shard 1 is closed"
    );
}

#[tokio::test]
async fn the_shard_count_is_updated_by_splits_and_merges() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    world.create("s", 2).await;
    let update = |count| {
        k.update_shard_count()
            .stream_name("s")
            .target_shard_count(count)
            .scaling_type(ScalingType::UniformScaling)
            .send()
    };
    let up = update(4).await.expect("updated");
    assert_eq!(
        (up.current_shard_count, up.target_shard_count),
        (Some(2), Some(4))
    );
    let family = world.family("s").await;
    let parents: Vec<_> = (2..6).map(|i| family[&shard(i)].0.clone()).collect();
    assert_eq!(
        parents,
        [
            Some(shard(0)),
            Some(shard(0)),
            Some(shard(1)),
            Some(shard(1))
        ]
    );
    update(2).await.expect("updated");
    let family = world.family("s").await;
    assert_eq!(family.values().filter(|(_, _, open)| *open).count(), 2);
    assert_eq!(family[&shard(6)], (Some(shard(2)), Some(shard(3)), true));
    assert_eq!(family[&shard(7)], (Some(shard(4)), Some(shard(5)), true));
    assert_eq!(code(update(5).await), "InvalidArgumentException");
    world.create("t", 3).await;
    let strangers = k
        .merge_shards()
        .stream_name("t")
        .shard_to_merge(shard(0))
        .adjacent_shard_to_merge(shard(2));
    assert_eq!(code(strangers.send().await), "InvalidArgumentException");
}

#[tokio::test]
async fn throughput_is_enforced_when_asked_for() {
    let world = start(ModelOptions {
        enforce_throughput: true,
        ..ModelOptions::default()
    })
    .await;
    let k = &world.kinesis;
    world.create("s", 1).await;
    let entries = vec![
        PutRecordsRequestEntry::builder()
            .partition_key("k")
            .data(Blob::new("x"))
            .build()
            .expect("complete");
        500
    ];
    let mut failed = Vec::new();
    for _ in 0..3 {
        let put = k
            .put_records()
            .stream_name("s")
            .set_records(Some(entries.clone()))
            .send()
            .await
            .expect("put");
        failed.push((put.failed_record_count, put.records[499].error_code.clone()));
    }
    let code_499 = Some("ProvisionedThroughputExceededException".to_owned());
    assert_eq!(
        failed,
        [(Some(0), None), (Some(0), None), (Some(500), code_499)]
    );
    let iterator = world
        .iterator("s", &shard(0), ShardIteratorType::TrimHorizon)
        .await;
    for _ in 0..5 {
        world.page(&iterator).await;
    }
    assert_eq!(
        code(k.get_records().shard_iterator(&iterator).send().await),
        "ProvisionedThroughputExceededException"
    );
    world.advance(1000);
    world.page(&iterator).await;
}

#[tokio::test]
async fn a_taken_port_is_named_and_a_stopped_one_is_free() {
    let world = start(ModelOptions::default()).await;
    let address: std::net::SocketAddr = world
        .aws
        .kinesis_url()
        .trim_start_matches("http://")
        .parse()
        .expect("address");
    let options = || LocalOptions {
        kinesis: address,
        ..LocalOptions::default()
    };
    let error = LocalAws::start(options())
        .await
        .expect_err("the port is taken");
    assert!(
        matches!(&error, StartError::Listen { service: "Kinesis", address: a, .. } if *a == address),
        "{error}"
    );
    world.aws.shutdown().await;
    LocalAws::start(options())
        .await
        .expect("the port is free again")
        .shutdown()
        .await;
}

#[tokio::test]
async fn the_model_is_shared_with_the_same_process() {
    use shardkeeper::local::model::{CreateStream, PutEntry};
    let world = start(ModelOptions::default()).await;
    let now = world.now();
    let kinesis = world.aws.kinesis();
    kinesis
        .lock()
        .create_stream(CreateStream::provisioned("s", 1), now)
        .expect("created");
    kinesis
        .lock()
        .put_record("s", &PutEntry::new("k", "in process"), now)
        .expect("put");
    assert_eq!(world.drain("s", &shard(0)).await.0, ["in process"]);
}
