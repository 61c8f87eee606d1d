//! When two states are the same: a fingerprint of 128 bits that is blind to what no rule can see.
//!
//! * **Time** counts from now, in ticks, rounded up: rules compare it with the present moment only, which is always a
//!   whole tick. What lies further back than every interval of the rules is "long ago".
//! * **Counters** count from the row's: rules ask which of two is greater, whether they are equal, and whether one is
//!   the other's successor. What lies further back than [`FAR`] is "far behind".
//! * **Sessions** count back from the present run of each worker: rules compare them for equality only.
//! * **The names of the two workers** can be exchanged: the plan breaks ties by name, but every side of every tie is
//!   explored (see `share.rs`).
//!
//! Most of that lies in private fields of the rules' own machines. They tell it to a [`Hasher`], which knows times and
//! counters by their size: time starts at [`EPOCH`] seconds, counters at [`FIRST`].

use std::{
    hash::{BuildHasherDefault, Hash, Hasher},
    time::Duration,
};

use lease::Time;

/// Where time starts, in seconds.
pub(crate) const EPOCH: u64 = 1_000_000_000;
/// Where counters start.
pub(crate) const FIRST: u64 = 1_000_000;
/// No run lasts longer, in seconds and in writes.
const MOST: u64 = 100_000;
/// A counter this far behind the row's is not told from one still further behind.
const FAR: u64 = 4;

/// What a fingerprint is relative to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lens {
    pub(crate) now: Time,
    pub(crate) tick: Duration,
    /// As long as the longest interval of the rules.
    pub(crate) long_ago: Duration,
    /// The row's counter.
    pub(crate) counter: u64,
    /// How often each worker restarted.
    pub(crate) runs: [u8; 2],
    /// The workers' names are exchanged.
    pub(crate) swapped: bool,
}

impl Lens {
    /// Sees every word as it is.
    pub(crate) fn of_words() -> Self {
        Lens {
            now: Time::ZERO,
            tick: Duration::MAX,
            long_ago: Duration::ZERO,
            counter: 0,
            runs: [0, 0],
            swapped: false,
        }
    }

    pub(crate) fn print(self, value: &impl Hash) -> u128 {
        let mut print = Print {
            lens: self,
            state: 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d,
            nanos: None,
        };
        value.hash(&mut print);
        print.state
    }

    /// Whole ticks from now on, rounded up; `i64::MIN` for long ago.
    fn ticks(self, secs: u64, nanos: u32) -> i64 {
        let at = Duration::new(secs, nanos);
        let now = self.now.since_origin();
        if at + self.long_ago <= now {
            return i64::MIN;
        }
        let tick = self.tick.as_nanos();
        // Shifted by what may lie in the past, so that rounding up is rounding up.
        let ticks = (at + self.long_ago - now).as_nanos().div_ceil(tick);
        i64::try_from(ticks).expect("a few ticks")
    }
}

struct Print {
    lens: Lens,
    state: u128,
    /// The seconds of a time whose nanoseconds come next.
    nanos: Option<u64>,
}

impl Print {
    fn mix(&mut self, word: u64) {
        // Each word in turn: a bijection of the state, so that nothing mixed in before is lost.
        let state = self.state ^ u128::from(word);
        let state = state.wrapping_mul(0x2d35_8dcc_aa6c_78a5_8bb8_4b93_962e_acc9);
        self.state = state ^ (state >> 67);
    }
}

impl Hasher for Print {
    fn write(&mut self, bytes: &[u8]) {
        match bytes {
            [worker @ (b'a' | b'b'), run @ ..] => {
                let worker = usize::from(*worker == b'b');
                self.mix(u64::from(b'a') + (worker ^ usize::from(self.lens.swapped)) as u64);
                match run {
                    // A session: how many runs ago it was.
                    [digit] => {
                        let ago = self.lens.runs[worker].wrapping_sub(digit - b'0');
                        self.mix(u64::from(ago));
                    }
                    _ => run.iter().for_each(|byte| self.mix(u64::from(*byte))),
                }
            }
            _ => bytes.iter().for_each(|byte| self.mix(u64::from(*byte))),
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.mix(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        match self.nanos.take() {
            Some(secs) => self.mix(self.lens.ticks(secs, word) as u64),
            None => self.mix(u64::from(word)),
        }
    }

    fn write_u64(&mut self, word: u64) {
        if (EPOCH..EPOCH + MOST).contains(&word) {
            self.nanos = Some(word);
        } else if (FIRST..FIRST + MOST).contains(&word) {
            // Counters that have been written are never ahead of the row's.
            self.mix(self.lens.counter.saturating_sub(word).min(FAR));
        } else {
            self.mix(word);
        }
    }

    fn write_u128(&mut self, word: u128) {
        self.mix(word as u64);
        self.mix((word >> 64) as u64);
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.mix(word as u64);
    }

    fn finish(&self) -> u64 {
        self.state as u64
    }
}

/// For tables whose keys are fingerprints: they are mixed well enough.
pub(crate) type Plain = BuildHasherDefault<Low>;

/// The lower half of a fingerprint.
#[derive(Default)]
pub(crate) struct Low(u64);

impl Hasher for Low {
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks_exact(8) {
            self.0 ^= u64::from_le_bytes(word.try_into().expect("eight bytes"));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.0 ^= u64::from(word);
    }

    fn write_u128(&mut self, word: u128) {
        self.0 ^= word as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[test]
fn a_fingerprint_sees_what_rules_see_and_nothing_else() {
    let tick = Duration::from_secs(5);
    let lens = |ticks: u32| Lens {
        now: Time::new(Duration::from_secs(EPOCH) + tick * ticks),
        tick,
        long_ago: tick * 3,
        counter: FIRST + u64::from(ticks),
        runs: [1, 1],
        swapped: false,
    };
    let at = |ticks: u32, millis| {
        Time::new(Duration::from_secs(EPOCH) + tick * ticks + Duration::from_millis(millis))
    };
    let (early, late) = (lens(4), lens(9));
    assert_eq!(early.print(&at(4, 0)), late.print(&at(9, 0)));
    assert_eq!(early.print(&at(4, 1)), late.print(&at(10, 0)), "rounded up");
    assert_ne!(early.print(&at(3, 0)), early.print(&at(4, 0)));
    assert_eq!(late.print(&at(0, 0)), late.print(&at(6, 0)), "long ago");
    assert_ne!(late.print(&at(7, 0)), late.print(&at(6, 0)));
    assert_eq!(early.print(&(FIRST + 4)), late.print(&(FIRST + 9)));
    assert_ne!(early.print(&(FIRST + 3)), early.print(&(FIRST + 4)));
    assert_eq!(late.print(&FIRST), late.print(&(FIRST + 5)), "far behind");
    let swapped = Lens {
        swapped: true,
        ..early
    };
    assert_eq!(
        Lens {
            runs: [0, 0],
            ..early
        }
        .print(&"a0"),
        early.print(&"a1")
    );
    assert_ne!(early.print(&"a0"), early.print(&"a1"));
    assert_eq!(early.print(&"a1"), swapped.print(&"b1"));
    assert_ne!(early.print(&"a1"), swapped.print(&"a1"));
}
