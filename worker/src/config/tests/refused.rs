//! Every refusal, word for word: these lines are what a user has to go by.

use super::{SMALLEST, errors_of};

/// What each appended text is refused with: place, key, and what would be right.
const REFUSED: &[(&str, &str)] = &[
    // Keys.
    (
        "[lease]\nfailovr = \"10s\"",
        "worker.toml:7: lease.failovr: unknown key; did you mean \"failover\"? allowed here: table, region, endpoint, \
         role_arn, external_id, failover, max_leases, billing, tags, deletion_protection, point_in_time_recovery, create",
    ),
    (
        "[leases]\nfailover = \"10s\"",
        "worker.toml:6: leases: unknown key; did you mean \"lease\"? allowed here: app, stream, lease, checkpoint, \
         delivery, handler, admin, shutdown, log",
    ),
    (
        "[delivery]\nbatch = { records = 5, sise = 3 }",
        "worker.toml:7: delivery.batch.sise: unknown key; allowed here: records, bytes, wait",
    ),
    (
        "[delivery]\non_failure = \"sqs://x\"",
        "worker.toml:7: delivery.on_failure: unknown key; allowed here: batch, buffer, stuck_after, retry",
    ),
    (
        "[delivery]\nretry = { attempts = 3 }",
        "worker.toml:7: delivery.retry.attempts: unknown key; allowed here: min, max",
    ),
    // Types.
    (
        "[lease]\ncreate = \"yes\"",
        "worker.toml:7: lease.create: must be true or false, not a string",
    ),
    (
        "[admin]\nlisten = 9090",
        "worker.toml:7: admin.listen: must be a string, not an integer",
    ),
    (
        "[lease]\ntags = \"x\"",
        "worker.toml:7: lease.tags: must be a table of strings, not a string",
    ),
    (
        "[lease.tags]\nteam = 7",
        "worker.toml:6: lease.tags: must be a table of strings; the value of a tag, not an integer",
    ),
    (
        "[delivery]\nbatch = 500",
        "worker.toml:7: delivery.batch: must be a table, not an integer",
    ),
    // Durations and sizes.
    (
        "[checkpoint]\nevery = \"10x\"",
        "worker.toml:7: checkpoint.every: \"10x\" is no duration; write a whole number and a unit (ms, s, m, h or d), \
         e.g. \"10s\", \"500ms\", \"5m\"",
    ),
    (
        "[checkpoint]\nevery = 10",
        "worker.toml:7: checkpoint.every: \"10\" is no duration; write a whole number and a unit (ms, s, m, h or d), \
         e.g. \"10s\", \"500ms\", \"5m\"",
    ),
    (
        "[checkpoint]\nevery = true",
        "worker.toml:7: checkpoint.every: must be a duration such as \"10s\", not a boolean",
    ),
    (
        "[checkpoint]\nevery = \"9999999999999999d\"",
        "worker.toml:7: checkpoint.every: \"9999999999999999d\" is no duration; write a whole number and a unit (ms, s, \
         m, h or d), e.g. \"10s\", \"500ms\", \"5m\"",
    ),
    (
        "[delivery]\nbuffer = \"64MB\"",
        "worker.toml:7: delivery.buffer: \"64MB\" is no size; write a whole number of bytes or with KiB, MiB or GiB, \
         e.g. \"64KiB\", \"4MiB\", \"1000000\"",
    ),
    // Bounds.
    (
        "[lease]\nfailover = \"999ms\"",
        "worker.toml:7: lease.failover: 999ms is out of range; at least 1s, at most 1h: a lease must outlive a slow \
         DynamoDB call, yet not keep a dead worker's shards waiting",
    ),
    (
        "[delivery]\nbuffer = \"5MiB\"",
        "worker.toml:7: delivery.buffer: 5MiB is out of range; at least 10MiB, at most 1024GiB: one GetRecords call may \
         return 10MiB, which must find room",
    ),
    (
        "page_records = 10001",
        "worker.toml:6: stream[0].page_records: 10001 is out of range; at least 1, at most 10000: one GetRecords call \
         returns no more",
    ),
    (
        "page_records = -1",
        "worker.toml:6: stream[0].page_records: -1 is out of range; at least 1, at most 10000: one GetRecords call \
         returns no more",
    ),
    (
        "page_records = 1.5",
        "worker.toml:6: stream[0].page_records: 1.5 is no whole number; write digits alone, e.g. 500",
    ),
    (
        "page_records = 99999999999999999999",
        "worker.toml:6: stream[0].page_records: 99999999999999999999 is no whole number; write digits alone, e.g. 500",
    ),
    (
        "poll = { min = \"100ms\" }",
        "worker.toml:6: stream[0].poll.min: 100ms is out of range; at least 200ms, at most 4m: Kinesis allows 5 reads \
         per second and shard, and an iterator not used for 5m expires",
    ),
    (
        "[lease]\nmax_leases = 0",
        "worker.toml:7: lease.max_leases: 0 is out of range; at least 1, at most 4294967295: a worker that may hold no \
         lease has nothing to do",
    ),
    (
        "[lease]\nmax_leases = \"ten\"",
        "worker.toml:7: lease.max_leases: must be a whole number or \"unlimited\", not a string",
    ),
    // Words.
    (
        "hash_range = \"drop-recrd\"",
        "worker.toml:6: stream[0].hash_range: \"drop-recrd\" is not possible here; did you mean \"drop-record\"? write \
         \"drop-record\" or \"strict-kcl\" or \"off\"",
    ),
    (
        "retrieval = \"fan-out\"",
        "worker.toml:6: stream[0].retrieval: \"fan-out\" does not exist in this version; write \"polling\"",
    ),
    (
        "[handler]\nkind = \"lambda\"",
        "worker.toml:7: handler.kind: \"lambda\" does not exist in this version; write \"sink\" (stdout or jsonl), or \
         implement the Processor trait of the library",
    ),
    (
        "[log]\nlevel = \"inof\"",
        "worker.toml:7: log.level: \"inof\" is not possible here; did you mean \"info\"? write \"off\" or \"error\" or \
         \"warn\" or \"info\" or \"debug\" or \"trace\"",
    ),
    (
        "[log]\nlevel = \"info,shardkeeper=loud\"",
        "worker.toml:7: log.level: \"info,shardkeeper=loud\" is no log filter; write a level (error, warn, info, debug, \
         trace, off) or e.g. \"info,shardkeeper=debug\"",
    ),
    (
        "[lease]\nbilling = \"provisioned\"",
        "worker.toml:7: lease.billing: \"provisioned\" is no billing; write \"on-demand\" or { read = 10, write = 10 }",
    ),
    (
        "[lease]\nbilling = { read = 5 }",
        "worker.toml:7: lease.billing.write: missing; provisioned billing needs both read and write",
    ),
    // Instants.
    (
        "start = \"yesterday\"",
        "worker.toml:6: stream[0].start: \"yesterday\" is no start; write \"trim_horizon\", \"latest\" or an instant \
         since 1970 with its offset, e.g. 2026-01-01T00:00:00Z",
    ),
    (
        "start = 2026-01-01T00:00:00",
        "worker.toml:6: stream[0].start: \"2026-01-01T00:00:00\" is no start; write \"trim_horizon\", \"latest\" or an \
         instant since 1970 with its offset, e.g. 2026-01-01T00:00:00Z",
    ),
    (
        "start = 1960-01-01T00:00:00Z",
        "worker.toml:6: stream[0].start: \"1960-01-01T00:00:00Z\" is no start; write \"trim_horizon\", \"latest\" or an \
         instant since 1970 with its offset, e.g. 2026-01-01T00:00:00Z",
    ),
    // Names.
    (
        "endpoint = \"localhost:4566\"",
        "worker.toml:6: stream[0].endpoint: \"localhost:4566\" is no endpoint; write scheme, host and port only, e.g. \
         \"http://localhost:4566\"",
    ),
    (
        "arn = \"arn:aws:kinesis:eu-central-1:123:stream/orders\"",
        "worker.toml:6: stream[0].arn: \"arn:aws:kinesis:eu-central-1:123:stream/orders\" is no stream ARN; write e.g. \
         \"arn:aws:kinesis:eu-central-1:123456789012:stream/orders\"",
    ),
    (
        "role_arn = \"arn:aws:iam::123456789012:user/x\"",
        "worker.toml:6: stream[0].role_arn: \"arn:aws:iam::123456789012:user/x\" is no role ARN; write e.g. \
         \"arn:aws:iam::123456789012:role/stream-reader\"",
    ),
    (
        "[lease]\ntags = { \"AWS:x\" = \"1\" }",
        "worker.toml:7: lease.tags: \"AWS:x\" is no tag key; write 1 to 128 characters, not beginning with aws:",
    ),
    (
        "[admin]\nlisten = \"localhost\"",
        "worker.toml:7: admin.listen: \"localhost\" is no listen address; write an IP address and a port, e.g. \
         \"127.0.0.1:9090\" or \"[::]:9090\", or \"off\"",
    ),
    // Keys that do not go together.
    (
        "arn = \"arn:aws:kinesis:eu-central-1:123456789012:stream/payments\"",
        "worker.toml:5: stream[0].name: \"orders\" and the arn's \"payments\" disagree; write one of the two",
    ),
    (
        "arn = \"arn:aws:kinesis:eu-central-1:123456789012:stream/orders\"\nregion = \"us-east-1\"",
        "worker.toml:7: stream[0].region: \"us-east-1\" and the arn's \"eu-central-1\" disagree; leave region out",
    ),
    (
        "external_id = \"abc\"",
        "worker.toml:6: stream[0].external_id: is only used to assume a role; add role_arn or leave it out",
    ),
    (
        "poll = { min = \"2s\", max = \"1s\" }",
        "worker.toml:6: stream[0].poll.min: 2s is longer than poll.max, 1s",
    ),
    (
        "[delivery]\nretry = { min = \"1m\", max = \"30s\" }",
        "worker.toml:7: delivery.retry.min: 1m is longer than retry.max, 30s",
    ),
    (
        "[delivery]\nbuffer = \"10MiB\"\nbatch = { bytes = \"11MiB\" }",
        "worker.toml:8: delivery.batch.bytes: 11MiB can never fill: delivery.buffer holds 10MiB only",
    ),
    (
        "[handler]\nsink = \"jsonl\"",
        "worker.toml:6: handler.path: missing; sink = \"jsonl\" needs the file to write",
    ),
    (
        "[handler]\npath = \"x\"",
        "worker.toml:7: handler.path: is only used by sink = \"jsonl\"; leave it out",
    ),
    (
        "[handler]\nsink = \"jsonl\"\npath = \"{host}.jsonl\"",
        "worker.toml:8: handler.path: \"{host}.jsonl\" is no path; write a file path; the placeholders are {worker} and {pid}",
    ),
    (
        "[[stream]]\nname = \"orders\"",
        "worker.toml:7: stream[1].name: \"orders\" is already stream[0].name (worker.toml:5); list each stream once",
    ),
    (
        "[[stream]]\narn = \"arn:aws:kinesis:eu-central-1:123456789012:stream/orders\"",
        "worker.toml:7: stream[1].arn: \"orders\" is already stream[0].name (worker.toml:5); list each stream once",
    ),
    (
        "[[stream]]\nstart = \"latest\"",
        "worker.toml:6: stream[1].name: missing; a stream needs a name or an arn",
    ),
    // Not TOML, in one line.
    ("[lease]\nfailover = 10s", "worker.toml:7: not TOML: "),
    (
        "[lease]\nfailover = \"1s\"\nfailover = \"2s\"",
        "worker.toml:8: not TOML: duplicate key",
    ),
];

#[test]
fn every_refusal_names_place_key_and_what_would_be_right() {
    for (appended, expected) in REFUSED {
        let lines = errors_of(&format!("{SMALLEST}{appended}"), &[], &[]);
        let [line] = lines.as_slice() else {
            panic!("one line, not {lines:#?}, for\n{appended}")
        };
        let is_syntax = expected.contains("not TOML: ");
        assert!(
            line == expected || is_syntax && line.starts_with(expected),
            "\n{line}\nis not\n{expected}"
        );
    }
}
