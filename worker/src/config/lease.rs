//! `[lease]` and `[checkpoint]`: the table the workers share the shards through, and how often positions go there.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use super::access::Access;
use super::error::Problem;
use super::names::{AppName, TableName};
use super::scalar::{self, text};
use super::section::{Field, Key, Reader, Section, wrong_type};
use super::tree::{Node, Value};
use crate::limits;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// The lease table and the rules of holding a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// `table`: the application's name unless given.
    pub table: TableName,
    /// How DynamoDB is reached.
    pub access: Access,
    /// `failover`: a lease not renewed for so long may be taken by another worker. Between 1 second and 1 hour.
    pub failover: Duration,
    /// `max_leases`: leases this worker holds at most; `None` for no limit.
    pub max_leases: Option<NonZeroU32>,
    /// `billing`: capacity of the table; used when it is created.
    pub billing: Billing,
    /// `tags`: used when the table is created.
    pub tags: BTreeMap<String, String>,
    /// `deletion_protection`: used when the table is created.
    pub deletion_protection: bool,
    /// `point_in_time_recovery`: switched on at every start if true.
    pub point_in_time_recovery: bool,
    /// `create`: whether an absent table is created.
    pub create: bool,
}

/// How DynamoDB charges for the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Billing {
    /// By request.
    OnDemand,
    /// By provisioned capacity units.
    Provisioned {
        /// Read capacity units.
        read: NonZeroU32,
        /// Write capacity units.
        write: NonZeroU32,
    },
}

impl Lease {
    /// Reads the table; `None` if neither it nor the application is named soundly.
    pub(super) fn read(
        reader: &Reader,
        section: Section<'_>,
        app: &Field<Option<AppName>>,
    ) -> Option<Lease> {
        let table = section.key("table").optional(TableName::read);
        let table = settle_table(reader, &section, table, app);
        let access = Access::read(reader, &section).value;
        let failover = section.key("failover").or(10 * SECOND, |node| {
            let reason = "a lease must outlive a slow DynamoDB call, yet not keep a dead worker's shards waiting";
            scalar::duration(SECOND, HOUR, reason, node)
        });
        let max_leases = section.key("max_leases").or(None, max_leases);
        let billing = billing(section.key("billing"));
        let tags = tags(section.key("tags"));
        let deletion_protection = section.key("deletion_protection").or(false, scalar::truth);
        let point_in_time_recovery = section
            .key("point_in_time_recovery")
            .or(false, scalar::truth);
        let create = section.key("create").or(true, scalar::truth);
        section.finish();
        Some(Lease {
            table: table?,
            access,
            failover: failover.value,
            max_leases: max_leases.value,
            billing,
            tags,
            deletion_protection: deletion_protection.value,
            point_in_time_recovery: point_in_time_recovery.value,
            create: create.value,
        })
    }
}

/// The application's name serves as the table's, unless it is too short for one.
fn settle_table(
    reader: &Reader,
    section: &Section<'_>,
    table: Field<Option<TableName>>,
    app: &Field<Option<AppName>>,
) -> Option<TableName> {
    if table.value.is_some() || !table.sound {
        return table.value;
    }
    let app_name = app.value.as_ref()?;
    let from_app = TableName::new(app_name.as_str()).ok();
    if from_app.is_none() {
        let text = format!(
            "missing; the application name \"{app_name}\" is too short for a table name (3 letters)"
        );
        reader.report(section.origin(), &table.key, Problem::Conflict(text));
    }
    from_app
}

fn max_leases(node: &Node) -> Result<Option<NonZeroU32>, Problem> {
    match &node.value {
        Value::Text(text) if text == "unlimited" => Ok(None),
        Value::Text(_) => Err(wrong_type(node, "a whole number or \"unlimited\"")),
        _ => scalar::count(
            1,
            u32::MAX,
            "a worker that may hold no lease has nothing to do",
            node,
        )
        .map(Some),
    }
}

fn billing(key: Key<'_>) -> Billing {
    let Some(section) = key.as_section() else {
        return key
            .or(Billing::OnDemand, |node| {
                let spelled = text(node)
                    .map_err(|_| wrong_type(node, "\"on-demand\" or { read = 10, write = 10 }"))?;
                match spelled.as_str() {
                    "on-demand" => Ok(Billing::OnDemand),
                    _ => Err(Problem::NotA {
                        what: "billing",
                        text: format!("\"{spelled}\""),
                        rule: "write \"on-demand\" or { read = 10, write = 10 }",
                    }),
                }
            })
            .value;
    };
    let units = |name| {
        let parse = |node: &Node| {
            scalar::count(
                1,
                u32::MAX,
                "DynamoDB provisions one unit of each kind at least",
                node,
            )
        };
        section
            .key(name)
            .required("provisioned billing needs both read and write", parse)
            .value
    };
    let (read, write) = (units("read"), units("write"));
    section.finish();
    match (read, write) {
        (Some(read), Some(write)) => Billing::Provisioned { read, write },
        _ => Billing::OnDemand,
    }
}

/// Tag keys are the user's own, so this is the one table without a list of keys.
fn tags(key: Key<'_>) -> BTreeMap<String, String> {
    let parse = |node: &Node| {
        let Value::Table(entries) = &node.value else {
            return Err(wrong_type(node, "a table of strings"));
        };
        if entries.len() > limits::MOST_TAGS {
            let (found, most) = (entries.len().to_string(), limits::MOST_TAGS.to_string());
            let reason = "DynamoDB takes no more tags";
            return Err(Problem::OutOfRange {
                found,
                least: "0".to_owned(),
                most,
                reason,
            });
        }
        entries
            .iter()
            .map(|(name, entry)| Ok((tag_key(name)?, tag_value(&entry.node)?)))
            .collect()
    };
    key.or(BTreeMap::new(), parse).value
}

fn tag_key(name: &str) -> Result<String, Problem> {
    let fits = (1..=limits::TAG_KEY_LONGEST).contains(&name.chars().count());
    let reserved = name
        .to_ascii_lowercase()
        .starts_with(limits::TAG_RESERVED_PREFIX);
    if fits && !reserved {
        return Ok(name.to_owned());
    }
    let rule = "write 1 to 128 characters, not beginning with aws:";
    Err(Problem::NotA {
        what: "tag key",
        text: format!("\"{name}\""),
        rule,
    })
}

fn tag_value(node: &Node) -> Result<String, Problem> {
    let value =
        text(node).map_err(|_| wrong_type(node, "a table of strings; the value of a tag"))?;
    if value.chars().count() <= limits::TAG_VALUE_LONGEST {
        return Ok(value);
    }
    Err(Problem::NotA {
        what: "tag value",
        text: format!("\"{value}\""),
        rule: "write at most 256 characters",
    })
}

/// When positions are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// `every`: a moved watermark is stored at latest so long after it moved; a renewal before then carries it along.
    pub every: Duration,
}

impl Checkpoint {
    pub(super) fn read(section: Section<'_>) -> Checkpoint {
        let every = section.key("every").or(5 * SECOND, |node| {
            let reason = "each checkpoint is a write to the lease table, and what is not stored is repeated after a crash";
            scalar::duration(Duration::from_millis(100), HOUR, reason, node)
        });
        section.finish();
        Checkpoint { every: every.value }
    }
}
