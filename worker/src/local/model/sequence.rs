//! Sequence numbers: 56 decimal digits, ordered within a shard and across a reshard.
//!
//! The number has 186 bits, laid out like the service's own (version 2), so that a client which looks inside finds what it
//! expects. From the top:
//!
//! | bits | meaning |
//! |---|---|
//! | 184..188 | 2, the version |
//! | 148..184 | when the shard was created, epoch seconds |
//! | 144..148 | low nibble of the shard index |
//! | 80..144 | index of the record in its shard, from 1 |
//! | 72..80 | 0 on a record, 1 on a place between two records |
//! | 36..72 | when the record arrived, epoch seconds |
//! | 4..36 | the shard index |
//! | 0..4 | 2, the version again |

use std::fmt;

/// How many decimal digits every sequence number has.
pub(crate) const DIGITS: usize = 56;

/// The record index in the ending sequence number of a closed shard: above that of any record.
const ENDING_INDEX: u64 = i64::MAX as u64;
const TEN_19: u64 = 10_000_000_000_000_000_000;
const MASK_36: u64 = (1 << 36) - 1;

/// A sequence number of this Kinesis; the order is that of the decimal numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence([u64; 3]);

/// The text is no sequence number that this Kinesis could have issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a sequence number")]
pub struct NotASequence;

/// The shard part shared by all sequence numbers of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Shard index in its stream.
    pub shard: u32,
    /// Creation time of the shard, epoch seconds; a child's is above its parents', so that its numbers are too.
    pub created_secs: u64,
}

impl Origin {
    /// The number of the record with this index.
    pub(crate) fn record(self, index: u64, now: i64) -> Sequence {
        Sequence::assemble(self, index, 0, now)
    }

    /// A place after the record with this index and before the next; `now` makes later places greater.
    pub(crate) fn place_after(self, index: u64, now: i64) -> Sequence {
        Sequence::assemble(self, index, 1, now)
    }

    /// The starting sequence number of the shard: below that of any record.
    pub(crate) fn start(self) -> Sequence {
        Sequence::assemble(
            self,
            0,
            0,
            i64::try_from(self.created_secs * 1000).unwrap_or(i64::MAX),
        )
    }

    /// The ending sequence number of the shard when closed at `now`.
    pub(crate) fn end(self, now: i64) -> Sequence {
        Sequence::assemble(self, ENDING_INDEX, 0, now)
    }
}

impl Sequence {
    fn assemble(origin: Origin, index: u64, mark: u64, now: i64) -> Self {
        let secs = u64::try_from(now.max(0) / 1000).unwrap_or(0) & MASK_36;
        let created = origin.created_secs & MASK_36;
        let shard = u64::from(origin.shard);
        Self([
            (2 << 56) | (created << 20) | ((shard & 0xF) << 16) | (index >> 48),
            (index << 16) | (mark << 8) | (secs >> 28),
            (secs << 36) | (shard << 4) | 2,
        ])
    }

    /// Reads decimal digits as issued by this Kinesis.
    ///
    /// # Errors
    /// [`NotASequence`] if the text is not all digits, or the number does not have the layout above.
    pub fn parse(text: &str) -> Result<Self, NotASequence> {
        if text.is_empty() || text.len() > DIGITS || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(NotASequence);
        }
        let mut limbs = [0u64; 3];
        for chunk in text.as_bytes().chunks(18) {
            let factor = 10u64.pow(u32::try_from(chunk.len()).map_err(|_| NotASequence)?);
            let digits = chunk.iter().fold(0u64, |n, b| n * 10 + u64::from(b - b'0'));
            multiply_add(&mut limbs, factor, digits);
        }
        let sequence = Self(limbs);
        let versions = (limbs[0] >> 56, limbs[2] & 0xF);
        let nibble = (limbs[0] >> 16) & 0xF;
        if versions == (2, 2) && nibble == u64::from(sequence.shard_index() & 0xF) {
            Ok(sequence)
        } else {
            Err(NotASequence)
        }
    }

    /// Index of the shard in its stream.
    #[must_use]
    pub fn shard_index(self) -> u32 {
        u32::try_from((self.0[2] >> 4) & 0xFFFF_FFFF).unwrap_or(u32::MAX)
    }

    /// Index of the record in its shard.
    pub(crate) fn index(self) -> u64 {
        ((self.0[0] & 0xFFFF) << 48) | (self.0[1] >> 16)
    }

    pub(crate) fn origin(self) -> Origin {
        Origin {
            shard: self.shard_index(),
            created_secs: (self.0[0] >> 20) & MASK_36,
        }
    }

    /// The least number above this one; not itself a number of any record.
    pub(crate) fn successor(self) -> Self {
        let mut limbs = self.0;
        multiply_add(&mut limbs, 1, 1);
        Self(limbs)
    }

    /// The decimal digits, always 56 of them.
    #[must_use]
    pub fn digits(self) -> [u8; DIGITS] {
        let mut out = [b'0'; DIGITS];
        let mut rest = self.0;
        let mut end = DIGITS;
        while end > 0 {
            let mut chunk = divide(&mut rest, TEN_19);
            let start = end.saturating_sub(19);
            for digit in out[start..end].iter_mut().rev() {
                *digit = b'0' + u8::try_from(chunk % 10).unwrap_or(0);
                chunk /= 10;
            }
            end = start;
        }
        out
    }

    pub(crate) fn to_bytes(self) -> [u8; 24] {
        let mut out = [0; 24];
        for (slot, limb) in out.chunks_exact_mut(8).zip(self.0) {
            slot.copy_from_slice(&limb.to_be_bytes());
        }
        out
    }

    pub(crate) fn from_bytes(bytes: [u8; 24]) -> Self {
        let mut limbs = [0; 3];
        for (limb, slot) in limbs.iter_mut().zip(bytes.chunks_exact(8)) {
            *limb = slot.iter().fold(0, |n, b| (n << 8) | u64::from(*b));
        }
        Self(limbs)
    }
}

