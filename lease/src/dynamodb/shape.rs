//! What a lease table looks like: its key and its index, to make and to compare.

use aws_sdk_dynamodb::{
    error::BuildError,
    types::{
        AttributeDefinition, CreateGlobalSecondaryIndexAction, GlobalSecondaryIndex,
        KeySchemaElement, KeyType, Projection, ProjectionType, ProvisionedThroughput,
        ScalarAttributeType, TableDescription,
    },
};

use super::item::{LEASE_KEY, LEASE_OWNER, OWNER_INDEX};

/// The attributes that are part of a key.
pub(super) fn attributes() -> Result<Vec<AttributeDefinition>, BuildError> {
    [LEASE_KEY, LEASE_OWNER]
        .into_iter()
        .map(|name| {
            AttributeDefinition::builder()
                .attribute_name(name)
                .attribute_type(ScalarAttributeType::S)
                .build()
        })
        .collect()
}

/// The table's key: the lease key alone.
pub(super) fn table_keys() -> Result<Vec<KeySchemaElement>, BuildError> {
    Ok(vec![key(LEASE_KEY, KeyType::Hash)?])
}

fn index_keys() -> Result<Vec<KeySchemaElement>, BuildError> {
    Ok(vec![
        key(LEASE_OWNER, KeyType::Hash)?,
        key(LEASE_KEY, KeyType::Range)?,
    ])
}

fn key(name: &str, kind: KeyType) -> Result<KeySchemaElement, BuildError> {
    KeySchemaElement::builder()
        .attribute_name(name)
        .key_type(kind)
        .build()
}

fn keys_only() -> Projection {
    Projection::builder()
        .projection_type(ProjectionType::KeysOnly)
        .build()
}

/// The index on the lease owner, of a table that is made.
pub(super) fn index(
    capacity: Option<ProvisionedThroughput>,
) -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(OWNER_INDEX)
        .set_key_schema(Some(index_keys()?))
        .projection(keys_only())
        .set_provisioned_throughput(capacity)
        .build()
}

/// The index on the lease owner, of a table that is there.
pub(super) fn added_index(
    capacity: Option<ProvisionedThroughput>,
) -> Result<CreateGlobalSecondaryIndexAction, BuildError> {
    CreateGlobalSecondaryIndexAction::builder()
        .index_name(OWNER_INDEX)
        .set_key_schema(Some(index_keys()?))
        .projection(keys_only())
        .set_provisioned_throughput(capacity)
        .build()
}

/// Read and write units.
pub(super) fn capacity(read: i64, write: i64) -> Result<ProvisionedThroughput, BuildError> {
    ProvisionedThroughput::builder()
        .read_capacity_units(read)
        .write_capacity_units(write)
        .build()
}

/// The capacity of a provisioned table. `None`: it is paid per request, which DynamoDB tells as no units or none at all.
pub(super) fn capacity_of(table: &TableDescription) -> Option<ProvisionedThroughput> {
    let units = table.provisioned_throughput()?;
    let (read, write) = (units.read_capacity_units()?, units.write_capacity_units()?);
    if read == 0 || write == 0 {
        return None;
    }
    capacity(read, write).ok()
}

/// Why a table cannot be a lease table, by its key.
pub(super) fn foreign_key(table: &TableDescription) -> Option<String> {
    let (keys, expected) = (
        spell_keys(table.key_schema()),
        format!("{LEASE_KEY} (HASH)"),
    );
    if keys != expected {
        return Some(format!("its key is {keys}, not {expected}"));
    }
    let definition = table
        .attribute_definitions()
        .iter()
        .find(|attribute| attribute.attribute_name() == LEASE_KEY);
    match definition.map(AttributeDefinition::attribute_type) {
        Some(ScalarAttributeType::S) => None,
        Some(other) => Some(format!("its key {LEASE_KEY} is of type {other}, not S")),
        None => Some(format!("its key {LEASE_KEY} has no type")),
    }
}

/// The index on the lease owner as it is in a table.
#[derive(Debug, PartialEq)]
pub(super) enum OwnerIndex {
    /// As it should be.
    Present,
    /// Not there.
    Missing,
    /// There, but different; says how.
    Foreign(String),
}

/// Looks for the index on the lease owner.
pub(super) fn owner_index(table: &TableDescription) -> OwnerIndex {
    let index = table
        .global_secondary_indexes()
        .iter()
        .find(|index| index.index_name() == Some(OWNER_INDEX));
    let Some(index) = index else {
        return OwnerIndex::Missing;
    };
    let expected = format!("{LEASE_OWNER} (HASH), {LEASE_KEY} (RANGE)");
    let keys = spell_keys(index.key_schema());
    if keys == expected {
        OwnerIndex::Present
    } else {
        OwnerIndex::Foreign(format!("{keys}, not {expected}"))
    }
}

fn spell_keys(keys: &[KeySchemaElement]) -> String {
    let keys = keys
        .iter()
        .map(|key| format!("{} ({})", key.attribute_name(), key.key_type()));
    keys.collect::<Vec<_>>().join(", ")
}
