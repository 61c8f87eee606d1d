//! Rule: what a lease row says about its shard, and what two looks at it say about its owner.

use std::{collections::BTreeMap, time::Duration};

use checkpoint::Position;
use lease::{Lease, LeaseKey, StreamId, Time};

use crate::source::From;

/// What is going on with a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Reading,
    HandingOver,
    Free,
    WaitingForParent,
    Finished,
}

impl State {
    /// A lease counts as waiting while the row of a parent is not at its end, whoever owns it: the Java KCL hands out
    /// children early and lets their owners wait.
    pub(super) fn of(lease: &Lease, all: &BTreeMap<&LeaseKey, &Lease>) -> Self {
        let unread = |parent| {
            let key = LeaseKey::of(lease.stream.as_ref(), parent);
            all.get(&key).is_some_and(|parent| !parent.ended())
        };
        if lease.ended() {
            State::Finished
        } else if lease.parents.iter().any(unread) {
            State::WaitingForParent
        } else if lease.handing_over() {
            State::HandingOver
        } else if lease.owner.is_some() {
            State::Reading
        } else {
            State::Free
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            State::Reading => "reading",
            State::HandingOver => "handing over",
            State::Free => "free",
            State::WaitingForParent => "waiting for parent",
            State::Finished => "finished",
        }
    }
}

/// What is known of an owner's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// There is nothing to renew, or only one look.
    Untold,
    /// The counter rose since the look before.
    Renewed,
    /// It has not, for at least so long.
    Silent(Duration),
}

/// The counters, as they were seen.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    seen: BTreeMap<LeaseKey, Sighting>,
    now: Time,
}

#[derive(Debug)]
struct Sighting {
    counter: u64,
    /// When this value was first seen.
    since: Time,
    /// It was another value in the look before.
    renewed: bool,
}

impl Sightings {
    /// Takes a look into account.
    pub(super) fn note(&mut self, leases: &[Lease], now: Time) {
        let mut seen = BTreeMap::new();
        for lease in leases {
            let before = self.seen.get(&lease.key);
            let sighting = match before {
                Some(before) if before.counter == lease.counter => Sighting {
                    counter: before.counter,
                    since: before.since,
                    renewed: false,
                },
                before => Sighting {
                    counter: lease.counter,
                    since: now,
                    renewed: before.is_some(),
                },
            };
            seen.insert(lease.key.clone(), sighting);
        }
        self.seen = seen;
        self.now = now;
    }

    /// Whether the owner is alive.
    pub(super) fn life(&self, lease: &Lease) -> Life {
        if lease.ended() || lease.reader().is_none() {
            return Life::Untold;
        }
        match self.seen.get(&lease.key) {
            Some(sighting) if sighting.renewed => Life::Renewed,
            Some(sighting) if sighting.since < self.now => {
                Life::Silent(self.now.since(sighting.since))
            }
            _ => Life::Untold,
        }
    }
}

/// How far a reader is behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lag {
    /// The row does not say where reading goes on.
    Untold,
    /// As Kinesis says.
    Behind(Duration),
    /// Kinesis could not be asked.
    Failed(String),
}

/// Where the reader of a lease goes on, as far as the row tells; nowhere once it is finished.
pub(super) fn read_from(lease: &Lease) -> Option<From> {
    match (&lease.checkpoint, lease.pinned) {
        (Position::At { sequence, .. }, _) => Some(From::After(sequence.clone())),
        (Position::TrimHorizon, _) => Some(From::TrimHorizon),
        (Position::Latest | Position::AtTimestamp, pinned) => pinned.map(From::AtTimestamp),
        (Position::ShardEnd, _) => None,
    }
}

/// The name in `account:name:epoch`.
pub(super) fn stream_name(id: &StreamId) -> Option<&str> {
    id.as_str().split(':').nth(1)
}

