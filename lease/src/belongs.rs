//! Rule: whether a table belongs to this application and these streams.
//!
//! A table of another stream must never be used: its positions mean nothing here, and writing them would lose data of
//! both. Shard ids say little, since every stream counts from zero; so the evidence is the mark our own rows carry,
//! the form of the keys, the hash ranges, and whether stored sequence numbers can lie in the shard at all.

use checkpoint::Position;

use crate::{id::StreamId, lease::Lease, shard::Shards};

/// Why a table cannot be this application's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// The rows have keys of the other form.
    #[error(
        "row {key} belongs to a table of {found}, but this application reads {wanted}; a table is of one kind for ever"
    )]
    Form {
        /// A row.
        key: String,
        /// What it is.
        found: &'static str,
        /// What is configured.
        wanted: &'static str,
    },
    /// A row is marked for another stream.
    #[error("row {key} was made for stream {found}, but this application reads {wanted}")]
    MadeFor {
        /// A row.
        key: String,
        /// Its mark.
        found: String,
        /// The configured stream.
        wanted: String,
    },
    /// A row's hash range is not the shard's.
    #[error(
        "row {key} has another hash key range than this stream's shard: it was made for another stream, or for a former one of the same name"
    )]
    Range {
        /// A row.
        key: String,
    },
    /// A row's checkpoint cannot lie in the shard.
    #[error(
        "row {key} has checkpoint {checkpoint}, which is before the shard's first sequence number {first}: it was made for another stream, or for a former one of the same name"
    )]
    Sequence {
        /// A row.
        key: String,
        /// Its checkpoint.
        checkpoint: String,
        /// Where the shard starts.
        first: String,
    },
}

/// One configured stream, as the table should know it.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// In tables that serve several streams.
    pub id: Option<&'a StreamId>,
    /// What its rows are marked with.
    pub made_for: &'a str,
    /// What Kinesis lists.
    pub shards: &'a Shards,
}

/// Refuses rows that cannot be of these streams. Rows of streams that are not configured (any more) are left alone in
/// tables that serve several.
pub fn check<'a>(
    leases: impl IntoIterator<Item = &'a Lease>,
    streams: &[Known<'_>],
) -> Result<(), Foreign> {
    let several = streams.iter().any(|stream| stream.id.is_some());
    for lease in leases {
        let key = || lease.key.to_string();
        if lease.stream.is_some() != several {
            let kinds = ["one stream", "several streams"];
            return Err(Foreign::Form {
                key: key(),
                found: kinds[usize::from(lease.stream.is_some())],
                wanted: kinds[usize::from(several)],
            });
        }
        let Some(stream) = streams
            .iter()
            .find(|stream| stream.id == lease.stream.as_ref())
        else {
            continue;
        };
        check_row(lease, stream)?;
    }
    Ok(())
}

fn check_row(lease: &Lease, stream: &Known<'_>) -> Result<(), Foreign> {
    let key = || lease.key.to_string();
    if let Some(found) = lease
        .made_for
        .as_ref()
        .filter(|found| **found != *stream.made_for)
    {
        return Err(Foreign::MadeFor {
            key: key(),
            found: found.clone(),
            wanted: stream.made_for.to_owned(),
        });
    }
    let Some(shard) = stream.shards.get(&lease.shard) else {
        return Ok(());
    };
    if lease.range.is_some_and(|range| range != shard.range) {
        return Err(Foreign::Range { key: key() });
    }
    if let (Position::At { sequence, .. }, Some(first)) =
        (&lease.checkpoint, &shard.starting_sequence)
        && sequence < first
    {
        return Err(Foreign::Sequence {
            key: key(),
            checkpoint: sequence.as_str().to_owned(),
            first: first.as_str().to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
