//! MD5 of several messages side by side.
//!
//! One MD5 is a chain in which each step waits for the one before, so a core hashes one message far below what it could
//! do. Here each of the [`LANES`] vector lanes hashes a message of its own. A lane that is done takes the next message;
//! the longest go first, so that lanes end together. When fewer than [`WORTHWHILE`] lanes have work, what is left is
//! hashed one by one with the `md-5` crate, as is everything on a processor without wide vectors.
//!
//! A message is hashed in two segments: its whole blocks where they lie, then the padded rest of it.

mod kernel;

use kernel::{BLOCK, Kernel, LANES, State};
use md5::block_api::compress;
use md5::{Digest, Md5};

/// The least number of messages for which the lanes are faster than one message after the other.
const WORTHWHILE: usize = 3;

/// The state every MD5 begins with.
const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The MD5 of each message.
pub(crate) fn digests(messages: &[&[u8]]) -> Vec<[u8; 16]> {
    match Kernel::detect() {
        Some(kernel) if messages.len() >= WORTHWHILE => side_by_side(messages, kernel),
        _ => messages
            .iter()
            .map(|message| Md5::digest(message).into())
            .collect(),
    }
}

fn side_by_side(messages: &[&[u8]], kernel: Kernel) -> Vec<[u8; 16]> {
    let mut digests = vec![[0; 16]; messages.len()];
    let mut waiting: Vec<usize> = (0..messages.len()).collect();
    waiting.sort_unstable_by_key(|index| messages[*index].len());

    let mut state: State = std::array::from_fn(|word| [START[word]; LANES]);
    let mut lanes = [const { None }; LANES];
    loop {
        for (column, lane) in lanes.iter_mut().enumerate() {
            if lane.is_none()
                && let Some(index) = waiting.pop()
            {
                *lane = Some(Lane::new(index, messages[index]));
                set_column(&mut state, column, START);
            }
        }
        let busy = || lanes.iter().flatten();
        let Some(blocks) = busy().map(|lane| lane.segment().len()).min() else {
            return digests;
        };
        if busy().count() < WORTHWHILE {
            for (column, lane) in lanes.iter_mut().enumerate() {
                if let Some(lane) = lane.take() {
                    digests[lane.index] = lane.finish(get_column(&state, column));
                }
            }
            continue;
        }
        // A lane without work repeats what another does; nobody reads its column.
        let spare = busy().next().map_or(&[][..], Lane::segment);
        let segments = std::array::from_fn(|column| {
            &lanes[column].as_ref().map_or(spare, Lane::segment)[..blocks]
        });
        kernel.compress(&mut state, segments);
        for (column, slot) in lanes.iter_mut().enumerate() {
            if let Some(lane) = slot
                && lane.advance(blocks)
            {
                digests[lane.index] = spell(get_column(&state, column));
                *slot = None;
            }
        }
    }
}

/// One message on its way through a lane.
struct Lane<'a> {
    /// Which message it is.
    index: usize,
    /// Whole blocks of the message that are not hashed yet.
    whole: &'a [[u8; BLOCK]],
    /// The rest of the message, a 1 bit, zeros, and the message's length in bits.
    padded: [[u8; BLOCK]; 2],
    /// The blocks of `padded` that are not hashed yet: from here to the end.
    next_padded: usize,
}

impl<'a> Lane<'a> {
    fn new(index: usize, message: &'a [u8]) -> Self {
        let (whole, rest) = message.as_chunks::<BLOCK>();
        let mut padded = [[0; BLOCK]; 2];
        // The mark and the length take nine bytes; where they do not fit, one more block is needed.
        let next_padded = usize::from(rest.len() + 9 <= BLOCK);
        let first = &mut padded[next_padded];
        first[..rest.len()].copy_from_slice(rest);
        first[rest.len()] = 0x80;
        let bits = (message.len() as u64).wrapping_mul(8);
        padded[1][BLOCK - 8..].copy_from_slice(&bits.to_le_bytes());
        Self {
            index,
            whole,
            padded,
            next_padded,
        }
    }

    /// What to hash next.
    fn segment(&self) -> &[[u8; BLOCK]] {
        if self.whole.is_empty() {
            &self.padded[self.next_padded..]
        } else {
            self.whole
        }
    }

    /// Notes that this many blocks of the segment are hashed; says whether that was all.
    fn advance(&mut self, blocks: usize) -> bool {
        if self.whole.is_empty() {
            self.next_padded += blocks;
        } else {
            self.whole = &self.whole[blocks..];
        }
        self.next_padded == self.padded.len()
    }

    /// Hashes what is left without the lanes.
    fn finish(&self, mut state: [u32; 4]) -> [u8; 16] {
        compress(&mut state, self.whole);
        compress(&mut state, &self.padded[self.next_padded..]);
        spell(state)
    }
}

fn get_column(state: &State, column: usize) -> [u32; 4] {
    state.map(|word| word[column])
}

fn set_column(state: &mut State, column: usize, words: [u32; 4]) {
    for (lanes, word) in state.iter_mut().zip(words) {
        lanes[column] = word;
    }
}

fn spell(state: [u32; 4]) -> [u8; 16] {
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one_by_one(messages: &[&[u8]]) -> Vec<[u8; 16]> {
        messages
            .iter()
            .map(|message| Md5::digest(message).into())
            .collect()
    }

    /// Every way to compute digests that this machine has.
    fn check(messages: &[&[u8]]) {
        let expected = one_by_one(messages);
        assert_eq!(digests(messages), expected);
        for kernel in Kernel::all() {
            assert_eq!(side_by_side(messages, kernel), expected, "{kernel:?}");
        }
    }

    #[test]
    fn agrees_with_the_crate_at_every_length() {
        let bytes: Vec<u8> = (0..300).map(|n| (n * 7 + n / 11) as u8).collect();
        for length in 0..=300 {
            check(&[&bytes[..length]; LANES + 1]);
        }
        let every: Vec<&[u8]> = (0..=300).map(|length| &bytes[..length]).collect();
        check(&every);
        check(&[]);
    }

    #[test]
    fn a_long_message_beside_short_ones() {
        let long = vec![0x5A; 10_000];
        check(&[&long[..3], &long, &long[..64], &long[1..]]);
        let mut many = vec![&long[..100]; 2 * LANES];
        many[5] = &long;
        check(&many);
    }

    proptest! {
        #[test]
        fn agrees_with_the_crate_on_unequal_messages(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..40)) {
            check(&messages.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }
}
