//! What of the service can be varied: durations, so that tests need not wait, and limits.

/// Durations and limits of one Kinesis; the default takes no time to change state and enforces no throughput.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelOptions {
    /// Region in ARNs.
    pub region: String,
    /// Account in ARNs, twelve digits.
    pub account: String,
    /// How long a stream stays CREATING, milliseconds.
    pub create_ms: i64,
    /// How long a stream stays UPDATING; the parents close at the end of it.
    pub update_ms: i64,
    /// How long a stream stays DELETING.
    pub delete_ms: i64,
    /// How long a consumer stays CREATING and DELETING.
    pub consumer_ms: i64,
    /// Life time of shard iterators and paging tokens; 5 minutes on AWS.
    pub iterator_ttl_ms: i64,
    /// How long one subscription lasts; 5 minutes on AWS.
    pub subscription_ms: i64,
    /// How long after a successful SubscribeToShard another one for the same consumer and shard is refused, not obeyed; 5 s on AWS.
    pub takeover_after_ms: i64,
    /// How long a subscription is silent before an event without records is sent.
    pub heartbeat_ms: i64,
    /// Payload and key bytes in one event at most (but at least one record).
    pub event_bytes: u64,
    /// Payload and key bytes in one GetRecords answer at most; 10 MiB on AWS.
    pub page_bytes: u64,
    /// Whether the per-shard rates of reads and writes are enforced.
    pub enforce_throughput: bool,
    /// Every n-th GetRecords of a shard comes back empty although records remain, as AWS may do; 0 for never.
    pub empty_page_every: u64,
    /// Open shards the account may have.
    pub shard_limit: usize,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            region: "us-east-1".to_owned(),
            account: "123456789012".to_owned(),
            create_ms: 0,
            update_ms: 0,
            delete_ms: 0,
            consumer_ms: 0,
            iterator_ttl_ms: 300_000,
            subscription_ms: 300_000,
            takeover_after_ms: 5_000,
            heartbeat_ms: 3_000,
            event_bytes: 1 << 20,
            page_bytes: 10 << 20,
            enforce_throughput: false,
            empty_page_every: 0,
            shard_limit: 10_000,
        }
    }
}
