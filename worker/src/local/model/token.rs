//! Opaque tokens (shard iterators, paging): a few fields, a checksum, base64. The checksum makes garbage and tampering
//! an error rather than a strange position.

/// Writes the fields of a token.
pub(crate) struct Seal(Vec<u8>);

impl Seal {
    /// `kind` tells tokens of different calls apart.
    pub(crate) fn new(kind: u8) -> Self {
        // Leading zeros as in the service's own iterators, which begin with a run of 'A'.
        Self(vec![0, 0, 0, 0, 0, 0, 0, 0, kind])
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn number(self, n: i64) -> Self {
        self.bytes(&n.to_be_bytes())
    }

    pub(crate) fn text(self, text: &str) -> Self {
        let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.bytes(&len.to_be_bytes())
            .bytes(&text.as_bytes()[..usize::from(len)])
    }

    pub(crate) fn close(mut self) -> String {
        let sum = checksum(&self.0);
        self.0.extend_from_slice(&sum.to_be_bytes());
        base64_simd::STANDARD.encode_to_string(self.0)
    }
}

/// Reads the fields of a token in the order they were written; `None` wherever it is not one of ours.
pub(crate) struct Opened {
    bytes: Vec<u8>,
    at: usize,
}

impl Opened {
    pub(crate) fn new(kind: u8, token: &str) -> Option<Self> {
        let mut bytes = base64_simd::STANDARD.decode_to_vec(token).ok()?;
        let body = bytes.len().checked_sub(8)?;
        let sum: [u8; 8] = bytes[body..].try_into().ok()?;
        bytes.truncate(body);
        let ours = checksum(&bytes) == u64::from_be_bytes(sum) && bytes.get(8) == Some(&kind);
        ours.then_some(Self { bytes, at: 9 })
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let end = self.at.checked_add(N)?;
        let out = self.bytes.get(self.at..end)?.try_into().ok()?;
        self.at = end;
        Some(out)
    }

    pub(crate) fn number(&mut self) -> Option<i64> {
        self.bytes().map(i64::from_be_bytes)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let len = usize::from(u16::from_be_bytes(self.bytes()?));
        let end = self.at.checked_add(len)?;
        let out = String::from_utf8(self.bytes.get(self.at..end)?.to_vec()).ok()?;
        self.at = end;
        Some(out)
    }
}

/// FNV-1a; against accidents, not against attackers.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| {
        (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_untouched_token_of_the_same_kind_opens() {
        let token = Seal::new(7).number(-5).text("größe").bytes(&[1, 2]).close();
        assert!(token.starts_with("AAAAAAAAAA"));
        let mut open = Opened::new(7, &token).expect("our own token");
        assert_eq!(
            (
                open.number(),
                open.text().as_deref(),
                open.bytes::<2>(),
                open.bytes::<1>()
            ),
            (Some(-5), Some("größe"), Some([1, 2]), None)
        );
        assert!(Opened::new(8, &token).is_none(), "another kind");
        assert!(Opened::new(7, "AAAAgarbage").is_none());
        assert!(Opened::new(7, "").is_none());
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'B' { b'C' } else { b'B' };
            let changed = String::from_utf8(bytes).expect("ascii");
            assert!(Opened::new(7, &changed).is_none(), "character {at} changed");
        }
    }
}
