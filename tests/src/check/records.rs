//! Every record, in order, none invented.

use std::collections::{BTreeMap, BTreeSet};

use checkpoint::Position;
use lease::ShardId;

use super::{Property, Scope, Verdicts, broken, numbered};
use crate::world::history::{Event, Fate, History, Holder};

#[derive(Default)]
struct Seen<'a> {
    /// What was handed over, by shard.
    handed: BTreeMap<&'a ShardId, BTreeSet<&'a Position>>,
    /// What each tenure was given.
    given: BTreeMap<&'a Holder, BTreeSet<&'a Position>>,
    settled: BTreeMap<&'a ShardId, BTreeSet<&'a Position>>,
}

pub(super) fn check(scope: &Scope<'_>, history: &History, verdicts: &mut Verdicts) {
    let mut seen = Seen::default();
    for (at, event) in numbered(history) {
        match event {
            Event::Handed { by, records, .. } => {
                if !seen.handed.contains_key(&by.shard) {
                    after_parents(scope, &seen, by, at, verdicts);
                }
                for (position, text) in records {
                    as_put(scope, by, position, text, at, verdicts);
                    in_order(&mut seen, by, position, text, at, verdicts);
                    seen.given.entry(by).or_default().insert(position);
                }
            }
            Event::Settled { by, through } => {
                let given = seen.given.get(by).into_iter().flatten().copied();
                let settled = given.filter(|position| *position <= through);
                seen.settled.entry(&by.shard).or_default().extend(settled);
            }
            _ => {}
        }
    }
    nothing_lost(scope, &seen, history.events.len(), verdicts);
}

fn nothing_lost(scope: &Scope<'_>, seen: &Seen<'_>, end: usize, verdicts: &mut Verdicts) {
    for (shard, puts) in &scope.puts {
        let settled = seen.settled.get(shard);
        let lost = puts.iter().filter(|(position, put)| {
            put.wanted && settled.is_none_or(|settled| !settled.contains(**position))
        });
        for (position, put) in lost {
            let handed = seen
                .handed
                .get(shard)
                .is_some_and(|handed| handed.contains(*position));
            let how = if handed {
                "handed over but never settled"
            } else {
                "never handed over"
            };
            let what = format!(
                "{} of {shard}, put at event {}, was {how}",
                put.text, put.at
            );
            broken(verdicts, Property::NothingLost, end, what);
        }
    }
}

fn as_put(
    scope: &Scope<'_>,
    by: &Holder,
    position: &Position,
    text: &str,
    at: usize,
    verdicts: &mut Verdicts,
) {
    let put = scope
        .puts
        .get(&by.shard)
        .and_then(|puts| puts.get(position));
    let what = match put {
        None => format!("{by} was handed {text}, which was never put there"),
        Some(put) if put.text != text => format!("{by} was handed {text} for {}", put.text),
        Some(put) if put.fate != Fate::Deliver => {
            format!("{by} was handed {text}, which is {:?}", put.fate)
        }
        Some(_) => return,
    };
    broken(verdicts, Property::NothingInvented, at, what);
}

fn in_order<'a>(
    seen: &mut Seen<'a>,
    by: &'a Holder,
    position: &'a Position,
    text: &str,
    at: usize,
    verdicts: &mut Verdicts,
) {
    let handed = seen.handed.entry(&by.shard).or_default();
    let late = handed.last().is_some_and(|last| position < *last);
    if handed.insert(position) && late {
        let what = format!("{by} was handed {text} for the first time after a later record");
        broken(verdicts, Property::InOrder, at, what);
    }
}

/// The first record of a shard comes after every wanted record of its ancestors.
fn after_parents(
    scope: &Scope<'_>,
    seen: &Seen<'_>,
    by: &Holder,
    at: usize,
    verdicts: &mut Verdicts,
) {
    for parent in scope.ancestors(&by.shard) {
        let handed = seen.handed.get(parent);
        let missing = scope
            .puts
            .get(parent)
            .into_iter()
            .flatten()
            .find(|(position, put)| {
                put.wanted && handed.is_none_or(|handed| !handed.contains(**position))
            });
        if let Some((_, put)) = missing {
            let what = format!("{by} began before {} of its ancestor {parent}", put.text);
            broken(verdicts, Property::InOrder, at, what);
        }
    }
}
