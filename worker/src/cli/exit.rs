//! Exit codes. A supervisor may act on them, so they never change their meaning.

use std::process::ExitCode;

use crate::{aws::AwsError, config::ConfigErrors, run::RunError};
use lease::EnsureError;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// As it should.
    Done = 0,
    /// Something failed; of `run`: the deadline passed before everything was handed over.
    Failed = 1,
    /// Wrong arguments or configuration. Starting again will not help.
    Usage = 2,
    /// The lease table belongs to another application or stream. Nothing was changed.
    Foreign = 3,
    /// The stream, or the table where it may not be made, does not exist.
    Absent = 4,
    /// No credentials, or access is denied.
    Denied = 5,
    /// Another process has this worker id.
    Duplicate = 6,
    /// The demo lost or misplaced a record.
    Unproven = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Something that ends the program, with what to print and how to exit.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl ToString) -> Self {
        Failure {
            exit,
            text: text.to_string(),
        }
    }

    /// With every cause of `error`.
    pub(crate) fn chain(exit: Exit, error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        Failure { exit, text }
    }

    /// Prints the reason, and says how to exit.
    pub(crate) fn report(self) -> Exit {
        eprintln!("shardkeeper: {}", self.text);
        self.exit
    }
}

/// Ends a subcommand: nothing to say, or a reason on standard error.
pub(crate) fn conclude(result: Result<Exit, Failure>) -> Exit {
    result.unwrap_or_else(Failure::report)
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Failure::new(
            Exit::Usage,
            format!("the configuration is not usable:\n{errors}"),
        )
    }
}

impl From<AwsError> for Failure {
    fn from(error: AwsError) -> Self {
        let exit = match &error {
            AwsError::NoCredentials(_) | AwsError::Refused { .. } => Exit::Denied,
            AwsError::NoRegion(_) => Exit::Usage,
            AwsError::NoStream { .. } => Exit::Absent,
            AwsError::Failed { .. } => Exit::Failed,
        };
        Failure::new(exit, error)
    }
}

impl From<EnsureError> for Failure {
    fn from(error: EnsureError) -> Self {
        let exit = match &error {
            EnsureError::Absent(_) => Exit::Absent,
            EnsureError::Foreign { .. } => Exit::Foreign,
            EnsureError::Failed { transient, .. } => {
                if *transient {
                    Exit::Failed
                } else {
                    Exit::Denied
                }
            }
        };
        Failure::new(exit, error)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let exit = match &error {
            RunError::Foreign(_) => Exit::Foreign,
            RunError::NoStream { .. } => Exit::Absent,
            RunError::Refused { .. } => Exit::Denied,
            RunError::Fatal(_) => Exit::Duplicate,
        };
        Failure::new(exit, error)
    }
}
