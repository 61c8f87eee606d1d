//! Liveness: from every state, once nothing goes wrong any more, every unfinished shard gets a reader.
//!
//! Nothing goes wrong: whoever lives takes every step that it can before time goes on, in one fixed order; requests
//! that were on their way are lost. Tried with both workers alive, and with either of them dead for good.

use std::{cell::RefCell, collections::HashSet, rc::Rc};

use lease::Lease;

use crate::{
    fleet::{Left, Place, Places},
    print::Plain,
};

/// Who lives.
const LIVING: [&[usize]; 3] = [&[0, 1], &[0], &[1]];
/// Two failover times and a bit, in ticks of at least a quarter of it.
const PATIENCE: u32 = 12;

/// Places from which it is known to end well, for each of [`LIVING`].
pub(crate) type Known = RefCell<[HashSet<u128, Plain>; 3]>;

pub(crate) fn comes_to_rest(
    places: &Places,
    known: &Known,
    from: &Rc<Place>,
) -> Result<(), String> {
    let mut shard = from.shard.clone();
    shard.seats.iter_mut().for_each(|seat| seat.late.clear());
    let from = places.place(from.tick, shard);
    for (which, living) in LIVING.into_iter().enumerate() {
        let mut place = from.clone();
        let mut way = Vec::new();
        while !known.borrow()[which].contains(&place.prints[0]) {
            way.push(place.prints[0]);
            if well(places, &place, living) {
                break;
            }
            if place.tick > from.tick + PATIENCE {
                return Err(format!("with {living:?} alive nobody reads it again"));
            }
            place = calmly(places, &place, living)?;
        }
        known.borrow_mut()[which].extend(way);
    }
    Ok(())
}

/// Somebody who lives reads the shard, and the table says so.
fn well(places: &Places, place: &Place, living: &[usize]) -> bool {
    let shard = &place.shard;
    let Some(row) = shard.row.as_ref().filter(|row| !row.ended()) else {
        return true;
    };
    let now = places.now(place.tick);
    let by = |lease: &Lease, worker: usize| lease.reader() == Some(&crate::shard::id(worker));
    living
        .iter()
        .any(|worker| shard.seats[*worker].believes(now) && by(row, *worker))
}

/// The first thing that the living can do; if there is none, time goes on.
fn calmly(places: &Places, place: &Place, living: &[usize]) -> Result<Rc<Place>, String> {
    let nothing = Left {
        faults: 0,
        moves: 0,
    };
    let next = places.next(place, nothing);
    let step = next.steps.iter().find(|near| living.contains(&near.worker));
    match step {
        Some(near) => near.to.clone(),
        None => Ok(next.ticked.clone()),
    }
}
