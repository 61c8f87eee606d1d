//! From the SDK's errors to ours.

use aws_sdk_kinesis::error::{ProvideErrorMetadata, SdkError};

use crate::source::SourceError;

/// What a failed call means to the rules above.
pub(crate) fn failed<E, R>(error: SdkError<E, R>) -> SourceError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    let SdkError::ServiceError(service) = &error else {
        // The chain of causes says more than "dispatch failure".
        return SourceError::Failed(lease::with_causes(&error));
    };
    meaning(service.err().code(), service.err().message())
}

/// What an error of the API means to the rules above.
pub(super) fn meaning(code: Option<&str>, message: Option<&str>) -> SourceError {
    let code = code.unwrap_or("unknown error");
    let text = format!("{code}: {}", message.unwrap_or_default());
    match code {
        "ProvisionedThroughputExceededException"
        | "LimitExceededException"
        | "KMSThrottlingException"
        | "ThrottlingException" => SourceError::Throttled(text),
        "ExpiredIteratorException" => SourceError::ExpiredIterator,
        "InvalidArgumentException" | "ValidationException" => SourceError::Invalid(text),
        "ResourceNotFoundException" => SourceError::NotFound(text),
        "AccessDeniedException"
        | "UnrecognizedClientException"
        | "InvalidClientTokenId"
        | "InvalidSignatureException"
        | "ExpiredTokenException"
        | "MissingAuthenticationTokenException"
        | "KMSAccessDeniedException" => SourceError::Denied(text),
        _ => SourceError::Failed(text),
    }
}
