//! Looks a few records ahead, so that the digests of several aggregates can be computed side by side.
//!
//! A payload is parsed before it is hashed: what is no protobuf needs no digest, and parsing touches only the seams.

use super::Unpacked;
use super::frame;
use super::parse::Contents;
use crate::md5_lanes;
use crate::record::KinesisRecord;

/// How many aggregates are looked at together: enough that lanes seldom run empty, few enough that the notes stay small.
const AGGREGATES: usize = 32;
/// How many records, plain ones included, wait for a window to fill.
const RECORDS: usize = 1024;

/// Records that were taken in and not yet given out, in order.
#[derive(Debug, Default)]
pub(super) struct Window {
    records: Vec<Pending>,
    /// Notes on the pending records that parsed, in order; those from `parsed` on are kept for reuse.
    contents: Vec<Contents>,
    parsed: usize,
}

#[derive(Debug)]
struct Pending {
    record: KinesisRecord,
    parsed: bool,
}

impl Window {
    pub(super) fn push(&mut self, record: KinesisRecord, counts: &mut Unpacked) {
        let parsed = self.parse(&record, counts);
        self.records.push(Pending { record, parsed });
    }

    /// Whether `record` has the shape of an aggregate; if so its contents are noted.
    fn parse(&mut self, record: &KinesisRecord, counts: &mut Unpacked) -> bool {
        let Some(framed) = frame(&record.data) else {
            return false;
        };
        if self.parsed == self.contents.len() {
            self.contents.push(Contents::default());
        }
        let parsed = self.contents[self.parsed].parse(framed.body).is_ok();
        self.parsed += usize::from(parsed);
        counts.not_protobuf += u64::from(!parsed);
        parsed
    }

    /// Whether waiting for more records gains nothing.
    pub(super) fn is_due(&self) -> bool {
        self.parsed == 0 || self.parsed == AGGREGATES || self.records.len() >= RECORDS
    }

    /// Gives every record out in order, with its contents if it is an aggregate.
    pub(super) fn drain(
        &mut self,
        counts: &mut Unpacked,
        mut give: impl FnMut(KinesisRecord, Option<&mut Contents>, &mut Unpacked),
    ) {
        let digests = self.digests();
        let mut noted = self.contents.iter_mut().zip(digests);
        for Pending { record, parsed } in self.records.drain(..) {
            let contents = if parsed { noted.next() } else { None };
            let contents = contents.and_then(|(contents, digest)| {
                let genuine = frame(&record.data).is_some_and(|framed| *framed.digest == digest);
                counts.digest_mismatches += u64::from(!genuine);
                genuine.then_some(contents)
            });
            give(record, contents, counts);
        }
        self.parsed = 0;
    }

    /// The digests the noted records should carry.
    fn digests(&self) -> Vec<[u8; 16]> {
        let noted = self.records.iter().filter(|pending| pending.parsed);
        let bodies: Vec<&[u8]> = noted
            .filter_map(|pending| frame(&pending.record.data))
            .map(|framed| framed.body)
            .collect();
        md5_lanes::digests(&bodies)
    }
}
