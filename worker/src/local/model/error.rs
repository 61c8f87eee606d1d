//! What the service refuses, in the words of the service.

/// The error codes that clients tell apart; the wire name is [`Code::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// No such stream, shard or consumer (or it is not there yet, or no longer).
    ResourceNotFound,
    /// The state of the stream or consumer does not allow the call now.
    ResourceInUse,
    /// A value that is well formed but has no meaning here.
    InvalidArgument,
    /// A value outside the constraints of the API.
    Validation,
    /// More than the account may have.
    LimitExceeded,
    /// The shard iterator is older than its life time.
    ExpiredIterator,
    /// The paging token is older than its life time.
    ExpiredNextToken,
    /// A per-shard rate is exceeded; try again later.
    ProvisionedThroughputExceeded,
    /// The request names no operation of the service.
    UnknownOperation,
    /// The request body cannot be read.
    Serialization,
    /// The service failed.
    InternalFailure,
}

impl Code {
    /// The code as written in `__type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ResourceNotFound => "ResourceNotFoundException",
            Self::ResourceInUse => "ResourceInUseException",
            Self::InvalidArgument => "InvalidArgumentException",
            Self::Validation => "ValidationException",
            Self::LimitExceeded => "LimitExceededException",
            Self::ExpiredIterator => "ExpiredIteratorException",
            Self::ExpiredNextToken => "ExpiredNextTokenException",
            Self::ProvisionedThroughputExceeded => "ProvisionedThroughputExceededException",
            Self::UnknownOperation => "UnknownOperationException",
            Self::Serialization => "SerializationException",
            Self::InternalFailure => "InternalFailure",
        }
    }

    /// The HTTP status that carries it.
    #[must_use]
    pub fn status(self) -> u16 {
        if self == Self::InternalFailure {
            500
        } else {
            400
        }
    }
}

/// A refusal: the code for programs and the message for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.name())]
pub struct Error {
    /// Which kind of refusal.
    pub code: Code,
    /// What was wrong, naming it.
    pub message: String,
}

/// The result of every operation of the model.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A refusal of this kind.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::ResourceNotFound, message)
    }

    pub(crate) fn in_use(message: impl Into<String>) -> Self {
        Self::new(Code::ResourceInUse, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self::new(Code::LimitExceeded, message)
    }

    /// The constraint message of the API's own validation.
    pub(crate) fn constraint(
        value: impl std::fmt::Display,
        member: &str,
        constraint: &str,
    ) -> Self {
        Self::new(
            Code::Validation,
            format!(
                "1 validation error detected: Value '{value}' at '{member}' failed to satisfy constraint: {constraint}"
            ),
        )
    }
}