/// A position for a narrow column: the last digits of a sequence number, which are the ones that differ.
pub(super) fn short(position: &Position) -> String {
    const KEPT: usize = 12;
    match position {
        Position::At {
            sequence,
            sub_sequence,
        } => {
            let digits = sequence.as_str();
            match digits.len().checked_sub(KEPT).filter(|cut| *cut > 1) {
                None => position.to_string(),
                Some(cut) => format!("…{}/{sub_sequence}", &digits[cut..]),
            }
        }
        sentinel => sentinel.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use lease::{ShardId, WorkerId};

    use super::*;

    fn lease(shard: &str, checkpoint: &str) -> Lease {
        let position = checkpoint.parse().expect("a position");
        Lease::new(None, ShardId::from(shard), position)
    }

    fn owned(mut lease: Lease) -> Lease {
        lease.owner = Some(WorkerId::from("ann"));
        lease
    }

    #[test]
    fn a_row_says_what_its_shard_is_doing() {
        let finished = owned(lease("0", "SHARD_END"));
        let mut handing = owned(lease("2", "7"));
        handing.checkpoint_owner = Some(WorkerId::from("bob"));
        let child = |parent: &str| {
            let mut child = owned(lease("3", "TRIM_HORIZON"));
            child.parents = [ShardId::from(parent)].into();
            child
        };
        let reading = owned(lease("1", "7"));
        let rows = [finished.clone(), reading.clone()];
        let all = rows.iter().map(|row| (&row.key, row)).collect();
        for (row, state) in [
            (finished, State::Finished),
            (reading, State::Reading),
            (lease("4", "LATEST"), State::Free),
            (handing, State::HandingOver),
            (child("0"), State::Reading),
            (child("1"), State::WaitingForParent),
            (child("expired"), State::Reading),
        ] {
            assert_eq!(State::of(&row, &all), state, "{row:?}");
        }
    }

    #[test]
    fn two_looks_tell_the_living_from_the_silent() {
        let at = |seconds| Time::new(Duration::from_secs(seconds));
        let with = |counter, mut lease: Lease| {
            lease.counter = counter;
            lease
        };
        let (alive, dead) = (owned(lease("1", "7")), owned(lease("2", "7")));
        let (free, done) = (lease("3", "7"), owned(lease("4", "SHARD_END")));
        let mut sightings = Sightings::default();
        let look = |counter| {
            [
                with(counter, alive.clone()),
                with(5, dead.clone()),
                free.clone(),
                done.clone(),
            ]
        };
        sightings.note(&look(1), at(10));
        assert_eq!(
            sightings.life(&alive),
            Life::Untold,
            "one look tells nothing"
        );
        sightings.note(&look(2), at(14));
        assert_eq!(sightings.life(&alive), Life::Renewed);
        assert_eq!(sightings.life(&dead), Life::Silent(Duration::from_secs(4)));
        assert_eq!(sightings.life(&free), Life::Untold);
        assert_eq!(sightings.life(&done), Life::Untold);
        sightings.note(&look(2), at(17));
        assert_eq!(sightings.life(&alive), Life::Silent(Duration::from_secs(3)));
        assert_eq!(sightings.life(&dead), Life::Silent(Duration::from_secs(7)));
        let new = owned(lease("5", "7"));
        sightings.note(std::slice::from_ref(&new), at(20));
        assert_eq!(sightings.life(&new), Life::Untold, "its first look");
    }

    #[test]
    fn reading_goes_on_where_the_row_says() {
        let pinned = |checkpoint, at| {
            let mut lease = lease("1", checkpoint);
            lease.pinned = at;
            read_from(&lease)
        };
        assert_eq!(
            pinned("7/3", None),
            Some(From::After("7".parse().expect("digits")))
        );
        assert_eq!(pinned("TRIM_HORIZON", None), Some(From::TrimHorizon));
        assert_eq!(pinned("LATEST", Some(9)), Some(From::AtTimestamp(9)));
        assert_eq!(pinned("LATEST", None), None);
        assert_eq!(pinned("SHARD_END", Some(9)), None);
    }

    #[test]
    fn long_positions_are_cut_in_front() {
        for (position, text) in [
            (
                "49590338271490256608559692538361571095921575989136588898/3",
                "…989136588898/3",
            ),
            ("1234567890123/0", "1234567890123/0"),
            ("TRIM_HORIZON", "TRIM_HORIZON"),
        ] {
            assert_eq!(short(&position.parse().expect("a position")), text);
        }
        let id = StreamId::from("123456789012:orders:1700000000");
        assert_eq!(stream_name(&id), Some("orders"));
    }
}
