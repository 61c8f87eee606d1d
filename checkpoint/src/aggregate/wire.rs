//! Protobuf as protobuf-java reads it.
//!
//! Whether a payload is an aggregate hangs on whether its protobuf parses, so this reader must agree with the KCL's on
//! every input. Library decoders do not, in three ways: they refuse a known field number with another wire type (Java
//! takes it for an unknown field), bits beyond the 64th of a varint or the 32nd of a tag or length (Java drops them),
//! and they count nested groups differently.

use std::ops::Range;

/// The bytes are not the protobuf message they were read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// What follows a tag; the low three bits of it.
pub(super) const VARINT: u32 = 0;
const FIXED64: u32 = 1;
pub(super) const LENGTH_DELIMITED: u32 = 2;
const START_GROUP: u32 = 3;
const END_GROUP: u32 = 4;
const FIXED32: u32 = 5;

/// How deep messages and groups may nest in protobuf-java.
const MAX_DEPTH: u32 = 100;

/// The tag of a field: its number and what follows it.
pub(super) const fn tag(field: u32, wire_type: u32) -> u32 {
    field << 3 | wire_type
}

/// Reads a stretch of a payload from front to back. Offsets count from the start of the payload.
pub(super) struct Reader<'a> {
    /// The payload up to where the message being read ends.
    bytes: &'a [u8],
    at: usize,
    /// How many messages are open around this one.
    depth: u32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            depth: 0,
        }
    }

    /// A reader of the message that a length-delimited field holds.
    pub(super) fn message(&mut self) -> Result<Self, Malformed> {
        let Range { start, end } = self.length_delimited()?;
        Ok(Self {
            bytes: &self.bytes[..end],
            at: start,
            depth: self.depth + 1,
        })
    }

    /// The next tag, or `None` at the end of the message.
    #[inline]
    pub(super) fn tag(&mut self) -> Result<Option<u32>, Malformed> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let tag = self.varint()? as u32;
        if tag >> 3 == 0 {
            Err(Malformed)
        } else {
            Ok(Some(tag))
        }
    }

    /// An unsigned number of at most ten bytes; what does not fit into 64 bits is dropped.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(Malformed)?;
            self.at += 1;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    /// Where the content of a length-delimited field lies; moves past it.
    #[inline]
    pub(super) fn length_delimited(&mut self) -> Result<Range<usize>, Malformed> {
        // Java reads a signed 32-bit length and refuses a negative one.
        let length = i32::try_from(self.varint()? as u32).map_err(|_| Malformed)?;
        self.forward(length as usize)
    }

    fn forward(&mut self, length: usize) -> Result<Range<usize>, Malformed> {
        if length > self.bytes.len() - self.at {
            return Err(Malformed);
        }
        let start = self.at;
        self.at += length;
        Ok(start..self.at)
    }

    /// Moves past a field that means nothing to the reader.
    pub(super) fn skip(&mut self, tag: u32) -> Result<(), Malformed> {
        match tag & 7 {
            VARINT => self.varint().map(drop),
            FIXED64 => self.forward(8).map(drop),
            LENGTH_DELIMITED => self.length_delimited().map(drop),
            START_GROUP => self.skip_group(tag >> 3),
            FIXED32 => self.forward(4).map(drop),
            // An end without a start, or a wire type that does not exist.
            _ => Err(Malformed),
        }
    }

    fn skip_group(&mut self, field: u32) -> Result<(), Malformed> {
        if self.depth >= MAX_DEPTH {
            return Err(Malformed);
        }
        self.depth += 1;
        loop {
            // A message that ends inside a group is broken.
            let inner = self.tag()?.ok_or(Malformed)?;
            if inner & 7 == END_GROUP {
                self.depth -= 1;
                return if inner == tag(field, END_GROUP) {
                    Ok(())
                } else {
                    Err(Malformed)
                };
            }
            self.skip(inner)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(bytes: &[u8]) -> Result<(), Malformed> {
        let mut reader = Reader::new(bytes);
        while let Some(tag) = reader.tag()? {
            reader.skip(tag)?;
        }
        Ok(())
    }

    #[test]
    fn varints_have_at_most_ten_bytes_and_drop_what_overflows() {
        for (bytes, expected) in [
            (&[0x00][..], Ok(0)),
            (&[0x7F], Ok(127)),
            (&[0x80, 0x01], Ok(128)),
            (&[0x80, 0x80, 0x00], Ok(0)),
            (
                &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
                Ok(u64::MAX),
            ),
            (
                &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F],
                Ok(u64::MAX),
            ),
            (
                &[
                    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00,
                ],
                Err(Malformed),
            ),
            (&[], Err(Malformed)),
            (&[0x80], Err(Malformed)),
        ] {
            assert_eq!(Reader::new(bytes).varint(), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn tags_and_lengths_are_cut_to_32_bits() {
        let mut reader = Reader::new(&[
            0x8A, 0x80, 0x80, 0x80, 0x10, 0x81, 0x80, 0x80, 0x80, 0x10, 0x61,
        ]);
        assert_eq!(reader.tag(), Ok(Some(tag(1, LENGTH_DELIMITED))));
        assert_eq!(reader.length_delimited(), Ok(10..11));
        assert_eq!(Reader::new(&[0x00]).tag(), Err(Malformed), "field number 0");
        assert_eq!(
            Reader::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F]).length_delimited(),
            Err(Malformed),
            "length -1"
        );
        assert_eq!(
            Reader::new(&[0x02, 0x61]).length_delimited(),
            Err(Malformed),
            "past the end"
        );
    }

    #[test]
    fn skips_every_wire_type_that_exists() {
        for (bytes, expected) in [
            (&[0x20, 0x80, 0x01][..], Ok(())),
            (&[0x21, 1, 2, 3, 4, 5, 6, 7, 8], Ok(())),
            (&[0x21, 1, 2, 3, 4, 5, 6, 7], Err(Malformed)),
            (&[0x22, 1, 2], Ok(())),
            (&[0x23, 0x08, 0x01, 0x24], Ok(())),
            (&[0x23, 0x08, 0x01, 0x2C], Err(Malformed)),
            (&[0x23, 0x08, 0x01], Err(Malformed)),
            (&[0x24], Err(Malformed)),
            (&[0x25, 1, 2, 3, 4], Ok(())),
            (&[0x25, 1, 2, 3], Err(Malformed)),
            (&[0x26], Err(Malformed)),
            (&[0x27], Err(Malformed)),
        ] {
            assert_eq!(skip(bytes), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn groups_nest_a_hundred_deep() {
        let nested = |depth| [vec![0x23; depth], vec![0x24; depth]].concat();
        assert_eq!(skip(&nested(100)), Ok(()));
        assert_eq!(skip(&nested(101)), Err(Malformed));
        // A message counts as one level.
        let in_message = |depth| {
            let body = nested(depth);
            let bytes = [
                vec![0x80 | (body.len() & 0x7F) as u8, (body.len() >> 7) as u8],
                body,
            ]
            .concat();
            let mut outer = Reader::new(&bytes);
            let mut inner = outer.message()?;
            while let Some(tag) = inner.tag()? {
                inner.skip(tag)?;
            }
            Ok(())
        };
        assert_eq!(in_message(99), Ok(()));
        assert_eq!(in_message(100), Err(Malformed));
    }
}
