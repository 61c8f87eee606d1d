//! The number Kinesis gives each record of a shard.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use bytes::Bytes;
use thiserror::Error;

/// A Kinesis sequence number: decimal digits, kept exactly as they were received.
///
/// Two sequence numbers are compared as integers of any size, so `"007"` equals `"7"` and is less than `"10"`; a lease
/// table that was written by the KCL stays readable because [`as_str`](Self::as_str) gives the digits back verbatim.
/// The digits live in a [`Bytes`]: a clone counts a reference, and a number can be a slice of the buffer it arrived in.
#[derive(Clone)]
pub struct SequenceNumber(Bytes);

/// Why a text is not a sequence number.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SequenceNumberError {
    /// There was nothing to read.
    #[error("a sequence number is empty")]
    Empty,
    /// More digits than the API of Kinesis allows; carries how many there were.
    #[error("a sequence number has {0} digits; Kinesis allows at most {max}", max = SequenceNumber::MAX_DIGITS)]
    TooLong(usize),
    /// A byte that is not an ASCII digit; `offset` counts bytes from 0.
    #[error(
        "sequence number {text:?} has a character at byte {offset} that is not a decimal digit"
    )]
    NotADigit {
        /// The whole text, with U+FFFD for bytes that are not UTF-8.
        text: String,
        /// Where the first such byte stands.
        offset: usize,
    },
}

impl SequenceNumber {
    /// The longest sequence number the API of Kinesis accepts (pattern `0|([1-9]\d{0,128})`).
    pub const MAX_DIGITS: usize = 129;

    /// Reads a sequence number from a buffer without copying it.
    ///
    /// # Errors
    /// When the bytes are not 1 to [`MAX_DIGITS`](Self::MAX_DIGITS) ASCII digits.
    pub fn from_bytes(digits: Bytes) -> Result<Self, SequenceNumberError> {
        check(&digits)?;
        Ok(Self(digits))
    }

    /// The digits exactly as received, leading zeros included.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("only ASCII digits get past `check`")
    }

    /// The same number in a buffer of its own: what is kept for long must not keep a whole answer of Kinesis alive.
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// The digits without leading zeros; `"0"` and `"000"` both give an empty slice.
    fn significant(&self) -> &[u8] {
        let zeros = self.0.iter().take_while(|digit| **digit == b'0').count();
        &self.0[zeros..]
    }
}

fn check(digits: &[u8]) -> Result<(), SequenceNumberError> {
    if digits.is_empty() {
        return Err(SequenceNumberError::Empty);
    }
    if digits.len() > SequenceNumber::MAX_DIGITS {
        return Err(SequenceNumberError::TooLong(digits.len()));
    }
    match digits.iter().position(|byte| !byte.is_ascii_digit()) {
        None => Ok(()),
        Some(offset) => {
            let text = String::from_utf8_lossy(digits).into_owned();
            Err(SequenceNumberError::NotADigit { text, offset })
        }
    }
}

impl FromStr for SequenceNumber {
    type Err = SequenceNumberError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        check(text.as_bytes())?;
        Ok(Self(Bytes::copy_from_slice(text.as_bytes())))
    }
}

impl TryFrom<String> for SequenceNumber {
    type Error = SequenceNumberError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::from_bytes(Bytes::from(text))
    }
}

impl From<u128> for SequenceNumber {
    fn from(number: u128) -> Self {
        Self(Bytes::from(number.to_string()))
    }
}

impl Ord for SequenceNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.significant(), other.significant());
        ours.len().cmp(&theirs.len()).then_with(|| ours.cmp(theirs))
    }
}

impl PartialOrd for SequenceNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SequenceNumber {
    fn eq(&self, other: &Self) -> bool {
        self.significant() == other.significant()
    }
}

impl Eq for SequenceNumber {}

impl Hash for SequenceNumber {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.significant().hash(state);
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn number(text: &str) -> SequenceNumber {
        text.parse().expect("a test gives digits")
    }

    #[test]
    fn compares_as_integers() {
        for (a, b, expected) in [
            ("7", "007", Ordering::Equal),
            ("0", "000", Ordering::Equal),
            ("9", "10", Ordering::Less),
            ("0099", "100", Ordering::Less),
            ("2", "0010", Ordering::Less),
            (
                "49590338271490256608559692538361571095921575989136588898",
                "49590338271490256608559692538361571095921575989136588899",
                Ordering::Less,
            ),
        ] {
            assert_eq!(number(a).cmp(&number(b)), expected, "{a} against {b}");
            assert_eq!(
                number(b).cmp(&number(a)),
                expected.reverse(),
                "{b} against {a}"
            );
            assert_eq!(
                number(a) == number(b),
                expected == Ordering::Equal,
                "{a} against {b}"
            );
        }
    }

    #[test]
    fn equal_numbers_hash_alike_and_stay_verbatim() {
        let seen: HashSet<_> = ["7", "007", "8"].map(number).into_iter().collect();
        assert_eq!(seen.len(), 2);
        assert_eq!(number("007").as_str(), "007");
        assert_eq!(number("007").to_string(), "007");
    }

    #[test]
    fn is_a_slice_of_the_buffer_it_came_in() {
        let wire = Bytes::from_static(b"xx123yy");
        let sequence = SequenceNumber::from_bytes(wire.slice(2..5)).expect("digits");
        assert_eq!(sequence.as_str().as_ptr(), wire[2..].as_ptr());
        assert_eq!(sequence.clone().as_str().as_ptr(), wire[2..].as_ptr());
    }

    #[test]
    fn detached_it_keeps_no_buffer_alive() {
        let page = Bytes::from(vec![b'7'; 1 << 10]);
        let number = SequenceNumber::from_bytes(page.slice(..20)).unwrap();
        let own = number.detached();
        assert_eq!(own, number);
        drop(number);
        assert!(page.is_unique(), "only the page itself is left");
    }

    #[test]
    fn refuses_what_is_not_a_number_and_says_where() {
        assert_eq!(
            "".parse::<SequenceNumber>(),
            Err(SequenceNumberError::Empty)
        );
        let not_a_digit = |text: &str, offset| {
            Err(SequenceNumberError::NotADigit {
                text: text.into(),
                offset,
            })
        };
        for (text, offset) in [
            ("12a4", 2),
            ("-1", 0),
            ("+1", 0),
            (" 1", 0),
            ("1.0", 1),
            ("1\u{661}", 1),
        ] {
            assert_eq!(text.parse::<SequenceNumber>(), not_a_digit(text, offset));
        }
        let longest = "9".repeat(SequenceNumber::MAX_DIGITS);
        assert!(longest.parse::<SequenceNumber>().is_ok());
        assert_eq!(
            (longest + "0").parse::<SequenceNumber>(),
            Err(SequenceNumberError::TooLong(130))
        );
        let message = SequenceNumber::from_bytes(Bytes::from_static(b"1\xff"))
            .expect_err("not UTF-8")
            .to_string();
        assert_eq!(
            message,
            "sequence number \"1\u{fffd}\" has a character at byte 1 that is not a decimal digit"
        );
    }

    proptest! {
        #[test]
        fn agrees_with_machine_integers(a: u64, b: u64, zeros_a in 0usize..4, zeros_b in 0usize..4) {
            let left = number(&format!("{}{a}", "0".repeat(zeros_a)));
            let right = number(&format!("{}{b}", "0".repeat(zeros_b)));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            prop_assert_eq!(left == right, a == b);
        }
    }
}
