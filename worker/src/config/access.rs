//! How a service of AWS is reached: the four keys a stream and the lease table have in common.

use super::error::Problem;
use super::names::{Endpoint, ExternalId, Region, RoleArn};
use super::section::{Field, Reader, Section};

/// Region, endpoint and role of one service client. What is absent comes from the environment of the process, by the
/// AWS SDK's own rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// `region`.
    pub region: Option<Region>,
    /// `endpoint`, instead of the region's own.
    pub endpoint: Option<Endpoint>,
    /// `role_arn` and `external_id`: whom to act as.
    pub role: Option<AssumedRole>,
}

/// A role to assume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssumedRole {
    /// `role_arn`.
    pub arn: RoleArn,
    /// `external_id`.
    pub external_id: Option<ExternalId>,
}

/// What was read, with the place of the region: a stream compares it with its ARN.
#[derive(Debug)]
pub(super) struct AccessFields {
    pub(super) value: Access,
    pub(super) region: Field<Option<Region>>,
}

impl Access {
    pub(super) fn read(reader: &Reader, section: &Section<'_>) -> AccessFields {
        let region = section.key("region").optional(Region::read);
        let endpoint = section.key("endpoint").optional(Endpoint::read);
        let arn = section.key("role_arn").optional(RoleArn::read);
        let external_id = section.key("external_id").optional(ExternalId::read);
        if arn.value.is_none() && external_id.value.is_some() {
            let text = "is only used to assume a role; add role_arn or leave it out";
            external_id.refuse(reader, &arn, Problem::Conflict(text.to_owned()));
        }
        let role = arn.value.map(|arn| AssumedRole {
            arn,
            external_id: external_id.value,
        });
        AccessFields {
            value: Access {
                region: region.value.clone(),
                endpoint: endpoint.value,
                role,
            },
            region,
        }
    }
}
