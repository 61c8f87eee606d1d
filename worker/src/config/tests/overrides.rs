//! Environment and `--set`.

use std::time::Duration;

use super::{ByteSize, SMALLEST, Start, errors_of, external_id, parse};

#[test]
fn set_wins_over_environment_over_file() {
    let text = format!("{SMALLEST}[lease]\nfailover = \"11s\"\n[checkpoint]\nevery = \"1s\"\n");
    let env = [
        ("SHARDKEEPER__LEASE__FAILOVER", "12s"),
        ("SHARDKEEPER__CHECKPOINT__EVERY", "2s"),
        ("SHARDKEEPER__DELIVERY__BATCH__RECORDS", "9"),
        ("SHARDKEEPER_SERVICE_HOST", "10.0.0.1"),
        ("PATH", "/bin"),
    ];
    let config = parse(&text, &env, &["lease.failover=13s", "lease.failover=14s"]).unwrap();
    assert_eq!(config.lease.failover, Duration::from_secs(14));
    assert_eq!(config.checkpoint.every, Duration::from_secs(2));
    assert_eq!(config.delivery.batch.records, 9);
    assert_eq!(
        config.delivery.batch.bytes,
        ByteSize::mib(4),
        "the rest of the table stays"
    );
}

#[test]
fn overrides_reach_streams_by_index_and_can_add_them() {
    let env = [
        ("SHARDKEEPER__STREAM__10__NAME", "s10"),
        ("SHARDKEEPER__STREAM__1__NAME", "payments"),
        ("SHARDKEEPER__STREAM__0__ENDPOINT", "http://localhost:4566"),
    ];
    let lines = errors_of(SMALLEST, &env, &[]);
    let expected = "environment SHARDKEEPER__STREAM__10__NAME: stream.10.name: \"10\" is no stream; streams go by index, \
                    and the next to add is 2";
    assert_eq!(lines, [expected]);
    let config = parse(
        SMALLEST,
        &env[1..],
        &["stream.1.start=2026-01-01T00:00:00Z"],
    )
    .unwrap();
    assert_eq!(
        config.streams[0].access.endpoint.as_ref().unwrap().as_str(),
        "http://localhost:4566"
    );
    assert_eq!(config.streams[1].name.as_str(), "payments");
    assert_eq!(
        config.streams[1].start,
        Start::AtTimestamp(1_767_225_600_000)
    );
    let by_env_alone = [
        ("SHARDKEEPER__APP__NAME", "abc"),
        ("SHARDKEEPER__STREAM__0__NAME", "orders"),
    ];
    assert!(parse("", &by_env_alone, &[]).is_ok());
}

#[test]
fn an_override_is_text_where_text_is_wanted() {
    let sets = [
        "app.name=2026",
        "lease.role_arn=arn:aws:iam::123456789012:role/x",
        "lease.external_id=0012345",
    ];
    let config = parse(SMALLEST, &[], &sets).unwrap();
    assert_eq!(config.app.name.as_str(), "2026");
    assert_eq!(external_id(&config), "0012345");
}

#[test]
fn an_override_that_fits_nowhere_is_named() {
    let cases = [
        (
            "lease",
            "--set lease: names no key; write e.g. --set lease.failover=5s",
        ),
        (
            "=5",
            "--set : names no key; write e.g. --set lease.failover=5s",
        ),
        (
            "lease.failover",
            "--set lease.failover: has no value; write e.g. --set lease.failover=5s",
        ),
        (
            "lease..failover=5s",
            "--set lease..failover: names no key; write e.g. --set lease.failover=5s",
        ),
        (
            "stream.0=x",
            "--set stream.0: stream.0: names no key; write e.g. stream.0.endpoint",
        ),
        (
            "stream.orders.start=latest",
            "--set stream.orders.start: stream.orders.start: \"orders\" is no stream; streams go by index, and the next to add is 1",
        ),
        (
            "app.name.x=1",
            "--set app.name.x: app.name.x: \"name\" is a string, not a table",
        ),
        (
            "shutdown.deadlin=1s",
            "--set shutdown.deadlin: shutdown.deadlin: unknown key; did you mean \"deadline\"? allowed here: deadline",
        ),
    ];
    for (set, expected) in cases {
        assert_eq!(errors_of(SMALLEST, &[], &[set]), [expected]);
    }
    let deep = format!("{}x=1", "a.".repeat(100_000));
    assert_eq!(
        parse(SMALLEST, &[], &[&deep]).unwrap_err().iter().count(),
        1
    );
}
