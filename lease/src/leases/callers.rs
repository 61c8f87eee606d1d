//! Rule: who waits for a checkpoint, and when they are answered.
//!
//! A caller is answered exactly once: with "stored" as soon as a good answer of the table shows its position or a later
//! one, with "not stored" when the row is no longer held.

use checkpoint::Position;

use super::{Action, Caller, Leases};
use crate::{id::LeaseKey, renew::Tenure};

/// Who waits for which position of which row.
#[derive(Debug, Default)]
pub(super) struct Callers(Vec<(LeaseKey, Position, Caller)>);

impl Callers {
    /// Answers those whose position is stored by now. Returns whether others of the row still wait.
    fn stored(&mut self, key: &LeaseKey, stored: &Position, out: &mut Vec<Action>) -> bool {
        let mut open = false;
        self.0.retain(|(row, position, caller)| {
            let done = row == key && position <= stored;
            open |= row == key && !done;
            if done {
                out.push(answer(*caller, true));
            }
            !done
        });
        open
    }

    /// The row is no longer held: whoever still waits is told that the position is not stored.
    pub(super) fn lost(&mut self, key: &LeaseKey, out: &mut Vec<Action>) {
        self.0.retain(|(row, _, caller)| {
            if row == key {
                out.push(answer(*caller, false));
            }
            row != key
        });
    }
}

fn answer(caller: Caller, stored: bool) -> Action {
    Action::Answer { caller, stored }
}

impl Leases {
    /// A consumer wants a position stored: with the next write, which is due at once.
    pub(super) fn checkpoint(
        &mut self,
        key: LeaseKey,
        tenure: Tenure,
        position: Position,
        caller: Caller,
    ) {
        match self.held.get_mut(&key).filter(|held| held.tenure == tenure) {
            Some(held) if held.lease.checkpoint < position => {
                held.hurry();
                self.callers.0.push((key, position, caller));
            }
            Some(_) => self.out.push(answer(caller, true)),
            None => self.out.push(answer(caller, false)),
        }
    }

    /// This position of the row is stored. Returns whether somebody waits for a later one.
    pub(super) fn stored(&mut self, key: &LeaseKey, position: &Position) -> bool {
        self.callers.stored(key, position, &mut self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sequence: u128) -> Position {
        Position::at(sequence.into(), 0)
    }

    #[test]
    fn each_caller_is_answered_once_by_its_own_row() {
        let (a, b) = (LeaseKey::from("a"), LeaseKey::from("b"));
        let mut callers = Callers(vec![
            (a.clone(), at(2), Caller(1)),
            (b.clone(), at(1), Caller(2)),
            (a.clone(), at(3), Caller(3)),
        ]);
        let mut out = Vec::new();
        assert!(callers.stored(&a, &at(1), &mut out), "both wait");
        assert_eq!(out, []);
        assert!(callers.stored(&a, &at(2), &mut out), "one waits");
        assert_eq!(out, [answer(Caller(1), true)]);
        callers.lost(&a, &mut out);
        assert_eq!(out[1..], [answer(Caller(3), false)]);
        assert!(!callers.stored(&a, &Position::ShardEnd, &mut out));
        assert!(!callers.stored(&b, &Position::ShardEnd, &mut out));
        assert_eq!(out[2..], [answer(Caller(2), true)]);
    }
}
