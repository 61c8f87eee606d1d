use super::super::StartingPosition::{
    AfterSequenceNumber, AtSequenceNumber, AtTimestamp, Latest, TrimHorizon,
};
use super::super::testing::{SHARD_0, T0, payloads, put, read, with_stream};
use super::super::{CreateStream, ModelOptions, PutEntry, shard::shard_id};
use super::*;

#[test]
fn iterators_are_opaque_and_expire() {
    let mut kinesis = with_stream(1, ModelOptions::default());
    let iterator = kinesis
        .get_shard_iterator("s", SHARD_0, &TrimHorizon, T0)
        .expect("iterator");
    assert_eq!(iterator.to_string().parse(), Ok(iterator.clone()));
    assert_eq!(
        "AAAAgarbage".parse::<ShardIterator>().map_err(|e| e.code),
        Err(Code::InvalidArgument)
    );
    let code = |k: &mut Kinesis, limit, at| {
        k.get_records(&iterator, limit, at)
            .map(drop)
            .map_err(|e| e.code)
    };
    assert_eq!(code(&mut kinesis, Some(0), T0), Err(Code::Validation));
    assert_eq!(code(&mut kinesis, Some(10_001), T0), Err(Code::Validation));
    assert_eq!(code(&mut kinesis, Some(10_000), T0 + 300_000), Ok(()));
    assert_eq!(
        code(&mut kinesis, None, T0 + 300_001),
        Err(Code::ExpiredIterator)
    );
    kinesis.delete_stream("s", false, T0).expect("deleted");
    assert_eq!(code(&mut kinesis, None, T0), Err(Code::ResourceNotFound));
    kinesis
        .create_stream(CreateStream::provisioned("s", 1), T0)
        .expect("created");
    assert_eq!(
        code(&mut kinesis, None, T0),
        Err(Code::ResourceNotFound),
        "another stream of the same name"
    );
}

#[test]
fn lag_is_that_of_the_last_record_while_more_remain() {
    let mut kinesis = with_stream(
        1,
        ModelOptions {
            empty_page_every: 3,
            ..ModelOptions::default()
        },
    );
    (0..3).for_each(|i| drop(put(&mut kinesis, "x", T0 + 100 * i)));
    let mut iterator = kinesis
        .get_shard_iterator("s", SHARD_0, &TrimHorizon, T0 + 200)
        .expect("iterator");
    // The third call is an empty page though a record remains.
    for (now, expect) in [
        (T0 + 1000, (1, 1000)),
        (T0 + 100, (1, 1)),
        (T0 + 1000, (0, 800)),
        (T0 + 1000, (1, 0)),
        (T0 + 2000, (0, 0)),
    ] {
        let page = kinesis.get_records(&iterator, Some(1), now).expect("read");
        assert_eq!((page.records.len(), page.millis_behind_latest), expect);
        iterator = page.next.expect("open shard");
    }
}

/// The records `a` to `c`, then a split into halves; the number of the last record.
fn split_after_three() -> (Kinesis, String) {
    let mut kinesis = with_stream(1, ModelOptions::default());
    let [_, _, last] = ["a", "b", "c"].map(|data| put(&mut kinesis, data, T0));
    kinesis
        .split_shard("s", SHARD_0, 1 << 127, T0)
        .expect("split");
    (kinesis, last)
}

#[test]
fn a_closed_shard_ends_with_its_last_record() {
    let (mut kinesis, _) = split_after_three();
    let first = kinesis
        .get_shard_iterator("s", SHARD_0, &TrimHorizon, T0)
        .expect("iterator");
    let page = kinesis.get_records(&first, Some(2), T0).expect("read");
    assert!(page.child_shards.is_empty(), "a record remains");
    let end = kinesis
        .get_records(&page.next.expect("a record remains"), Some(2), T0)
        .expect("read");
    assert_eq!(
        (
            payloads(&end.records),
            end.next.is_none(),
            end.millis_behind_latest
        ),
        (vec!["c".to_owned()], true, 0)
    );
    let children: Vec<_> = end
        .child_shards
        .iter()
        .map(|c| {
            (
                c.shard_id.clone(),
                c.parents.clone(),
                c.starting_hash_key,
                c.ending_hash_key,
            )
        })
        .collect();
    let parents = vec![SHARD_0.to_owned()];
    assert_eq!(
        children,
        [
            (shard_id(1), parents.clone(), 0, (1 << 127) - 1),
            (shard_id(2), parents, 1 << 127, u128::MAX)
        ]
    );
}

