//! Case tables for every rule; the documents held against the code; files mutated at random.

mod documents;
mod mutated;
mod overrides;
mod refused;

use std::time::Duration;

use super::*;

const EXAMPLE: &str = include_str!("../../../deploy/worker.toml");

/// Five lines; what a case appends begins at line 6.
const SMALLEST: &str = "[app]\nname = \"orders-enricher\"\n\n[[stream]]\nname = \"orders\"\n";

fn parse(text: &str, env: &[(&str, &str)], sets: &[&str]) -> Result<Config, ConfigErrors> {
    let env = env
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()));
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    Config::parse(text, "worker.toml", env, &sets)
}

fn accept(appended: &str) -> Config {
    let text = format!("{SMALLEST}{appended}");
    parse(&text, &[], &[]).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

fn errors_of(text: &str, env: &[(&str, &str)], sets: &[&str]) -> Vec<String> {
    let errors = parse(text, env, sets).expect_err(text);
    errors.to_string().lines().map(str::to_owned).collect()
}

/// The external id of the role that the lease table is reached with.
fn external_id(config: &Config) -> &str {
    let role = config.lease.access.role.as_ref().unwrap();
    role.external_id.as_ref().unwrap().as_str()
}

#[test]
fn five_lines_are_enough_and_mean_the_defaults() {
    let config = parse(SMALLEST, &[], &[]).unwrap();
    assert_eq!(config.app.worker_id, None);
    assert_eq!(config.lease.table.as_str(), "orders-enricher");
    assert_eq!(config.lease.failover, Duration::from_secs(10));
    assert_eq!(config.lease.max_leases, None);
    assert_eq!(config.lease.billing, Billing::OnDemand);
    assert!(config.lease.create && !config.lease.deletion_protection);
    assert_eq!(config.checkpoint.every, Duration::from_secs(5));
    let [stream] = config.streams.as_slice() else {
        panic!("one stream")
    };
    assert_eq!(
        (stream.name.as_str(), stream.start),
        ("orders", Start::TrimHorizon)
    );
    assert_eq!(stream.access, Access::default());
    assert_eq!(stream.page_records, 10_000);
    assert_eq!(config.delivery.buffer, ByteSize::mib(256));
    assert_eq!(config.delivery.batch.records, 500);
    assert_eq!(config.delivery.batch.bytes.get(), 4_194_304);
    assert_eq!(
        config.handler,
        Handler::Sink {
            sink: Sink::Stdout,
            payload: Payload::Text
        }
    );
    assert_eq!(config.admin.listen, Some("127.0.0.1:9090".parse().unwrap()));
    assert_eq!(config.shutdown.deadline, Duration::from_secs(25));
    assert_eq!(
        config.log,
        Log {
            format: LogFormat::Text,
            level: "info".to_owned()
        }
    );
}

#[test]
fn what_is_missing_altogether_is_named() {
    let nothing = errors_of("", &[], &[]);
    assert_eq!(
        nothing,
        [
            "worker.toml: app.name: missing; the application needs a name, e.g. name = \"orders-enricher\"",
            "worker.toml: stream: missing; there is nothing to read; add [[stream]] with its name",
        ]
    );
    let empty_list = errors_of("stream = []\n[app]\nname = \"abc\"", &[], &[]);
    assert_eq!(
        empty_list,
        ["worker.toml:1: stream: missing; there is nothing to read; add [[stream]] with its name"]
    );
    let one_bracket = errors_of(
        "[app]\nname = \"abc\"\n[stream]\nname = \"orders\"",
        &[],
        &[],
    );
    let expected = "worker.toml:3: stream: must be a list of tables: write [[stream]] with two brackets, not a table";
    assert_eq!(one_bracket, [expected]);
    let short = errors_of(
        "[app]\nname = \"ab\"\n[[stream]]\nname = \"orders\"",
        &[],
        &[],
    );
    assert_eq!(
        short,
        [
            "worker.toml: lease.table: missing; the application name \"ab\" is too short for a table name (3 letters)"
        ]
    );
}

#[test]
fn all_errors_come_together_in_the_order_of_the_file() {
    let text = "[app]\nname = \"a b\"\n[[stream]]\nname = \"orders\"\nstrat = \"latest\"\n[lease]\nfailover = \"0s\"\n";
    let lines = errors_of(
        text,
        &[("SHARDKEEPER__LOG__LEVEL", "loud")],
        &["admin.listen=x", "nokey"],
    );
    let starts: Vec<&str> = lines
        .iter()
        .map(|line| line.split(": ").next().unwrap())
        .collect();
    let expected = [
        "worker.toml:2",
        "worker.toml:5",
        "worker.toml:7",
        "environment SHARDKEEPER__LOG__LEVEL",
        "--set admin.listen",
        "--set nokey",
    ];
    assert_eq!(starts, expected, "{lines:#?}");
}

#[test]
fn an_error_is_one_line_whatever_the_value_holds() {
    let lines = errors_of(
        "[app]\nname = \"a\\nb\\u001b[2J\"\n[[stream]]\nname = \"orders\"",
        &[],
        &[],
    );
    let [line] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    assert!(
        line.contains("\"a\u{fffd}b\u{fffd}[2J\" is no application name"),
        "{line}"
    );
}

#[test]
fn a_wrong_value_is_not_compared_with_others() {
    let lines = errors_of(
        &format!("{SMALLEST}[delivery]\nbuffer = \"x\"\nbatch = {{ bytes = \"1GiB\" }}"),
        &[],
        &[],
    );
    assert_eq!(lines.len(), 1, "{lines:#?}");
}

#[test]
fn a_worker_id_that_could_be_another_row_is_refused() {
    for id in [
        "shardId-000000000001",
        "SHARDID-1",
        "Leader",
        "Migration3.0",
        "TableMigration3.5",
        "a:b",
        "",
        "-a",
        "a b",
    ] {
        let lines = errors_of(SMALLEST, &[], &[&format!("app.worker_id=\"{id}\"")]);
        assert!(
            lines[0].starts_with("--set app.worker_id: app.worker_id: "),
            "{lines:?}"
        );
    }
    let stream = errors_of(SMALLEST, &[], &["app.worker_id=orders"]);
    let expected = "--set app.worker_id: app.worker_id: is also a stream's name; both can be keys of the lease table, so they must differ";
    assert_eq!(stream, [expected]);
    let id = parse(SMALLEST, &[], &["app.worker_id=ip-10-0-0-1.eu@7"])
        .unwrap()
        .app
        .worker_id;
    assert_eq!(id, Some(WorkerId::new("ip-10-0-0-1.eu@7").unwrap()));
}

#[test]
fn instants_are_read_with_their_offset() {
    for start in [
        "2026-01-01T00:00:00Z",
        "\"2026-01-01T00:00:00Z\"",
        "2026-01-01T02:00:00+02:00",
        "2026-01-01 00:00:00.000Z",
    ] {
        let config = accept(&format!("start = {start}"));
        assert_eq!(
            config.streams[0].start,
            Start::AtTimestamp(1_767_225_600_000),
            "{start}"
        );
    }
    assert_eq!(accept("start = \"latest\"").streams[0].start, Start::Latest);
    let millis = accept("start = 1970-01-01T00:00:01.234Z").streams[0].start;
    assert_eq!(millis, Start::AtTimestamp(1_234));
}

#[test]
fn the_first_region_in_the_file_serves_what_names_none_and_streams_come_first() {
    assert_eq!(accept("").default_region(), None);
    let table = accept("[lease]\nregion = \"eu-west-1\"");
    assert_eq!(
        table.default_region().map(|it| it.as_str()),
        Some("eu-west-1")
    );
    let both = accept("region = \"eu-north-1\"\n[lease]\nregion = \"eu-west-1\"");
    assert_eq!(
        both.default_region().map(|it| it.as_str()),
        Some("eu-north-1")
    );
}

#[test]
fn an_arn_names_stream_and_region() {
    let text = SMALLEST.replace(
        "name = \"orders\"\n",
        "arn = \"arn:aws-cn:kinesis:cn-north-1:123456789012:stream/orders\"\n",
    );
    let stream = &parse(&text, &[], &[]).unwrap().streams[0];
    assert_eq!(stream.name.as_str(), "orders");
    assert_eq!(
        stream.access.region,
        Some(Region::new("cn-north-1").unwrap())
    );
    assert_eq!(stream.arn.as_ref().unwrap().account(), "123456789012");
}

#[test]
fn values_of_every_kind_are_read() {
    let config = accept(
        "[lease]\nbilling = { read = 3, write = 4 }\nmax_leases = 7\ntags = { Team = \"data\", \"cost centre\" = \"\" }\n\
         role_arn = \"arn:aws-us-gov:iam::123456789012:role/path/x\"\nexternal_id = \"a:1\"\n\
         [delivery]\nbuffer = 20971520\nbatch = { records = 1, bytes = \"64KiB\", wait = \"1h\" }\nstuck_after = \"1d\"\n\
         [handler]\nsink = \"jsonl\"\npath = \"out/{worker}-{pid}-{worker}\"\npayload = \"base64\"\n[admin]\nlisten = \"off\"\n\
         [log]\nlevel = \"warn,shardkeeper::consumer=trace\"\nformat = \"json\"",
    );
    let units = |units| std::num::NonZeroU32::new(units).unwrap();
    assert_eq!(
        config.lease.billing,
        Billing::Provisioned {
            read: units(3),
            write: units(4)
        }
    );
    assert_eq!(config.lease.max_leases, Some(units(7)));
    assert_eq!(config.lease.tags["Team"], "data");
    assert_eq!(external_id(&config), "a:1");
    assert_eq!(config.delivery.buffer, ByteSize::mib(20));
    assert_eq!(config.delivery.batch.bytes, ByteSize::bytes(65_536));
    assert_eq!(config.delivery.batch.wait, Duration::from_secs(3_600));
    assert_eq!(config.delivery.stuck_after, Duration::from_secs(86_400));
    let Handler::Sink {
        sink: Sink::Jsonl { path },
        payload: Payload::Base64,
    } = config.handler
    else {
        panic!()
    };
    let path = path.expand(&WorkerId::new("w1").unwrap(), 42);
    assert_eq!(path.to_str(), Some("out/w1-42-w1"));
    assert_eq!(
        (config.admin.listen, config.log.format),
        (None, LogFormat::Json)
    );
}

#[test]
fn a_file_is_loaded() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/worker.toml");
    let env = [("SHARDKEEPER__APP__NAME".to_owned(), "other".to_owned())];
    let config = Config::load(&path, env.into_iter(), &["lease.failover=3s".to_owned()]).unwrap();
    assert_eq!(config.app.name.as_str(), "other");
    assert_eq!(config.lease.failover, Duration::from_secs(3));
}

#[test]
fn a_file_that_is_not_utf8_is_refused_by_line() {
    assert_eq!(
        decode(b"[app]\nname = \"\xff\"".to_vec()),
        Err("line 2 is not UTF-8".to_owned())
    );
    assert_eq!(
        decode("name = \"\u{fc}\"".into()),
        Ok("name = \"\u{fc}\"".to_owned())
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load(Path::new("no/such/worker.toml"), std::iter::empty(), &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("no/such/worker.toml: cannot be read: "),
        "{error}"
    );
}
