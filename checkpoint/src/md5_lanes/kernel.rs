//! The compression function of MD5 (RFC 1321) over vector lanes.
//!
//! It is written over plain arrays; compiled for AVX2 or AVX-512 the loops over lanes become vector instructions.
#![allow(unsafe_code)] // a function compiled for instructions that not every processor has is unsafe to call

/// How many messages are hashed side by side: two AVX2 vectors, whose instructions fill each other's waits.
pub(super) const LANES: usize = 16;
/// Bytes hashed at once.
pub(super) const BLOCK: usize = 64;

type Vector = [u32; LANES];
/// The four words of an MD5 state, each for all lanes.
pub(super) type State = [Vector; 4];
/// Equally many blocks for each lane.
type Segments<'a> = [&'a [[u8; BLOCK]]; LANES];

/// A kernel that this processor can run; there is no other way to get one than to ask the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kernel(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // elsewhere there is none
enum Instructions {
    Avx512,
    Avx2,
}

impl Kernel {
    /// The fastest kernel of this processor, if it has any.
    pub(super) fn detect() -> Option<Self> {
        [Instructions::Avx512, Instructions::Avx2]
            .into_iter()
            .find(|kind| kind.is_available())
            .map(Self)
    }

    /// Every kernel of this processor.
    #[cfg(test)]
    pub(super) fn all() -> impl Iterator<Item = Self> {
        [Instructions::Avx512, Instructions::Avx2]
            .into_iter()
            .filter(|kind| kind.is_available())
            .map(Self)
    }

    /// Hashes one segment in each lane. All must have as many blocks as the first.
    pub(super) fn compress(self, state: &mut State, segments: Segments<'_>) {
        #[cfg(target_arch = "x86_64")]
        match self.0 {
            // SAFETY: a `Kernel` is made only after `is_available` found its instructions on this processor.
            Instructions::Avx512 => unsafe { avx512(state, segments) },
            // SAFETY: as above.
            Instructions::Avx2 => unsafe { avx2(state, segments) },
        }
        #[cfg(not(target_arch = "x86_64"))]
        compress(state, segments);
    }
}

impl Instructions {
    #[cfg(target_arch = "x86_64")]
    fn is_available(self) -> bool {
        match self {
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl")
            }
            Self::Avx2 => is_x86_feature_detected!("avx2"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_available(self) -> bool {
        false
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl")]
fn avx512(state: &mut State, segments: Segments<'_>) {
    compress(state, segments);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(state: &mut State, segments: Segments<'_>) {
    compress(state, segments);
}

/// Inlined into each of its callers, so that it is compiled for the instructions each may use.
#[inline(always)]
fn compress(state: &mut State, segments: Segments<'_>) {
    let blocks = segments[0].len();
    // Known to be equally long, the segments need no check for each block.
    let segments = segments.map(|segment| &segment[..blocks]);
    for index in 0..blocks {
        let words = transpose(segments.map(|segment| &segment[index]));
        let mut round = *state;
        round = sixteen_steps(round, &words, &ROUNDS[0], |b, c, d| d ^ (b & (c ^ d)));
        round = sixteen_steps(round, &words, &ROUNDS[1], |b, c, d| (d & b) | (!d & c));
        round = sixteen_steps(round, &words, &ROUNDS[2], |b, c, d| b ^ c ^ d);
        round = sixteen_steps(round, &words, &ROUNDS[3], |b, c, d| c ^ (b | !d));
        for (total, word) in state.iter_mut().zip(round) {
            for lane in 0..LANES {
                total[lane] = total[lane].wrapping_add(word[lane]);
            }
        }
    }
}

#[inline(always)]
fn sixteen_steps(
    mut state: State,
    words: &[Vector; 16],
    round: &Round,
    mix: impl Fn(u32, u32, u32) -> u32 + Copy,
) -> State {
    // Spelt out: as a loop, the compiler would keep the state in memory between steps.
    macro_rules! steps {
        ($($step:literal)*) => {$(
            let word = &words[(round.first + round.stride * $step) % 16];
            state = step(state, word, round.sines[$step], round.shifts[$step % 4], mix);
        )*};
    }
    steps!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    state
}

/// One step in every lane; the words of the state change places after it.
#[inline(always)]
fn step(
    [a, b, c, d]: State,
    word: &Vector,
    sine: u32,
    shift: u32,
    mix: impl Fn(u32, u32, u32) -> u32,
) -> State {
    let mut next = [0; LANES];
    for lane in 0..LANES {
        let sum = a[lane].wrapping_add(mix(b[lane], c[lane], d[lane]));
        let sum = sum.wrapping_add(sine).wrapping_add(word[lane]);
        next[lane] = b[lane].wrapping_add(sum.rotate_left(shift));
    }
    [d, next, b, c]
}

/// The sixteen words of a block, each for all lanes.
#[inline(always)]
fn transpose(blocks: [&[u8; BLOCK]; LANES]) -> [Vector; 16] {
    let mut words = [[0; LANES]; 16];
    for (word, lanes) in words.iter_mut().enumerate() {
        for (lane, block) in lanes.iter_mut().zip(blocks) {
            *lane = u32::from_le_bytes(block.as_chunks::<4>().0[word]);
        }
    }
    words
}

/// What differs between the four rounds, besides the function that mixes.
struct Round {
    /// The word used in the first step, and how far on it is in each next one.
    first: usize,
    stride: usize,
    shifts: [u32; 4],
    /// The whole part of 2^32 · |sin(n)| for the step numbers n of this round, in radians.
    sines: [u32; 16],
}

#[rustfmt::skip]
const ROUNDS: [Round; 4] = [
    Round { first: 0, stride: 1, shifts: [7, 12, 17, 22], sines: [
        0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee,
        0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
        0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be,
        0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    ] },
    Round { first: 1, stride: 5, shifts: [5, 9, 14, 20], sines: [
        0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa,
        0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
        0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed,
        0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    ] },
    Round { first: 5, stride: 3, shifts: [4, 11, 16, 23], sines: [
        0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c,
        0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
        0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05,
        0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    ] },
    Round { first: 0, stride: 7, shifts: [6, 10, 15, 21], sines: [
        0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039,
        0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
        0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1,
        0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
    ] },
];
