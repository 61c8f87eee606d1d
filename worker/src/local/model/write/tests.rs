use super::super::testing::{SHARD_0, T0, put, with_stream};
use super::*;

fn code(kinesis: &mut Kinesis, entry: &PutEntry) -> std::result::Result<String, Code> {
    kinesis
        .put_record("s", entry, T0)
        .map(|p| p.shard_id)
        .map_err(|e| e.code)
}

#[test]
fn records_go_where_their_hash_key_leads() {
    let mut kinesis = with_stream(2, ModelOptions::default());
    let by_key = |key: &str| PutEntry::new(key, "x");
    let at = |text: &str| PutEntry {
        explicit_hash_key: Some(text.to_owned()),
        ..by_key("k")
    };
    // MD5("a") begins with 0c, MD5("b") with 92.
    let cases = [
        (by_key("a"), Ok(0)),
        (by_key("b"), Ok(1)),
        (at("0"), Ok(0)),
        (at("170141183460469231731687303715884105727"), Ok(0)),
        (at("170141183460469231731687303715884105728"), Ok(1)),
        (at("340282366920938463463374607431768211455"), Ok(1)),
        (
            at("340282366920938463463374607431768211456"),
            Err(Code::InvalidArgument),
        ),
        (at("00"), Err(Code::InvalidArgument)),
        (at("-1"), Err(Code::InvalidArgument)),
        (at("+1"), Err(Code::InvalidArgument)),
        (at(""), Err(Code::InvalidArgument)),
    ];
    for (entry, expect) in cases {
        assert_eq!(
            code(&mut kinesis, &entry),
            expect.map(shard_id),
            "{entry:?}"
        );
    }
}

#[test]
fn sizes_are_limited() {
    let mut kinesis = with_stream(1, ModelOptions::default());
    let sized = |key: usize, data: usize| PutEntry::new("ы".repeat(key), vec![0; data]);
    let mib = 1 << 20;
    let cases = [
        (sized(0, 1), Err(Code::Validation)),
        (sized(256, 1), Ok(SHARD_0.to_owned())),
        (sized(257, 1), Err(Code::Validation)),
        (sized(1, mib - 2), Ok(SHARD_0.to_owned())),
        (sized(1, mib - 1), Err(Code::Validation)),
    ];
    for (entry, expect) in cases {
        assert_eq!(
            code(&mut kinesis, &entry),
            expect,
            "{} characters, {} bytes",
            entry.partition_key.len(),
            entry.data.len()
        );
    }
    kinesis
        .update_max_record_size("s", 2048, T0)
        .expect("updated");
    assert_eq!(
        code(&mut kinesis, &sized(1, mib - 1)),
        Ok(SHARD_0.to_owned())
    );

    let call = |k: &mut Kinesis, n: usize, size: usize| {
        k.put_records("s", &vec![sized(1, size); n], T0)
            .map(|r| r.len())
            .map_err(|e| e.code)
    };
    assert_eq!(call(&mut kinesis, 0, 1), Err(Code::Validation));
    assert_eq!(call(&mut kinesis, 500, 1), Ok(500));
    assert_eq!(call(&mut kinesis, 501, 1), Err(Code::Validation));
    assert_eq!(call(&mut kinesis, 10, mib - 2), Ok(10));
    assert_eq!(call(&mut kinesis, 11, mib - 2), Err(Code::InvalidArgument));
}

#[test]
fn numbers_rise_in_the_order_of_the_call() {
    let mut kinesis = with_stream(1, ModelOptions::default());
    let first = put(&mut kinesis, "x", T0 + 5_000);
    // The clock of the host may step back; numbers and arrival times do not.
    let results = kinesis
        .put_records("s", &vec![PutEntry::new("k", "x"); 3], T0)
        .expect("put");
    let mut numbers = vec![first];
    numbers.extend(
        results
            .into_iter()
            .map(|r| r.expect("placed").sequence_number.to_string()),
    );
    assert!(
        numbers.is_sorted() && numbers.iter().all(|n| n.len() == 56),
        "{numbers:?}"
    );
}

#[test]
fn streams_not_there_take_nothing() {
    let mut kinesis = with_stream(
        1,
        ModelOptions {
            create_ms: 5,
            ..ModelOptions::default()
        },
    );
    assert_eq!(
        code(&mut kinesis, &PutEntry::new("k", "x")),
        Err(Code::ResourceNotFound),
        "still CREATING"
    );
    assert_eq!(
        kinesis
            .put_record("x", &PutEntry::new("k", "x"), T0 + 5)
            .map_err(|e| e.code),
        Err(Code::ResourceNotFound)
    );
}

#[test]
fn a_shard_over_its_rate_refuses_single_records() {
    let mut kinesis = with_stream(
        2,
        ModelOptions {
            enforce_throughput: true,
            ..ModelOptions::default()
        },
    );
    let half = PutEntry::new("k", vec![0; 600_000]).at(0);
    let other = PutEntry::new("k", "x").at(u128::MAX);
    let results = kinesis
        .put_records("s", &[half.clone(), half.clone(), other, half.clone()], T0)
        .expect("accepted");
    let refused: Vec<bool> = results
        .iter()
        .map(|r| {
            r.as_ref()
                .is_err_and(|e| e.code == Code::ProvisionedThroughputExceeded)
        })
        .collect();
    assert_eq!(refused, [false, true, false, true]);
    assert_eq!(
        kinesis.put_record("s", &half, T0 + 999).map_err(|e| e.code),
        Err(Code::ProvisionedThroughputExceeded)
    );
    assert!(kinesis.put_record("s", &half, T0 + 1000).is_ok());
    for call in 0..2 {
        let small = vec![PutEntry::new("k", "x").at(u128::MAX); 500];
        let results = kinesis
            .put_records("s", &small, T0 + 3000)
            .expect("accepted");
        assert_eq!(
            results.iter().filter(|r| r.is_err()).count(),
            0,
            "call {call}"
        );
    }
    let one_more = PutEntry::new("k", "x").at(u128::MAX);
    assert_eq!(
        kinesis
            .put_record("s", &one_more, T0 + 3001)
            .map_err(|e| e.code),
        Err(Code::ProvisionedThroughputExceeded)
    );
}