#[test]
fn behind_the_last_record_of_a_closed_shard_is_only_its_end() {
    let (mut kinesis, last) = split_after_three();
    let ending = kinesis
        .describe_stream("s", None, 1, T0)
        .expect("described")
        .shards[0]
        .ending_sequence
        .expect("closed")
        .to_string();
    assert!(ending > last);
    for position in [
        Latest,
        AfterSequenceNumber(last),
        AtSequenceNumber(ending.clone()),
        AfterSequenceNumber(ending),
        AtTimestamp(T0 + 1),
    ] {
        let end = read(&mut kinesis, SHARD_0, &position, T0 + 1).expect("read");
        assert_eq!(
            (
                end.records.len(),
                end.next.is_none(),
                end.child_shards.len()
            ),
            (0, true, 2),
            "{position:?}"
        );
    }
}

#[test]
fn an_iterator_from_before_the_split_ends_too() {
    let mut kinesis = with_stream(1, ModelOptions::default());
    put(&mut kinesis, "a", T0);
    let latest = kinesis
        .get_shard_iterator("s", SHARD_0, &Latest, T0)
        .expect("iterator");
    kinesis
        .split_shard("s", SHARD_0, 1 << 127, T0)
        .expect("split");
    let end = kinesis.get_records(&latest, None, T0).expect("read");
    assert!(end.next.is_none());
}

#[test]
fn a_merged_shard_names_both_parents_at_its_end() {
    let (mut kinesis, _) = split_after_three();
    kinesis
        .merge_shards("s", &shard_id(1), &shard_id(2), T0)
        .expect("merged");
    let end = read(&mut kinesis, &shard_id(2), &TrimHorizon, T0).expect("read");
    assert_eq!(end.child_shards.len(), 1);
    assert_eq!(end.child_shards[0].parents, [shard_id(1), shard_id(2)]);
}

#[test]
fn retention_takes_records_and_then_closed_shards() {
    let day = 24 * 3_600_000;
    let mut kinesis = with_stream(1, ModelOptions::default());
    let old = put(&mut kinesis, "old", T0);
    put(&mut kinesis, "young", T0 + 1000);
    kinesis
        .split_shard("s", SHARD_0, 5, T0 + 2000)
        .expect("split");
    let at = |k: &mut Kinesis, now| {
        read(k, SHARD_0, &AtSequenceNumber(old.clone()), now)
            .map(|p| payloads(&p.records))
            .map_err(|e| e.code)
    };
    assert_eq!(
        at(&mut kinesis, T0 + day),
        Ok(vec!["old".into(), "young".into()])
    );
    assert_eq!(at(&mut kinesis, T0 + day + 1), Ok(vec!["young".into()]));
    assert_eq!(at(&mut kinesis, T0 + day + 2000), Ok(vec![]));
    assert_eq!(
        at(&mut kinesis, T0 + day + 2001),
        Err(Code::ResourceNotFound)
    );
}

#[test]
fn reads_are_limited_per_shard_when_enforced() {
    let mut kinesis = with_stream(
        1,
        ModelOptions {
            enforce_throughput: true,
            page_bytes: 10 << 20,
            ..ModelOptions::default()
        },
    );
    let iterator = kinesis
        .get_shard_iterator("s", SHARD_0, &TrimHorizon, T0)
        .expect("iterator");
    let call = |k: &mut Kinesis, at| {
        k.get_records(&iterator, None, at)
            .map(|p| p.records.len())
            .map_err(|e| e.code)
    };
    let throttled = Err(Code::ProvisionedThroughputExceeded);
    let calls: Vec<_> = (0..6).map(|i| call(&mut kinesis, T0 + i)).collect();
    assert_eq!(calls, [Ok(0), Ok(0), Ok(0), Ok(0), Ok(0), throttled]);
    // One record of 1 MB each second, then a page of 10 of them at once.
    for i in 1..=10 {
        kinesis
            .put_record(
                "s",
                &PutEntry::new("k", vec![0; 1 << 20][1..].to_vec()),
                T0 + 1000 * i,
            )
            .expect("put");
    }
    let page_at = T0 + 60_000;
    assert_eq!(call(&mut kinesis, page_at), Ok(10));
    assert_eq!(call(&mut kinesis, page_at + 4_999), throttled);
    assert_eq!(call(&mut kinesis, page_at + 5_000), Ok(10));
}
