//! Rule: how many user records are handled and not yet covered by a stored position – what a crash would repeat.
//!
//! Each batch leaves a mark: where it ends, and how many records there were until then. A stored position covers the
//! marks up to it. A position inside a batch covers the batches before it: the number is never too small, and too large
//! by less than two batches' records, or by more where marks had to be thinned out.

use std::collections::VecDeque;

use checkpoint::Position;

/// Beyond this, every second mark is dropped: a handler that never checkpoints must not use up memory.
const MOST_MARKS: usize = 128;

/// See above.
#[derive(Debug, Default)]
pub(super) struct Lag {
    handled: u64,
    covered: u64,
    /// Ends of batches beyond the stored position, and the records until there.
    marks: VecDeque<(Position, u64)>,
}

impl Lag {
    /// A batch of so many records that ends there is handled.
    pub(super) fn handled(&mut self, end: Position, records: u64) {
        self.handled += records;
        if self.marks.len() == MOST_MARKS {
            let mut odd = false;
            self.marks.retain(|_| {
                odd = !odd;
                !odd
            });
        }
        self.marks.push_back((end, self.handled));
    }

    /// Everything up to there is stored.
    pub(super) fn stored(&mut self, position: &Position) {
        while let Some((_, records)) = self.marks.pop_front_if(|(end, _)| *end <= *position) {
            self.covered = records;
        }
    }

    /// Records handled and not covered.
    pub(super) fn records(&self) -> u64 {
        self.handled - self.covered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sequence: u64, sub: u64) -> Position {
        Position::at(u128::from(sequence).into(), sub)
    }

    #[test]
    fn what_is_stored_no_longer_lags() {
        let mut lag = Lag::default();
        assert_eq!(lag.records(), 0);
        lag.handled(at(10, 4), 5);
        lag.handled(at(20, 0), 7);
        assert_eq!(lag.records(), 12);
        for (stored, left) in [
            (at(10, 3), 12),
            (at(10, 4), 7),
            (at(19, 9), 7),
            (at(20, 0), 0),
            (at(30, 0), 0),
        ] {
            lag.stored(&stored);
            assert_eq!(lag.records(), left, "{stored}");
        }
        lag.handled(at(40, 0), 1);
        assert_eq!(lag.records(), 1);
        lag.stored(&Position::ShardEnd);
        assert_eq!(lag.records(), 0);
    }

    #[test]
    fn marks_stay_few_and_the_number_never_too_small() {
        let mut lag = Lag::default();
        for batch in 1..=10_000 {
            lag.handled(at(batch, 0), 1);
            assert!(lag.marks.len() <= MOST_MARKS);
            assert_eq!(lag.records(), batch);
        }
        lag.stored(&at(9_000, 0));
        assert!(lag.records() >= 1_000);
        lag.stored(&at(10_000, 0));
        assert_eq!(lag.records(), 0);
    }
}