/// `limbs * factor + addend`, most significant limb first, modulo 2^192.
fn multiply_add(limbs: &mut [u64; 3], factor: u64, addend: u64) {
    let mut carry = u128::from(addend);
    for limb in limbs.iter_mut().rev() {
        carry += u128::from(*limb) * u128::from(factor);
        *limb = low(carry);
        carry >>= 64;
    }
}

/// Divides in place and returns the remainder.
fn divide(limbs: &mut [u64; 3], by: u64) -> u64 {
    let mut rest = 0u128;
    for limb in limbs {
        let dividend = (rest << 64) | u128::from(*limb);
        *limb = low(dividend / u128::from(by));
        rest = dividend % u128::from(by);
    }
    low(rest)
}

/// The low 64 bits.
#[allow(clippy::cast_possible_truncation)] // cutting is the point
fn low(n: u128) -> u64 {
    n as u64
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_764_500_000_123;

    fn origin(shard: u32) -> Origin {
        Origin {
            shard,
            created_secs: 1_764_400_000,
        }
    }

    #[test]
    fn digits_and_parse_are_inverse() {
        for shard in [0, 1, 15, 16, 4_000_000_000] {
            for index in [0, 1, 255, 1 << 48, ENDING_INDEX] {
                let sequence = origin(shard).record(index, NOW);
                let text = sequence.to_string();
                assert_eq!(text.len(), DIGITS);
                assert!(
                    text.starts_with("49"),
                    "a 186-bit number of version 2: {text}"
                );
                assert_eq!(Sequence::parse(&text), Ok(sequence));
                assert_eq!(Sequence::from_bytes(sequence.to_bytes()), sequence);
                assert_eq!(
                    (sequence.origin(), sequence.index()),
                    (origin(shard), index)
                );
            }
        }
    }

    #[test]
    fn the_decimal_digits_are_those_of_the_number() {
        // 2^185 + 2, computed by hand: the smallest number of the layout.
        let zero = Origin {
            shard: 0,
            created_secs: 0,
        }
        .record(0, 0);
        assert_eq!(
            zero.to_string(),
            "49039857307708443467467104868809893875799651909875269634"
        );
        assert_eq!(
            zero.successor().to_string(),
            "49039857307708443467467104868809893875799651909875269635"
        );
    }

    #[test]
    fn order_is_record_then_place_then_next_record_then_end() {
        let o = origin(3);
        let ordered = [
            o.start(),
            o.record(1, NOW),
            o.place_after(1, NOW),
            o.place_after(1, NOW + 5000),
            o.record(2, NOW),
            o.end(NOW),
        ];
        for pair in ordered.windows(2) {
            assert!(pair[0] < pair[1], "{} < {}", pair[0], pair[1]);
            assert!(pair[0].to_string() < pair[1].to_string());
        }
        let child = Origin {
            shard: 0,
            created_secs: o.created_secs + 1,
        };
        assert!(
            child.start() > o.end(NOW),
            "a child's numbers are above its parent's"
        );
    }

    #[test]
    fn text_of_other_makers_is_refused() {
        let nines = "9".repeat(DIGITS);
        for text in [
            "",
            "0",
            "12a",
            "-1",
            "TRIM_HORIZON",
            "49039857307708443467467104868809893875799651909875269635",
            &nines,
        ] {
            assert_eq!(Sequence::parse(text), Err(NotASequence), "{text}");
        }
    }
}
