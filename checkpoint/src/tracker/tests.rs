//! Cases, every order of six settles, and a plain model under random operations.

use super::*;
use proptest::prelude::*;

fn at(sequence: u128, sub_sequence: u64) -> Position {
    Position::at(sequence.into(), sub_sequence)
}

fn admitted(positions: &[Position]) -> (Tracker, Vec<Ticket>) {
    let mut tracker = Tracker::new(Some(Position::TrimHorizon));
    let tickets = positions
        .iter()
        .map(|position| tracker.admit(position.clone()).expect("in order"))
        .collect();
    (tracker, tickets)
}

/// Calls `visit` with every order of `items`.
fn orders(items: &mut Vec<usize>, fixed: usize, visit: &mut impl FnMut(&[usize])) {
    if fixed == items.len() {
        return visit(items);
    }
    for next in fixed..items.len() {
        items.swap(fixed, next);
        orders(items, fixed + 1, visit);
        items.swap(fixed, next);
    }
}

#[test]
fn every_order_of_six_settles() {
    // Two plain records around an aggregate of four.
    let positions = [at(1, 0), at(2, 0), at(2, 1), at(2, 2), at(2, 3), at(10, 0)];
    let mut seen = 0;
    orders(&mut (0..6).collect(), 0, &mut |order| {
        seen += 1;
        let (mut tracker, tickets) = admitted(&positions);
        let mut settled = [false; 6];
        for (done, index) in order.iter().enumerate() {
            assert_eq!(tracker.settle(tickets[*index]), Ok(true));
            assert_eq!(
                tracker.settle(tickets[*index]),
                Ok(false),
                "the second time"
            );
            settled[*index] = true;
            let contiguous = settled.iter().take_while(|settled| **settled).count();
            let expected = contiguous.checked_sub(1).map(|last| &positions[last]);
            assert_eq!(tracker.watermark(), expected, "{order:?} after {done}");
            assert_eq!(tracker.oldest_unsettled(), positions.get(contiguous));
            assert_eq!(tracker.unsettled(), 5 - done);
        }
        assert_eq!(tracker.watermark(), tracker.largest());
    });
    assert_eq!(seen, 720);
}

#[test]
fn records_are_admitted_in_order() {
    let mut tracker = Tracker::new(Some(at(5, 1)));
    for position in [at(4, 9), at(5, 0), at(5, 1), Position::Latest] {
        let largest = at(5, 1);
        assert_eq!(
            tracker.admit(position.clone()),
            Err(OutOfOrder { position, largest })
        );
    }
    assert_eq!((tracker.unsettled(), tracker.watermark()), (0, None));
    let ticket = tracker.admit(at(5, 2)).expect("after the start");
    assert!(tracker.admit(at(5, 2)).is_err(), "the same again");
    assert_eq!(tracker.largest(), Some(&at(5, 2)));
    assert_eq!(tracker.settle(ticket), Ok(true));
    assert_eq!(tracker.watermark(), Some(&at(5, 2)));
}

#[test]
fn a_foreign_ticket_is_refused() {
    let (mut tracker, tickets) = admitted(&[at(1, 0)]);
    let foreign = Ticket(tickets[0].0 + 1);
    assert_eq!(tracker.settle(foreign), Err(UnknownTicket(foreign)));
    assert_eq!(tracker.unsettled(), 1);
}

#[test]
fn the_shard_end_waits_for_every_record() {
    let (mut tracker, tickets) = admitted(&[at(1, 0), Position::ShardEnd]);
    assert_eq!(tracker.settle(tickets[1]), Ok(true));
    assert_eq!(tracker.watermark(), None);
    assert!(
        tracker.admit(at(2, 0)).is_err(),
        "nothing comes after the end"
    );
    assert_eq!(tracker.settle(tickets[0]), Ok(true));
    assert_eq!(tracker.watermark(), Some(&Position::ShardEnd));
}

#[test]
fn a_checkpoint_stands_where_it_was_asked_for() {
    let (mut tracker, tickets) = admitted(&[at(1, 0), at(3, 0), at(3, 1), at(3, 2), at(4, 0)]);
    assert_eq!(tracker.settle_through(&at(2, 7)), Ok(1));
    assert_eq!(
        tracker.watermark(),
        Some(&at(2, 7)),
        "no record there, but nothing unsettled before it"
    );
    assert_eq!(tracker.settle_through(&at(3, 0)), Ok(1));
    assert_eq!(
        tracker.watermark(),
        Some(&at(3, 0)),
        "the items after the first are not done"
    );
    assert_eq!(tracker.settle_through(&at(3, 0)), Ok(0), "again");
    assert_eq!(tracker.settle(tickets[3]), Ok(true));
    assert_eq!(tracker.settle_through(&at(3, 1)), Ok(1));
    assert_eq!(
        tracker.watermark(),
        Some(&at(3, 2)),
        "what had settled moves it on"
    );
    assert_eq!(
        tracker.settle(tickets[1]),
        Ok(false),
        "settled by the checkpoint"
    );
}

