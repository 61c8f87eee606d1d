//! The real SDK as the tests of this folder use it: what every client is made of, and a table.
#![allow(dead_code, unreachable_pub)] // each program uses its part

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_sdk_dynamodb::{
    Client,
    types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType},
};

/// Any credentials, no retries: a test sees each answer.
pub fn config(url: &str) -> SdkConfig {
    let credentials = Credentials::new("local", "local", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(url)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .build()
}

/// A table whose only key is `key`, a string.
pub async fn create_table(client: &Client, name: &str, key: &str) {
    let attribute = AttributeDefinition::builder()
        .attribute_name(key)
        .attribute_type(ScalarAttributeType::S);
    let element = KeySchemaElement::builder()
        .attribute_name(key)
        .key_type(KeyType::Hash);
    let create = client
        .create_table()
        .table_name(name)
        .attribute_definitions(attribute.build().expect("complete"))
        .key_schema(element.build().expect("complete"))
        .billing_mode(BillingMode::PayPerRequest);
    create.send().await.expect("a table");
}
