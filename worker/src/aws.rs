//! Wire: clients of AWS from the configuration – region, endpoint, assumed role, credentials by the SDK's default chain.
//!
//! Retries are off: the rules retry, since only they know how long an answer is still worth something.

use std::time::Duration;

use aws_config::{
    BehaviorVersion, Region, SdkConfig, environment::region::EnvironmentVariableRegionProvider,
    meta::region::RegionProviderChain, profile::region::ProfileFileRegionProvider,
    retry::RetryConfig, stalled_stream_protection::StalledStreamProtectionConfig,
    sts::AssumeRoleProvider, timeout::TimeoutConfig,
};
use aws_smithy_http_client::tls;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use lease::StreamId;

use crate::{
    config::{self, Access},
    limits,
    source::{
        SourceError,
        kinesis::{KinesisClient, KinesisSource, Protocol, failed},
    },
};

/// Makes clients; they share one HTTP client and its connections.
#[derive(Clone, Debug)]
pub struct Aws {
    http: SharedHttpClient,
    base: SdkConfig,
}

/// Why AWS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AwsError {
    /// No credentials are to be had from the default chain.
    #[error(
        "no AWS credentials: {0}\nGive them by environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), a profile, or the role of the task, pod or instance"
    )]
    NoCredentials(String),
    /// No region is configured anywhere.
    #[error("no AWS region for {0}: set `region` there, or the environment variable AWS_REGION")]
    NoRegion(String),
    /// The stream does not exist.
    #[error("stream {name} does not exist in {place}")]
    NoStream {
        /// Its name.
        name: String,
        /// Region or endpoint.
        place: String,
    },
    /// AWS said no.
    #[error("{what}: {reason}")]
    Refused {
        /// What was asked.
        what: String,
        /// What AWS said.
        reason: String,
    },
    /// No clear answer; trying again later can help.
    #[error("{what}: {reason}")]
    Failed {
        /// What was asked.
        what: String,
        /// What happened.
        reason: String,
    },
}

/// Whose credentials the default chain gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The id of the access key, which is no secret.
    pub access_key: String,
    /// The account, where the provider tells.
    pub account: Option<String>,
}

/// What DescribeStreamSummary says about a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFacts {
    /// Its ARN.
    pub arn: String,
    /// How long records are kept.
    pub retention: Duration,
    /// When it was made, epoch seconds.
    pub created: i64,
    /// Open shards.
    pub open_shards: i64,
}

