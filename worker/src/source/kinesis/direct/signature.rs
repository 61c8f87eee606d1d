//! Word: what a signature of the SDK tells about how to make the next one – for whom (region and service), and by how
//! much the SDK moves the clock of this host.

use std::time::{Duration, SystemTime};

use aws_smithy_types::{DateTime, date_time::Format};

/// What two headers of a signed request say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) region: String,
    pub(super) service: String,
}

impl Scope {
    /// Out of `Authorization: AWS4-HMAC-SHA256 Credential=<key>/<day>/<region>/<service>/aws4_request, …`. `None`: it is
    /// signed in another way.
    pub(super) fn of(authorization: &str) -> Option<Self> {
        let parts = authorization.strip_prefix("AWS4-HMAC-SHA256 ")?;
        let credential = parts
            .split(',')
            .find_map(|part| part.trim().strip_prefix("Credential="))?;
        let mut from_the_end = credential.rsplit('/');
        let ("aws4_request", service, region) = (
            from_the_end.next()?,
            from_the_end.next()?,
            from_the_end.next()?,
        ) else {
            return None;
        };
        Some(Scope {
            region: region.to_owned(),
            service: service.to_owned(),
        })
    }
}

/// How far the time of a signature (`X-Amz-Date`) is from the clock of this host: the SDK signs by the server's clock
/// once it has seen that the two differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Skew {
    millis: i64,
}

/// A signature has whole seconds, and takes a moment: less than this is no skew.
const LEAST: i64 = 5_000;

impl Skew {
    /// `now`: this host's clock, epoch milliseconds.
    pub(super) fn of(amz_date: &str, now: i64) -> Option<Self> {
        let signed = millis(amz_date)?;
        let millis = signed.checked_sub(now)?;
        Some(Skew {
            millis: if millis.abs() < LEAST { 0 } else { millis },
        })
    }

    /// The time to sign with.
    pub(super) fn apply(self, now: i64) -> SystemTime {
        let millis = u64::try_from(now.saturating_add(self.millis)).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }
}

/// `20261201T041500Z` as epoch milliseconds.
fn millis(amz_date: &str) -> Option<i64> {
    let part = |from, to| amz_date.get(from..to);
    let spelled = format!(
        "{}-{}-{}T{}:{}:{}",
        part(0, 4)?,
        part(4, 6)?,
        part(6, 8)?,
        part(9, 11)?,
        part(11, 13)?,
        amz_date.get(13..)?,
    );
    let at = DateTime::from_str(&spelled, Format::DateTime).ok()?;
    at.to_millis().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_is_read_out_of_the_credential() {
        let scope = |region: &str, service: &str| {
            Some(Scope {
                region: region.to_owned(),
                service: service.to_owned(),
            })
        };
        for (authorization, expected) in [
            (
                "AWS4-HMAC-SHA256 Credential=AKIA/20261201/eu-west-1/kinesis/aws4_request, SignedHeaders=host, Signature=0",
                scope("eu-west-1", "kinesis"),
            ),
            (
                "AWS4-HMAC-SHA256 SignedHeaders=host,Credential=a/b/20261201/r/s/aws4_request",
                scope("r", "s"),
            ),
            (
                "AWS4-ECDSA-P256-SHA256 Credential=AKIA/20261201/kinesis/aws4_request",
                None,
            ),
            (
                "AWS4-HMAC-SHA256 Credential=AKIA/20261201/eu-west-1/kinesis",
                None,
            ),
            ("AWS4-HMAC-SHA256 Credential=aws4_request", None),
            ("Bearer token", None),
            ("", None),
        ] {
            assert_eq!(Scope::of(authorization), expected, "{authorization}");
        }
    }

    #[test]
    fn the_skew_is_what_the_sdk_has_added_to_the_clock() {
        let noon = 1_796_126_400_000; // 2026-12-01T12:00:00Z
        for (signed, now, skew) in [
            ("20261201T120000Z", noon, 0),
            ("20261201T120000Z", noon + 999, 0),
            ("20261201T120000Z", noon + 4_999, 0),
            ("20261201T120000Z", noon + 5_000, -5_000),
            ("20261201T123000Z", noon, 1_800_000),
        ] {
            let found = Skew::of(signed, now).expect("a date");
            assert_eq!(found.millis, skew, "{signed} at {now}");
            let at = found.apply(now).duration_since(SystemTime::UNIX_EPOCH);
            assert_eq!(at.expect("later").as_millis() as i64, now + skew);
        }
        for nonsense in [
            "",
            "20261201",
            "2026-12-01T12:00:00Z",
            "20261301T120000Z",
            "20261201T12000é",
        ] {
            assert_eq!(Skew::of(nonsense, noon), None, "{nonsense}");
        }
    }
}
