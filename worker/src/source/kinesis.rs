//! Wire: a Kinesis stream by the AWS SDK.
