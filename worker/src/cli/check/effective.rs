//! The configuration in short, as it is after all overrides.

use crate::config::{Access, Billing, Config, ENV_PREFIX, Retrieval, Start, Stream, show_duration};

/// One line each: what, and how.
pub(super) fn rows(config: &Config, sets: &[String]) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |what: &str, how: String| rows.push(vec![what.to_owned(), how]);
    row("application", config.app.name.to_string());
    let worker = config.app.worker_id.as_ref().map(ToString::to_string);
    row(
        "worker",
        worker.unwrap_or_else(|| "host name and a random suffix".to_owned()),
    );
    for one in &config.streams {
        row("stream", stream(one));
    }
    row("lease table", table(config));
    row(
        "checkpoint",
        format!("every {}", show_duration(config.checkpoint.every)),
    );
    let delivery = &config.delivery;
    row(
        "delivery",
        format!(
            "batches of {} records or {}, {} read ahead, a shard is given up after {} without progress",
            delivery.batch.records,
            delivery.batch.bytes,
            delivery.buffer,
            show_duration(delivery.stuck_after)
        ),
    );
    row(
        "admin",
        config
            .admin
            .listen
            .map_or("off".to_owned(), |listen| listen.to_string()),
    );
    row(
        "shutdown",
        format!("within {}", show_duration(config.shutdown.deadline)),
    );
    for (index, text) in overrides(sets).into_iter().enumerate() {
        row(if index == 0 { "overridden" } else { "" }, text);
    }
    rows
}

fn stream(stream: &Stream) -> String {
    let start = match stream.start {
        Start::TrimHorizon => "trim_horizon".to_owned(),
        Start::Latest => "latest".to_owned(),
        Start::AtTimestamp(millis) => format!("{millis} ms after 1970"),
    };
    let how = match stream.retrieval {
        Retrieval::Polling => format!(
            "polled every {} to {}",
            show_duration(stream.poll.min),
            show_duration(stream.poll.max)
        ),
    };
    let name = stream
        .arn
        .as_ref()
        .map_or(stream.name.to_string(), |arn| arn.to_string());
    format!("{name} from {start}, {how}{}", access(&stream.access))
}

fn table(config: &Config) -> String {
    let lease = &config.lease;
    let made = match (lease.create, lease.billing) {
        (false, _) => "never made here".to_owned(),
        (true, Billing::OnDemand) => "made with on-demand capacity if absent".to_owned(),
        (true, Billing::Provisioned { read, write }) => {
            format!("made with {read} read and {write} write units if absent")
        }
    };
    format!(
        "{}, failover {}, {made}{}",
        lease.table,
        show_duration(lease.failover),
        access(&lease.access)
    )
}

fn access(access: &Access) -> String {
    let mut text = String::new();
    if let Some(region) = &access.region {
        text += &format!(", region {region}");
    }
    if let Some(endpoint) = &access.endpoint {
        text += &format!(", endpoint {endpoint}");
    }
    if let Some(role) = &access.role {
        text += &format!(", as {}", role.arn);
    }
    text
}

/// What wins over the file: `--set` over the environment, of several `--set` the last.
fn overrides(sets: &[String]) -> Vec<String> {
    let mut variables: Vec<String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(ENV_PREFIX))
        .map(|(name, value)| format!("{name}={value} (environment)"))
        .collect();
    variables.sort_unstable();
    variables.extend(sets.iter().map(|set| format!("{set} (--set)")));
    if variables.is_empty() {
        variables.push("nothing".to_owned());
    }
    variables
}
