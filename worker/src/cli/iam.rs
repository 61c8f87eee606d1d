//! `shardkeeper iam`: the IAM policy this very configuration needs, and nothing beyond it.

mod arn;
mod policy;

#[cfg(test)]
mod tests;

use super::{
    ConfigArgs,
    exit::{Exit, Failure, conclude},
};
use crate::config::{self, Config};
use arn::Place;
use policy::Principal;

/// Arguments of `iam`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Print the least-privilege IAM policy a configuration needs",
    long_about = "Print the least-privilege IAM policy that this configuration needs, as JSON. Nothing is asked of AWS.\n\n\
                  The policy is that of the worker's own credentials (the role of the task, pod or instance). Streams and a \
                  table that are used by role_arn belong into the policy of that role: print it with --role.\n\
                  Where the configuration does not tell account or region, placeholders stand in the ARNs.",
    after_help = "Examples:\n  shardkeeper iam --config worker.toml --account 123456789012 --region eu-central-1\n  \
                  shardkeeper iam --role arn:aws:iam::123456789012:role/stream-reader"
)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// The account of the worker's own credentials: twelve digits.
    #[arg(long, value_name = "ID", value_parser = arn::account)]
    account: Option<String>,
    /// The region of what has none in the configuration. Default: AWS_REGION, then AWS_DEFAULT_REGION.
    #[arg(long, value_name = "REGION", value_parser = region)]
    region: Option<config::Region>,
    /// Print the policy of this role, one of the role_arn of the configuration, instead of the worker's own.
    #[arg(long, value_name = "ARN")]
    role: Option<String>,
    /// A key of your own (its ARN) that the streams are encrypted with. May be given several times.
    #[arg(long = "kms-key", value_name = "ARN", value_parser = arn::kms_key)]
    kms_keys: Vec<String>,
}

fn region(text: &str) -> Result<config::Region, String> {
    config::Region::new(text).map_err(|problem| problem.to_string())
}

pub(crate) fn main(args: Args) -> Exit {
    conclude(print(args))
}

fn print(args: Args) -> Result<Exit, Failure> {
    let config = args.config.load()?;
    let principal = principal(&config, args.role)?;
    let place = Place {
        account: args.account,
        region: args
            .region
            .or_else(|| region_of_environment(|name| std::env::var(name).ok())),
    };
    let policy = policy::of(&config, &principal, &place, &args.kms_keys);
    let text =
        serde_json::to_string_pretty(&policy).map_err(|error| Failure::new(Exit::Failed, error))?;
    println!("{text}");
    for note in policy::notes(&config, &principal, &policy, &args.kms_keys) {
        eprintln!("note: {note}");
    }
    Ok(Exit::Done)
}

/// Whose policy is asked for. A role that the worker never assumes is a slip of the pen.
fn principal(config: &Config, role: Option<String>) -> Result<Principal, Failure> {
    let Some(asked) = role else {
        return Ok(Principal::Worker);
    };
    let known = policy::roles(config);
    if known.iter().any(|role| *role == asked) {
        return Ok(Principal::Role(asked));
    }
    let text = match known.as_slice() {
        [] => format!("--role {asked}: this configuration has no role_arn"),
        known => format!(
            "--role {asked}: no role_arn of this configuration; they are {}",
            known.join(", ")
        ),
    };
    Err(Failure::new(Exit::Usage, text))
}

/// The region by the AWS SDK's variables; profiles and instance metadata are not asked.
fn region_of_environment(variable: impl Fn(&str) -> Option<String>) -> Option<config::Region> {
    ["AWS_REGION", "AWS_DEFAULT_REGION"]
        .into_iter()
        .find_map(|name| config::Region::new(&variable(name)?).ok())
}
