//! The command line: one file per subcommand. Reads arguments and the environment, prints, and chooses the exit code.
#![allow(clippy::disallowed_methods)] // the environment is read here and in `config`

mod check;
#[cfg(feature = "local")]
mod demo;
mod exit;
mod iam;
mod leases;
#[cfg(feature = "local")]
mod local;
mod look;
mod probe;
mod put;
mod run;
mod version;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

use crate::config::{Config, ConfigErrors};
pub use exit::Exit;

#[derive(Parser)]
#[command(
    name = "shardkeeper",
    version,
    about = "A distributed Kinesis consumer: shards shared through leases, nothing lost in a crash",
    long_about = "A distributed Kinesis consumer.\n\nStart as many copies as you like: they share the shards of one or more streams through leases in a DynamoDB \
                  table, unpack KPL aggregates, hand records to your handler, and checkpoint down to the user record, so that a crash \
                  loses nothing and repeats as little as possible.\n\nTry `shardkeeper demo` first: it needs nothing but this program.",
    after_help = "Exit codes: 0 done, 1 failed (run: not everything was handed over before the deadline), 2 wrong usage or configuration,\n\
                  3 the lease table belongs to another application or stream, 4 no such stream or table, 5 no credentials or access,\n\
                  6 another process has this worker id, 7 the demo's proof failed.",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    // No doc comments here: clap would put them in the place of the long text in each file.
    #[cfg(feature = "local")]
    Demo(demo::Args),
    Run(run::Args),
    Check(check::Args),
    Leases(leases::Args),
    Put(Box<put::Args>),
    Iam(iam::Args),
    Probe(probe::Args),
    #[cfg(feature = "local")]
    Local(local::Args),
    Version(version::Args),
}

/// Where the configuration comes from; the same for every subcommand that needs one.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConfigArgs {
    /// The configuration file (TOML). See docs/CONFIGURATION.md, or deploy/worker.toml with every key explained.
    #[arg(long, short, value_name = "FILE", default_value = "worker.toml")]
    pub(crate) config: PathBuf,
    /// Override a key, e.g. `--set lease.failover=5s`. May be given several times; wins over file and environment.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
}

impl ConfigArgs {
    pub(crate) fn load(&self) -> Result<Config, ConfigErrors> {
        let env = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
        Config::load(&self.config, env, &self.sets)
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap prints each where it belongs.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Done.into()
            };
        }
    };
    match cli.command {
        Command::Run(args) => run::main(args),
        Command::Iam(args) => iam::main(args),
        Command::Leases(args) => leases::main(args),
        Command::Check(args) => check::main(args),
        Command::Put(args) => put::main(*args),
        Command::Version(args) => version::main(&args),
        Command::Probe(args) => probe::main(args),
        #[cfg(feature = "local")]
        Command::Demo(args) => demo::main(args),
        #[cfg(feature = "local")]
        Command::Local(args) => local::main(args),
    }
    .into()
}

/// A small runtime for subcommands that only talk to AWS.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, exit::Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| exit::Failure::new(Exit::Failed, error))
}
