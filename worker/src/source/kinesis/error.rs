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
    let code = service.err().code().unwrap_or("unknown error").to_owned();
    let message = service.err().message().unwrap_or_default();
    let text = format!("{code}: {message}");
    match code.as_str() {
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
