//! Tries everything a worker needs of AWS.

use std::time::Duration;

use lease::{
    DynamoTable, Shard, Shards, StreamId, Table as _,
    belongs::{self, Known},
    dynamodb,
};

use crate::{
    aws::{Aws, AwsError, Identity, StreamFacts, source, stream_id},
    cli::{exit::Exit, look::Look},
    config::{Config, Stream},
    source::{From, Source as _, SourceError},
};

/// What one try showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    verdict: Verdict,
    /// The action, as a policy names it, or what else was looked at.
    what: String,
    /// On which stream or table.
    of: String,
    /// What was found.
    detail: String,
}

/// How it looks; the worst decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// No answer that tells.
    Unclear,
    /// Refused by AWS.
    Missing,
    /// Does not exist.
    Absent,
    /// Belongs to somebody else.
    Foreign,
    /// Cannot be asked for the way it is configured.
    Unusable,
}

impl Finding {
    fn new(verdict: Verdict, what: &str, of: &str, detail: impl ToString) -> Self {
        Finding {
            verdict,
            what: what.to_owned(),
            of: of.to_owned(),
            // An answer stays one line.
            detail: detail.to_string().replace(char::is_control, " "),
        }
    }

    pub(super) fn row(&self) -> Vec<String> {
        let word = match self.verdict {
            Verdict::Good => "ok",
            Verdict::Unclear => "unclear",
            Verdict::Missing => "missing",
            Verdict::Absent => "absent",
            Verdict::Foreign => "foreign",
            Verdict::Unusable => "unusable",
        };
        vec![
            word.to_owned(),
            self.what.clone(),
            self.of.clone(),
            self.detail.clone(),
        ]
    }

    pub(super) fn paint(&self, look: Look, cell: &str) -> String {
        match self.verdict {
            Verdict::Good => look.good(cell),
            Verdict::Unclear => look.doubtful(cell),
            _ => look.bad(cell),
        }
    }
}

/// What people must mend first: without it the others cannot be told for sure.
pub(super) fn exit(findings: &[Finding]) -> Exit {
    let any = |verdict| findings.iter().any(|finding| finding.verdict == verdict);
    if any(Verdict::Unusable) {
        Exit::Usage
    } else if any(Verdict::Missing) {
        Exit::Denied
    } else if any(Verdict::Absent) {
        Exit::Absent
    } else if any(Verdict::Foreign) {
        Exit::Foreign
    } else if any(Verdict::Unclear) {
        Exit::Failed
    } else {
        Exit::Done
    }
}

pub(super) async fn check(config: &Config) -> Vec<Finding> {
    let aws = Aws::load(config.default_region()).await;
    let mut findings = Vec::new();
    match aws.credentials().await {
        Ok(identity) => findings.push(Finding::new(
            Verdict::Good,
            "credentials",
            "",
            who(&identity),
        )),
        Err(error) => return vec![of_aws(error, "credentials", "")],
    }
    let mut known = Vec::new();
    for stream in &config.streams {
        known.extend(check_stream(&aws, stream, &mut findings).await);
    }
    check_table(&aws, config, &known, &mut findings).await;
    findings
}

fn who(identity: &Identity) -> String {
    let account = identity
        .account
        .as_ref()
        .map(|account| format!(" of account {account}"));
    format!(
        "access key {}{}",
        identity.access_key,
        account.unwrap_or_default()
    )
}

fn of_aws(error: AwsError, what: &str, of: &str) -> Finding {
    let verdict = match &error {
        AwsError::NoCredentials(_) | AwsError::Refused { .. } => Verdict::Missing,
        AwsError::NoStream { .. } => Verdict::Absent,
        AwsError::NoRegion(_) => Verdict::Unusable,
        AwsError::Failed { .. } => Verdict::Unclear,
    };
    Finding::new(verdict, what, of, error)
}

/// A stream as its table should know it.
struct Found {
    id: StreamId,
    arn: String,
    shards: Shards,
}

async fn check_stream(aws: &Aws, stream: &Stream, findings: &mut Vec<Finding>) -> Option<Found> {
    const DESCRIBE: &str = "kinesis:DescribeStreamSummary";
    let name = stream.name.as_str();
    let described = match aws.kinesis(stream).await {
        Ok(client) => Aws::describe(&client, stream)
            .await
            .map(|facts| (client, facts)),
        Err(error) => Err(error),
    };
    let (client, facts) = match described {
        Ok(described) => described,
        Err(error) => {
            findings.push(of_aws(error, DESCRIBE, name));
            return None;
        }
    };
    findings.push(Finding::new(Verdict::Good, DESCRIBE, name, about(&facts)));
    let source = source(client, stream, &facts);
    let shards = source.list_shards().await;
    let detail = |shards: &Vec<Shard>| format!("{} shards, closed ones included", shards.len());
    findings.push(of_source(&shards, "kinesis:ListShards", name, detail));
    let shards = shards.ok()?;
    if let Some(shard) = shards.iter().find(|shard| !shard.closed).or(shards.first()) {
        let iterator = source.iterator(&shard.id, &From::TrimHorizon).await;
        findings.push(of_source(
            &iterator,
            "kinesis:GetShardIterator",
            name,
            |_| shard.id.to_string(),
        ));
        if let Ok(iterator) = iterator {
            let page = source.records(&iterator, 1).await;
            findings.push(of_source(&page, "kinesis:GetRecords", name, |_| {
                shard.id.to_string()
            }));
        }
    }
    Some(Found {
        id: stream_id(name, &facts),
        arn: facts.arn,
        shards: Shards::new(shards),
    })
}