#[test]
fn a_checkpoint_out_of_range_is_refused() {
    let (mut tracker, _) = admitted(&[at(2, 0), at(3, 0)]);
    assert_eq!(
        tracker.settle_through(&Position::TrimHorizon),
        Ok(0),
        "where it stands"
    );
    for sentinel in [Position::Latest, Position::AtTimestamp] {
        assert_eq!(
            tracker.settle_through(&sentinel),
            Err(SettleThroughError::Sentinel(sentinel))
        );
    }
    for position in [at(3, 1), Position::ShardEnd] {
        let largest = Some(at(3, 0));
        assert_eq!(
            tracker.settle_through(&position.clone()),
            Err(SettleThroughError::Beyond { position, largest })
        );
    }
    assert_eq!(tracker.settle_through(&at(2, 0)), Ok(1));
    let refused = SettleThroughError::Before {
        position: at(1, 0),
        last: at(2, 0),
    };
    assert_eq!(
        refused.to_string(),
        "position 1/0 is before 2/0, which is already done"
    );
    assert_eq!(tracker.settle_through(&at(1, 0)), Err(refused));
    assert_eq!(
        Tracker::new(None)
            .settle_through(&at(1, 0))
            .expect_err("nothing yet")
            .to_string(),
        "position 1/0 is beyond nothing, the last one handed over"
    );
    assert_eq!(
        (tracker.watermark(), tracker.unsettled()),
        (Some(&at(2, 0)), 1)
    );
}

/// The plainest thing that keeps the rule: a list of everything ever admitted.
#[derive(Default)]
struct Model {
    records: Vec<(Position, bool)>,
    floor: Option<Position>,
}

impl Model {
    fn watermark(&self) -> Option<Position> {
        let beyond = |(position, _): &&(Position, bool)| Some(position) > self.floor.as_ref();
        let contiguous = self
            .records
            .iter()
            .filter(beyond)
            .take_while(|(_, settled)| *settled)
            .last();
        contiguous
            .map(|(position, _)| position.clone())
            .or_else(|| self.floor.clone())
    }

    fn settle_through(&mut self, to: &Position) -> Option<usize> {
        let largest = self.records.last().map(|(position, _)| position);
        if Some(to) < self.watermark().as_ref() || Some(to) > largest {
            return None;
        }
        let mut settled = 0;
        for (_, done) in self
            .records
            .iter_mut()
            .filter(|(position, _)| position <= to)
        {
            settled += usize::from(!std::mem::replace(done, true));
        }
        self.floor = self.floor.take().max(Some(to.clone()));
        Some(settled)
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Admit { gap: u64, next_sequence: bool },
    Settle(prop::sample::Index),
    SettleThrough { sequence: u64, sub_sequence: u64 },
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0u64..3, any::<bool>()).prop_map(|(gap, next_sequence)| Operation::Admit { gap, next_sequence }),
        4 => any::<prop::sample::Index>().prop_map(Operation::Settle),
        1 => (0u64..40, 0u64..12).prop_map(|(sequence, sub_sequence)| Operation::SettleThrough { sequence, sub_sequence }),
    ]
}

proptest! {
    #[test]
    fn behaves_as_the_model(operations in prop::collection::vec(any_operation(), 1..120)) {
        let (mut tracker, mut model, mut tickets) = (Tracker::new(None), Model::default(), Vec::new());
        let (mut sequence, mut sub_sequence) = (0, 0);
        for operation in operations {
            let before = tracker.watermark().cloned();
            match operation {
                Operation::Admit { gap, next_sequence } => {
                    (sequence, sub_sequence) = if next_sequence { (sequence + 1 + gap, 0) } else { (sequence, sub_sequence + 1 + gap) };
                    let position = at(u128::from(sequence), sub_sequence);
                    tickets.push(tracker.admit(position.clone()).expect("in order"));
                    model.records.push((position, false));
                }
                Operation::Settle(_) if tickets.is_empty() => {}
                Operation::Settle(index) => {
                    let index = index.index(tickets.len());
                    let fresh = !std::mem::replace(&mut model.records[index].1, true);
                    prop_assert_eq!(tracker.settle(tickets[index]), Ok(fresh));
                }
                Operation::SettleThrough { sequence, sub_sequence } => {
                    let to = at(u128::from(sequence), sub_sequence);
                    prop_assert_eq!(tracker.settle_through(&to).ok(), model.settle_through(&to));
                }
            }
            prop_assert_eq!(tracker.watermark().cloned(), model.watermark());
            prop_assert_eq!(tracker.largest(), model.records.last().map(|(position, _)| position));
            prop_assert!(tracker.watermark() >= before.as_ref(), "it never goes back");
            prop_assert_eq!(tracker.unsettled(), model.records.iter().filter(|(_, settled)| !settled).count());
        }
    }
}
