//! Finds keys and items in the protobuf of an aggregate.
//!
//! ```text
//! message AggregatedRecord { repeated string partition_key_table = 1; repeated string explicit_hash_key_table = 2; repeated Record records = 3; }
//! message Record { required uint64 partition_key_index = 1; optional uint64 explicit_hash_key_index = 2; required bytes data = 3; repeated Tag tags = 4; }
//! message Tag { required string key = 1; optional string value = 2; }
//! ```
//! Rules: fields come in any order; of a repeated scalar the last wins; a missing required field anywhere makes the whole
//! message malformed; strings are not checked to be UTF-8 here; tags are checked and forgotten.
//!
//! Nothing is copied. What is noted is 12 bytes for a table entry (at least 2 bytes on the wire) and 20 for an item (at
//! least 6), so the notes on a payload of *n* bytes stay under 6 *n* (12 *n* as vectors grow). A table entry that is not UTF-8 adds its text with U+FFFD, once.

use std::ops::Range;

use super::table::Table;
use super::wire::{LENGTH_DELIMITED, Malformed, Reader, VARINT, tag};

/// A stretch of the protobuf. 32 bits suffice: longer messages are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    pub(super) fn new(range: Range<usize>) -> Self {
        // `parse` refuses messages above i32::MAX bytes, so both ends fit.
        Self {
            start: range.start as u32,
            end: range.end as u32,
        }
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// An index into a table as Java computes it: the low 32 bits, signed. 2^32 means 0 and 2^31 is out of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableIndex(i32);

impl TableIndex {
    fn new(wire: u64) -> Self {
        Self(wire as u32 as i32)
    }

    /// The place in a table of `len` entries, if it has one.
    #[inline]
    pub(super) fn within(self, len: usize) -> Option<usize> {
        usize::try_from(self.0).ok().filter(|index| *index < len)
    }
}

/// One user record as the aggregate holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) partition_key: TableIndex,
    /// Presence matters: an absent index is not index 0.
    pub(super) explicit_hash_key: Option<TableIndex>,
    pub(super) data: Span,
}

/// The notes on one aggregate. Reused from one to the next, so that its vectors are allocated once.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) tables: Tables,
    pub(super) items: Vec<Item>,
}

/// The texts that items refer to by index.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) partition_keys: Table,
    pub(super) explicit_hash_keys: Table,
}

impl Contents {
    /// Replaces the notes by those on `body`. After an error they mean nothing.
    pub(super) fn parse(&mut self, body: &[u8]) -> Result<(), Malformed> {
        self.tables.partition_keys.clear();
        self.tables.explicit_hash_keys.clear();
        self.items.clear();
        if i32::try_from(body.len()).is_err() {
            return Err(Malformed);
        }
        const PARTITION_KEY: u32 = tag(1, LENGTH_DELIMITED);
        const EXPLICIT_HASH_KEY: u32 = tag(2, LENGTH_DELIMITED);
        const RECORD: u32 = tag(3, LENGTH_DELIMITED);
        let mut reader = Reader::new(body);
        while let Some(tag) = reader.tag()? {
            match tag {
                RECORD => self.items.push(item(reader.message()?)?),
                PARTITION_KEY => self
                    .tables
                    .partition_keys
                    .push(Span::new(reader.length_delimited()?)),
                EXPLICIT_HASH_KEY => self
                    .tables
                    .explicit_hash_keys
                    .push(Span::new(reader.length_delimited()?)),
                unknown => reader.skip(unknown)?,
            }
        }
        Ok(())
    }

    /// Bytes held by the notes, in use or not.
    #[cfg(test)]
    fn footprint(&self) -> usize {
        self.tables.partition_keys.footprint()
            + self.tables.explicit_hash_keys.footprint()
            + self.items.capacity() * size_of::<Item>()
    }
}

#[inline]
fn item(mut reader: Reader<'_>) -> Result<Item, Malformed> {
    const PARTITION_KEY_INDEX: u32 = tag(1, VARINT);
    const EXPLICIT_HASH_KEY_INDEX: u32 = tag(2, VARINT);
    const DATA: u32 = tag(3, LENGTH_DELIMITED);
    const TAG: u32 = tag(4, LENGTH_DELIMITED);
    let (mut partition_key, mut explicit_hash_key, mut data) = (None, None, None);
    while let Some(tag) = reader.tag()? {
        match tag {
            PARTITION_KEY_INDEX => partition_key = Some(TableIndex::new(reader.varint()?)),
            EXPLICIT_HASH_KEY_INDEX => explicit_hash_key = Some(TableIndex::new(reader.varint()?)),
            DATA => data = Some(Span::new(reader.length_delimited()?)),
            TAG => check_tag(reader.message()?)?,
            unknown => reader.skip(unknown)?,
        }
    }
    Ok(Item {
        partition_key: partition_key.ok_or(Malformed)?,
        explicit_hash_key,
        data: data.ok_or(Malformed)?,
    })
}

