//! MD5 of several messages.

use md5::{Digest, Md5};

/// The digest of each message.
pub(crate) fn digests(messages: &[&[u8]]) -> Vec<[u8; 16]> {
    messages
        .iter()
        .map(|message| Md5::digest(message).into())
        .collect()
}
