//! Text that shares the buffer it arrived in.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::Utf8Error;

use bytes::Bytes;

/// A UTF-8 string inside a [`Bytes`]: a clone counts a reference, and a partition key can be a slice of its record.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteStr(Bytes);

// `derive(Hash)` would hash as a byte slice does, which is not as `str` does; `Borrow<str>` promises the latter.
impl std::hash::Hash for ByteStr {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl ByteStr {
    /// Text that lives as long as the program.
    pub const fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// Takes bytes as text without copying them.
    ///
    /// # Errors
    /// When they are not UTF-8.
    pub fn from_utf8(bytes: Bytes) -> Result<Self, Utf8Error> {
        std::str::from_utf8(&bytes)?;
        Ok(Self(bytes))
    }

    /// Takes bytes as text; what is not UTF-8 becomes U+FFFD, in the way a Java `String` does it.
    ///
    /// Valid bytes are not copied. Java and Rust agree on how many U+FFFD a broken sequence gives, save for an encoded
    /// surrogate (`ED A0..BF ..`), which is one in Java. The difference matters because the KCL hashes the replaced
    /// text to decide whether a record belongs to a shard.
    pub fn from_utf8_lossy(bytes: Bytes) -> Self {
        if std::str::from_utf8(&bytes).is_ok() {
            return Self(bytes);
        }
        Self(Bytes::from(lossy_as_java(&bytes)))
    }

    /// Takes bytes that were found to be UTF-8 before, without looking again.
    pub(crate) fn from_checked(bytes: Bytes) -> Self {
        debug_assert!(std::str::from_utf8(&bytes).is_ok());
        Self(bytes)
    }

    /// The text. Checks again that it is UTF-8, which costs about as much as comparing it.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("only UTF-8 gets past the constructors")
    }

    /// The same as bytes, at no cost.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Gives the buffer up.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

fn lossy_as_java(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 8);
    // Rust sees an encoded surrogate as up to three broken pieces; `surrogate` counts those already answered for.
    let mut surrogate = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.valid().is_empty() {
            surrogate = 0;
        }
        surrogate = match (surrogate, chunk.invalid()) {
            (_, []) => 0,
            (1, [0xA0..=0xBF]) => 2,
            (2, [0x80..=0xBF]) => 0,
            (_, broken) => {
                text.push(char::REPLACEMENT_CHARACTER);
                usize::from(broken == [0xED])
            }
        };
    }
    text
}

impl Deref for ByteStr {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for ByteStr {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<[u8]> for ByteStr {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<str> for ByteStr {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<String> for ByteStr {
    fn from(text: String) -> Self {
        Self(Bytes::from(text))
    }
}

impl From<&str> for ByteStr {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl PartialEq<str> for ByteStr {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for ByteStr {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl fmt::Display for ByteStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ByteStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lossy(bytes: &'static [u8]) -> String {
        ByteStr::from_utf8_lossy(Bytes::from_static(bytes)).to_string()
    }

    #[test]
    fn replaces_as_java_does() {
        for (bytes, expected) in [
            (&b"ab"[..], "ab"),
            (b"\xffA", "\u{fffd}A"),
            (b"\xe2\x82A", "\u{fffd}A"),
            (b"\xf0\x9f\x98", "\u{fffd}"),
            (b"\xc0\x80", "\u{fffd}\u{fffd}"),
            (b"\xed\xa0\x80A", "\u{fffd}A"),
            (b"\xed\xa0A", "\u{fffd}A"),
            (b"\xed\xa0\x80\xed\xb0\x80", "\u{fffd}\u{fffd}"),
            (b"\xed\xa0\x80\x80", "\u{fffd}\u{fffd}"),
            (b"\xedA\xa0", "\u{fffd}A\u{fffd}"),
            (b"\xed\x9f\xbf", "\u{d7ff}"),
        ] {
            assert_eq!(lossy(bytes), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn valid_text_is_not_copied() {
        let wire = Bytes::from_static("héllo".as_bytes());
        let text = ByteStr::from_utf8_lossy(wire.clone());
        assert_eq!(text.as_bytes().as_ptr(), wire.as_ptr());
        assert_eq!(text, "héllo");
        assert!(ByteStr::from_utf8(Bytes::from_static(b"\xff")).is_err());
    }

    #[test]
    fn is_found_in_a_map_by_str() {
        let set = std::collections::HashSet::from([ByteStr::from("key")]);
        assert!(set.contains("key"));
    }

    proptest! {
        #[test]
        fn is_rusts_own_replacement_where_no_surrogate_is(bytes: Vec<u8>) {
            prop_assume!(!bytes.windows(2).any(|pair| pair[0] == 0xED && pair[1] >= 0xA0));
            prop_assert_eq!(lossy_as_java(&bytes), String::from_utf8_lossy(&bytes));
        }
    }
}