fn about(facts: &StreamFacts) -> String {
    let hours = facts.retention.as_secs() / Duration::from_secs(3_600).as_secs();
    format!(
        "{}, {} open shards, kept for {hours} hours",
        facts.arn, facts.open_shards
    )
}

fn of_source<T>(
    tried: &Result<T, SourceError>,
    what: &str,
    of: &str,
    detail: impl FnOnce(&T) -> String,
) -> Finding {
    let error = match tried {
        Ok(found) => return Finding::new(Verdict::Good, what, of, detail(found)),
        Err(error) => error,
    };
    let verdict = match error {
        SourceError::Denied(_) => Verdict::Missing,
        SourceError::NotFound(_) => Verdict::Absent,
        _ => Verdict::Unclear,
    };
    Finding::new(verdict, what, of, error)
}

async fn check_table(aws: &Aws, config: &Config, known: &[Found], findings: &mut Vec<Finding>) {
    let name = config.lease.table.as_str();
    let table = match aws.dynamodb(config).await {
        Ok(client) => DynamoTable::new(&client, name),
        Err(error) => return findings.push(of_aws(error, "dynamodb", name)),
    };
    let check = table.check().await;
    if let Some(reason) = check.foreign {
        // Its permissions cannot be told: every request is wrong for a table of another key.
        let detail = format!("it is no lease table: {reason}");
        return findings.push(Finding::new(Verdict::Foreign, "lease table", name, detail));
    }
    for permission in &check.permissions {
        let (verdict, detail) = match &permission.access {
            dynamodb::Access::Granted => (Verdict::Good, ""),
            dynamodb::Access::Refused(why) => (Verdict::Missing, why.as_str()),
            dynamodb::Access::Unclear(what) => (Verdict::Unclear, what.as_str()),
        };
        findings.push(Finding::new(verdict, permission.action, name, detail));
    }
    findings.extend(match check.exists {
        Some(false) if config.lease.create => {
            let detail =
                "does not exist; the first worker makes it (dynamodb:CreateTable was not tried)";
            Some(Finding::new(Verdict::Good, "lease table", name, detail))
        }
        Some(false) => {
            let detail = "does not exist, and lease.create is false";
            Some(Finding::new(Verdict::Absent, "lease table", name, detail))
        }
        Some(true) if known.len() == config.streams.len() => {
            Some(belonging(&table, name, known).await)
        }
        // Without all streams nothing can be said about the rows.
        Some(true) | None => None,
    });
}

/// Whether the rows are of these streams, by the rule every worker starts with.
async fn belonging(table: &DynamoTable, name: &str, known: &[Found]) -> Finding {
    let view = match table.list(lease::Consistency::Strong).await {
        Ok(view) => view,
        Err(error) => return Finding::new(Verdict::Unclear, "lease table", name, error),
    };
    let several = known.len() > 1;
    let streams: Vec<Known<'_>> = known
        .iter()
        .map(|found| Known {
            id: several.then_some(&found.id),
            made_for: &found.arn,
            shards: &found.shards,
        })
        .collect();
    match belongs::check(&view.leases, &streams) {
        Err(foreign) => Finding::new(Verdict::Foreign, "lease table", name, foreign),
        Ok(()) if !view.unreadable.is_empty() => {
            let row = &view.unreadable[0];
            let detail = format!(
                "{} rows cannot be read, the first is {}: {}",
                view.unreadable.len(),
                row.key,
                row.reason
            );
            Finding::new(Verdict::Unclear, "lease table", name, detail)
        }
        Ok(()) => {
            let detail = format!(
                "{} leases, of this application's streams",
                view.leases.len()
            );
            Finding::new(Verdict::Good, "lease table", name, detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_finding_decides_the_exit_code() {
        use Verdict::{Absent, Foreign, Good, Missing, Unclear, Unusable};
        for (verdicts, expected) in [
            (&[Good, Good][..], Exit::Done),
            (&[Good, Unclear], Exit::Failed),
            (&[Unclear, Foreign], Exit::Foreign),
            (&[Foreign, Absent], Exit::Absent),
            (&[Absent, Missing, Good], Exit::Denied),
            (&[Missing, Unusable], Exit::Usage),
            (&[], Exit::Done),
        ] {
            let findings: Vec<_> = verdicts
                .iter()
                .map(|verdict| Finding::new(*verdict, "", "", ""))
                .collect();
            assert_eq!(exit(&findings), expected, "{verdicts:?}");
        }
    }
}