fn check_tag(mut reader: Reader<'_>) -> Result<(), Malformed> {
    const KEY: u32 = tag(1, LENGTH_DELIMITED);
    let mut has_key = false;
    while let Some(tag) = reader.tag()? {
        has_key |= tag == KEY;
        reader.skip(tag)?;
    }
    if has_key { Ok(()) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::super::golden::unhex;
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn parse(body: &[u8]) -> Result<Contents, Malformed> {
        let mut contents = Contents::default();
        contents.parse(body).map(|()| contents)
    }

    /// Partition key index, explicit hash key index, data.
    type Plain = (i32, Option<i32>, Vec<u8>);

    fn items(body: &[u8]) -> Result<Vec<Plain>, Malformed> {
        let contents = parse(body)?;
        let plain = |item: &Item| {
            let explicit = item.explicit_hash_key.map(|index| index.0);
            (
                item.partition_key.0,
                explicit,
                body[item.data.range()].to_vec(),
            )
        };
        Ok(contents.items.iter().map(plain).collect())
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What was read from `body`, spelt as in `protobuf_java.txt`.
    fn spell(body: Bytes) -> String {
        let Ok(Contents { mut tables, items }) = parse(&body) else {
            return "ERR".to_owned();
        };
        let mut text = String::new();
        for (letter, table) in [
            ("p", &mut tables.partition_keys),
            ("e", &mut tables.explicit_hash_keys),
        ] {
            for index in 0..table.len() {
                text += letter;
                text += &hex(table.text(index, &body).as_bytes());
            }
        }
        for item in items {
            let explicit = item
                .explicit_hash_key
                .map_or("-".to_owned(), |index| index.0.to_string());
            text += &format!(
                "r{},{explicit},{}",
                item.partition_key.0,
                hex(&body[item.data.range()])
            );
        }
        text
    }

    #[test]
    fn reads_what_protobuf_java_reads() {
        let lines = include_str!("protobuf_java.txt")
            .lines()
            .filter(|line| !line.starts_with('#'));
        let mut refused = 0;
        for line in lines.clone() {
            let (body, expected) = line.split_once(' ').unwrap_or((line, ""));
            assert_eq!(spell(unhex(body)), expected, "{body}");
            refused += usize::from(expected == "ERR");
        }
        assert!(
            refused > 100 && lines.count() - refused > 200,
            "the file is whole"
        );
    }

    #[test]
    fn of_a_repeated_scalar_the_last_wins() {
        let body = b"\x1a\x0e\x08\x01\x10\x02\x1a\x01A\x08\x03\x10\x04\x1a\x01B";
        assert_eq!(items(body), Ok(vec![(3, Some(4), b"B".to_vec())]));
    }

    #[test]
    fn a_known_field_with_another_wire_type_is_an_unknown_field() {
        // In the outer message: field 1 as a varint, field 3 as 32 bits.
        assert_eq!(
            items(b"\x08\x05\x1d\x00\x00\x00\x00\x1a\x04\x08\x00\x1a\x00"),
            Ok(vec![(0, None, vec![])])
        );
        // In an item: field 1 as bytes beside the real one, field 3 as a varint beside the real one.
        assert_eq!(
            items(b"\x1a\x09\x0a\x01z\x18\x07\x08\x02\x1a\x00"),
            Ok(vec![(2, None, vec![])])
        );
        // A required field is not there if only another wire type is.
        assert_eq!(items(b"\x1a\x05\x0a\x01z\x1a\x00"), Err(Malformed));
        // In a tag: the key as a varint is no key.
        assert_eq!(
            items(b"\x1a\x08\x08\x00\x1a\x00\x22\x02\x08\x01"),
            Err(Malformed)
        );
        assert_eq!(
            items(b"\x1a\x08\x08\x00\x1a\x00\x22\x02\x0a\x00"),
            Ok(vec![(0, None, vec![])])
        );
    }

    #[test]
    fn an_index_is_cut_to_32_signed_bits() {
        for (wire, len, expected) in [
            (0, 1, Some(0)),
            (1, 1, None),
            (1 << 32, 1, Some(0)),
            ((1 << 32) + 2, 3, Some(2)),
            (1 << 31, usize::MAX, None),
            (u64::MAX, usize::MAX, None),
        ] {
            assert_eq!(TableIndex::new(wire).within(len), expected, "{wire}");
        }
    }

    #[test]
    fn an_item_may_not_reach_past_its_message() {
        assert_eq!(items(b"\x1a\x04\x08\x00\x1a\x01A"), Err(Malformed));
        assert_eq!(items(b"\x1a\x05\x08\x00\x1a\x01"), Err(Malformed));
        assert_eq!(
            items(b"\x1a\x80\x80\x80\x80\x08"),
            Err(Malformed),
            "negative length"
        );
    }

    #[test]
    fn the_notes_stay_a_small_multiple_of_the_payload() {
        let densest: [&[u8]; 3] = [b"\x0a\x00", b"\x12\x00", b"\x1a\x04\x08\x00\x1a\x00"];
        for field in densest {
            let body = field.repeat(10_000);
            let footprint = parse(&body).expect("well formed").footprint();
            assert!(
                footprint <= 12 * body.len(),
                "{footprint} bytes for {} of {field:x?}",
                body.len()
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body: Vec<u8>) {
            if let Ok(contents) = parse(&body) {
                // Vectors begin with room for four.
                prop_assert!(contents.footprint() <= 12 * body.len() + 8 * 12 + 4 * size_of::<Item>());
                for item in &contents.items {
                    prop_assert!(item.data.range().end <= body.len());
                }
            }
        }
    }
}
