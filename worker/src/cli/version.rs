//! `shardkeeper version`.

use serde_json::json;

use super::exit::Exit;

/// Arguments of `version`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Print what this program is",
    long_about = "Print what this program is: its version, what is built in, and the lease table it speaks.",
    after_help = "Examples:\n  shardkeeper version\n  shardkeeper version --json | jq -r .version"
)]
pub(crate) struct Args {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Given to the compiler by whoever builds a release: `SHARDKEEPER_COMMIT=$(git rev-parse HEAD) cargo build --release`.
const COMMIT: Option<&str> = option_env!("SHARDKEEPER_COMMIT");
/// Whose lease table this is; see docs/ARCHITECTURE.md.
const LEASE_TABLE: &str = "KCL 3.x, one table";

pub(crate) fn main(args: &Args) -> Exit {
    let version = env!("CARGO_PKG_VERSION");
    let features: &[&str] = if cfg!(feature = "local") {
        &["local"]
    } else {
        &[]
    };
    let commit = COMMIT.filter(|commit| !commit.is_empty());
    if args.json {
        let object = json!({ "version": version, "commit": commit, "features": features, "lease_table": LEASE_TABLE });
        println!("{object}");
        return Exit::Done;
    }
    println!("shardkeeper {version}");
    if let Some(commit) = commit {
        println!("commit       {commit}");
    }
    println!(
        "features     {}",
        if features.is_empty() {
            "none".to_owned()
        } else {
            features.join(", ")
        }
    );
    println!("lease table  {LEASE_TABLE}");
    Exit::Done
}
