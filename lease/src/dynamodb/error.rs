//! Turns what the SDK says into what a caller has to do.
//!
//! | answer | means |
//! |---|---|
//! | condition failed | [`TableError::Changed`], with the row as it stands |
//! | throttling of any kind | [`TableError::Throttled`]: nothing was written |
//! | no such table | [`TableError::Missing`] |
//! | time-out, broken connection, unreadable answer, 5xx, conflict with a transaction | [`TableError::Unknown`] |
//! | no permission, no credentials, a malformed request | [`TableError::Refused`] |

use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
    operation::{
        delete_item::DeleteItemError, put_item::PutItemError, update_item::UpdateItemError,
    },
};

use super::item::{self, Item};
use crate::table::TableError;

/// Why a conditional write failed.
#[derive(Debug, PartialEq)]
pub(super) enum Failure {
    /// The condition did not hold; the row as it stands, `None` if there is none.
    Condition(Option<Item>),
    /// Anything else.
    Call(TableError),
}

impl Failure {
    /// As the answer to a write of a lease row.
    pub(super) fn of_lease(self) -> TableError {
        match self {
            Failure::Call(error) => error,
            Failure::Condition(None) => TableError::Changed(None),
            Failure::Condition(Some(row)) => match item::read_as_lease(&row) {
                Ok(lease) => TableError::Changed(Some(Box::new(lease))),
                Err(unreadable) => unreadable.into(),
            },
        }
    }

    /// As the answer to a write of any other row.
    pub(super) fn of_other(self) -> TableError {
        match self {
            Failure::Call(error) => error,
            Failure::Condition(_) => TableError::Changed(None),
        }
    }
}

/// An error that may say that a condition failed.
pub(super) trait Conditional {
    /// `Some`: it did; with the row as it stands.
    fn condition_failed(&self) -> Option<Option<&Item>>;
}

macro_rules! conditional {
    ($($error:ty),*) => {$(
        impl Conditional for $error {
            fn condition_failed(&self) -> Option<Option<&Item>> {
                match self {
                    Self::ConditionalCheckFailedException(failed) => Some(failed.item()),
                    _ => None,
                }
            }
        }
    )*};
}

conditional!(DeleteItemError, PutItemError, UpdateItemError);

/// Why a conditional write failed.
pub(super) fn of_write<E>(operation: &str, error: &SdkError<E, HttpResponse>) -> Failure
where
    E: Conditional + ProvideErrorMetadata + Error + 'static,
{
    match error.as_service_error().and_then(E::condition_failed) {
        Some(row) => Failure::Condition(row.cloned()),
        None => Failure::Call(of_call(operation, error)),
    }
}

/// Why a call without a condition failed.
pub(super) fn of_call<E>(operation: &str, error: &SdkError<E, HttpResponse>) -> TableError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let said = |what: String| format!("{operation}: {what}");
    match error {
        SdkError::ConstructionFailure(_) => TableError::Refused(said(with_causes(error))),
        SdkError::DispatchFailure(_) if lacks_credentials(error) => {
            TableError::Refused(said(with_causes(error)))
        }
        SdkError::ServiceError(answer) => {
            let (code, message) = (answer.err().code(), answer.err().message());
            let status = answer.raw().status().as_u16();
            let said = said(format!(
                "{}: {} (HTTP {status})",
                code.unwrap_or("no error code"),
                message.unwrap_or("no message"),
            ));
            of_code(code.unwrap_or_default(), status, said)
        }
        _ => TableError::Unknown(said(with_causes(error))),
    }
}

fn of_code(code: &str, status: u16, said: String) -> TableError {
    match code {
        "ProvisionedThroughputExceededException"
        | "RequestLimitExceeded"
        | "ThrottlingException"
        | "Throttling"
        | "LimitExceededException" => TableError::Throttled(said),
        "ResourceNotFoundException" => TableError::Missing(said),
        "TransactionConflictException" | "ReplicatedWriteConflictException" => {
            TableError::Unknown(said)
        }
        _ if status == 429 => TableError::Throttled(said),
        // A success whose body cannot be read is a write that happened.
        _ if status < 400 || status == 408 || status >= 500 => TableError::Unknown(said),
        _ => TableError::Refused(said),
    }
}

/// Nobody ever gave credentials, or what gives them is set up wrongly. A provider that fails or is too slow is another
/// matter: it may answer the next time.
fn lacks_credentials(error: &(dyn Error + 'static)) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<CredentialsError>())
        .any(|error| {
            matches!(
                error,
                CredentialsError::CredentialsNotLoaded(_)
                    | CredentialsError::InvalidConfiguration(_)
            )
        })
}

/// The error and its causes in one line: the SDK's own words for a failed call are only "dispatch failure".
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    causes(error).fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}
