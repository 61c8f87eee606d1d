//! Rule: the ARNs of what a configuration names. What it does not tell is the command line's, else a placeholder.

use crate::config::{AssumedRole, Lease, Region, Stream};

/// Stands for an account nobody told.
pub(super) const NO_ACCOUNT: &str = "ACCOUNT_ID";
/// Stands for a region nobody told.
pub(super) const NO_REGION: &str = "REGION";

/// What the command line and the environment say about where things are.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The account of the worker's own credentials.
    pub(super) account: Option<String>,
    /// The region of what has none of its own.
    pub(super) region: Option<Region>,
}

/// A stream's ARN: as configured, or its name in the account that reads it.
pub(super) fn stream(stream: &Stream, place: &Place) -> String {
    if let Some(arn) = &stream.arn {
        return arn.to_string();
    }
    let region = stream.access.region.as_ref().or(place.region.as_ref());
    let resource = format!("stream/{}", stream.name);
    spell(
        "kinesis",
        region,
        stream.access.role.as_ref(),
        place,
        &resource,
    )
}

/// The lease table's ARN. Its region is its own, or the environment's, or the first stream's: as [`crate::aws::Aws::dynamodb`].
pub(super) fn table(lease: &Lease, streams: &[Stream], place: &Place) -> String {
    let first = streams
        .first()
        .and_then(|stream| stream.access.region.as_ref());
    let region = lease
        .access
        .region
        .as_ref()
        .or(place.region.as_ref())
        .or(first);
    let resource = format!("table/{}", lease.table);
    spell(
        "dynamodb",
        region,
        lease.access.role.as_ref(),
        place,
        &resource,
    )
}

/// An assumed role acts in its own account and partition.
fn spell(
    service: &str,
    region: Option<&Region>,
    role: Option<&AssumedRole>,
    place: &Place,
    resource: &str,
) -> String {
    let role: Vec<&str> = role
        .map(|role| role.arn.as_str().split(':').collect())
        .unwrap_or_default();
    let region = region.map_or(NO_REGION, Region::as_str);
    let partition = role.get(1).copied().unwrap_or_else(|| partition(region));
    let account = role
        .get(4)
        .copied()
        .or(place.account.as_deref())
        .unwrap_or(NO_ACCOUNT);
    format!("arn:{partition}:{service}:{region}:{account}:{resource}")
}

/// The partition a region belongs to, by its prefix.
fn partition(region: &str) -> &'static str {
    const PARTITIONS: [(&str, &str); 7] = [
        ("cn-", "aws-cn"),
        ("us-gov-", "aws-us-gov"),
        ("us-iso-", "aws-iso"),
        ("us-isob-", "aws-iso-b"),
        ("eu-isoe-", "aws-iso-e"),
        ("us-isof-", "aws-iso-f"),
        ("eusc-", "aws-eusc"),
    ];
    PARTITIONS
        .into_iter()
        .find(|(prefix, _)| region.starts_with(prefix))
        .map_or("aws", |(_, partition)| partition)
}

/// Reads `--account`.
pub(super) fn account(text: &str) -> Result<String, String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits && text.len() == crate::limits::ACCOUNT_ID_DIGITS {
        return Ok(text.to_owned());
    }
    Err("an account is twelve digits".to_owned())
}

/// Reads `--kms-key`. Policies know keys by ARN only; an alias or a bare id grants nothing.
pub(super) fn kms_key(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    match parts.as_slice() {
        ["arn", _, "kms", region, account_id, resource]
            if !region.is_empty()
                && account(account_id).is_ok()
                && resource
                    .strip_prefix("key/")
                    .is_some_and(|key| !key.is_empty()) =>
        {
            Ok(text.to_owned())
        }
        _ => Err(
            "write the key's ARN, e.g. \"arn:aws:kms:eu-central-1:123456789012:key/…\"; an alias grants nothing"
                .to_owned(),
        ),
    }
}