impl Aws {
    /// Reads the environment and the profiles, once. What has no region of its own is in theirs, else in `region`;
    /// the instance's metadata is asked only if there is none: outside of EC2 that takes long and fails loudly.
    pub async fn load(region: Option<&config::Region>) -> Self {
        let http = aws_smithy_http_client::Builder::new()
            .tls_provider(tls::Provider::Rustls(
                tls::rustls_provider::CryptoMode::Ring,
            ))
            .build_https();
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(region) = region {
            let chain = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
                .or_else(ProfileFileRegionProvider::new());
            loader = loader.region(chain.or_else(Region::new(region.as_str().to_owned())));
        }
        let base = loader
            .http_client(http.clone())
            .retry_config(RetryConfig::disabled())
            // No body is streamed, and every call has a time limit: this would only watch each of them a second time.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(Duration::from_secs(3))
                    .operation_attempt_timeout(limits::SDK_CALL_TIMEOUT)
                    .build(),
            )
            .load()
            .await;
        Aws { http, base }
    }

    /// Whether the default chain has credentials at all; asked first, so that the answer is not one of twenty
    /// failed calls.
    ///
    /// # Errors
    /// [`AwsError::NoCredentials`].
    pub async fn credentials(&self) -> Result<Identity, AwsError> {
        use aws_credential_types::provider::ProvideCredentials as _;
        let Some(provider) = self.base.credentials_provider() else {
            return Err(AwsError::NoCredentials("no provider is configured".into()));
        };
        match provider.provide_credentials().await {
            Ok(credentials) => Ok(Identity {
                access_key: credentials.access_key_id().to_owned(),
                account: credentials
                    .account_id()
                    .map(|account| account.as_str().to_owned()),
            }),
            Err(error) => Err(AwsError::NoCredentials(lease::with_causes(&error))),
        }
    }

    async fn config(&self, access: &Access, what: &str) -> Result<SdkConfig, AwsError> {
        let mut builder = self.base.to_builder().http_client(self.http.clone());
        if let Some(region) = &access.region {
            builder = builder.region(Region::new(region.as_str().to_owned()));
        }
        if let Some(endpoint) = &access.endpoint {
            builder = builder.endpoint_url(endpoint.as_str());
        }
        let config = builder.build();
        if config.region().is_none() {
            return Err(AwsError::NoRegion(what.to_owned()));
        }
        let Some(role) = &access.role else {
            return Ok(config);
        };
        let mut provider = AssumeRoleProvider::builder(role.arn.as_str())
            .session_name("shardkeeper")
            .configure(&self.base);
        if let Some(region) = config.region() {
            provider = provider.region(region.clone());
        }
        if let Some(id) = &role.external_id {
            provider = provider.external_id(id.as_str());
        }
        let provider = provider.build().await;
        let provider = aws_credential_types::provider::SharedCredentialsProvider::new(provider);
        Ok(config.to_builder().credentials_provider(provider).build())
    }

    /// A client of Kinesis for this stream.
    ///
    /// # Errors
    /// [`AwsError::NoRegion`].
    pub async fn kinesis(&self, stream: &config::Stream) -> Result<KinesisClient, AwsError> {
        let what = format!("stream {}", stream.name);
        let config = self.config(&stream.access, &what).await?;
        let protocol = match stream.protocol {
            config::Protocol::Auto => Protocol::Auto,
            config::Protocol::Json => Protocol::Json,
            config::Protocol::Cbor => Protocol::Cbor,
        };
        Ok(KinesisClient::new(&config, protocol))
    }

    /// A client of Kinesis for a stream that no configuration describes. Speaks JSON.
    ///
    /// # Errors
    /// [`AwsError::NoRegion`].
    pub async fn kinesis_of(
        &self,
        stream: &str,
        access: &Access,
    ) -> Result<aws_sdk_kinesis::Client, AwsError> {
        let config = self.config(access, &format!("stream {stream}")).await?;
        Ok(aws_sdk_kinesis::Client::new(&config))
    }

    /// A client of DynamoDB for the lease table.
    ///
    /// # Errors
    /// [`AwsError::NoRegion`].
    pub async fn dynamodb(
        &self,
        config: &config::Config,
    ) -> Result<aws_sdk_dynamodb::Client, AwsError> {
        let config = self.config(&config.lease.access, "[lease]").await?;
        Ok(aws_sdk_dynamodb::Client::new(&config))
    }

    /// What the stream is.
    ///
    /// # Errors
    /// When it does not exist, may not be described, or the call fails.
    pub async fn describe(
        client: &KinesisClient,
        stream: &config::Stream,
    ) -> Result<StreamFacts, AwsError> {
        let what = || format!("DescribeStreamSummary of {}", stream.name);
        let ask = |client: &aws_sdk_kinesis::Client| {
            client
                .describe_stream_summary()
                .stream_name(stream.name.as_str())
                .set_stream_arn(stream.arn.as_ref().map(|arn| arn.as_str().to_owned()))
                .send()
        };
        let answer = client
            .call(ask)
            .await
            .map_err(|error| match failed(error) {
                SourceError::NotFound(_) => AwsError::NoStream {
                    name: stream.name.to_string(),
                    place: place(client),
                },
                SourceError::Denied(reason) | SourceError::Invalid(reason) => AwsError::Refused {
                    what: what(),
                    reason,
                },
                error => AwsError::Failed {
                    what: what(),
                    reason: error.to_string(),
                },
            })?;
        let summary = answer
            .stream_description_summary
            .ok_or_else(|| AwsError::Failed {
                what: what(),
                reason: "answered without a summary".into(),
            })?;
        Ok(StreamFacts {
            retention: Duration::from_secs(
                u64::try_from(summary.retention_period_hours).unwrap_or(24) * 3_600,
            ),
            created: summary.stream_creation_timestamp.secs(),
            open_shards: i64::from(summary.open_shard_count),
            arn: summary.stream_arn,
        })
    }
}

fn place(client: &KinesisClient) -> String {
    client.config().region().map_or_else(
        || "this account".to_owned(),
        |region| format!("region {region}"),
    )
}

/// The KCL's identifier of a stream in a table that serves several: account, name, creation time.
pub fn stream_id(name: &str, facts: &StreamFacts) -> StreamId {
    let account = facts.arn.split(':').nth(4).unwrap_or_default();
    StreamId::from(format!("{account}:{name}:{}", facts.created))
}

/// The source of records of a stream.
pub fn source(
    client: KinesisClient,
    stream: &config::Stream,
    facts: &StreamFacts,
) -> KinesisSource {
    // Stand-ins know streams by name; the ARN is only sent where the user gave one.
    let arn = stream.arn.as_ref().map(|_| facts.arn.clone());
    KinesisSource::new(client, stream.name.to_string(), arn)
}
