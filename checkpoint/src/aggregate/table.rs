//! One string table of an aggregate: the texts its items share.
//!
//! An entry is looked at only when an item uses it, and then once: its verdict and whether it is UTF-8 are remembered.

use bytes::Bytes;

use super::judge::Refusal;
use super::parse::Span;
use crate::md5_lanes;
use crate::text::ByteStr;

/// How many keys are hashed at once; bounds what is set aside for it.
const HASHED_TOGETHER: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    /// The texts of entries that are not UTF-8, so that none is made twice.
    replaced: Vec<ByteStr>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Where the text lies in the protobuf; once `Replaced`, `start` is an index into `Table::replaced`.
    span: Span,
    reading: Reading,
    verdict: Option<Result<(), Refusal>>,
}

#[derive(Debug, Clone, Copy)]
enum Reading {
    Unread,
    Utf8,
    Replaced,
}

impl Table {
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.replaced.clear();
    }

    pub(super) fn push(&mut self, span: Span) {
        self.entries.push(Entry {
            span,
            reading: Reading::Unread,
            verdict: None,
        });
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The text of an entry: a slice of `body`, unless U+FFFD had to be put in.
    #[inline]
    pub(super) fn text(&mut self, index: usize, body: &Bytes) -> ByteStr {
        self.read(index, body);
        let span = self.entries[index].span;
        match self.entries[index].reading {
            Reading::Replaced => self.replaced[span.start as usize].clone(),
            _ => ByteStr::from_checked(body.slice(span.range())),
        }
    }

    /// The same without a reference of its own. The entry must have been read.
    fn bytes<'a>(&'a self, index: usize, body: &'a Bytes) -> &'a [u8] {
        let span = self.entries[index].span;
        match self.entries[index].reading {
            Reading::Replaced => self.replaced[span.start as usize].as_bytes(),
            _ => &body[span.range()],
        }
    }

    /// Settles how an entry becomes text.
    #[inline]
    fn read(&mut self, index: usize, body: &Bytes) {
        let entry = &mut self.entries[index];
        if !matches!(entry.reading, Reading::Unread) {
            return;
        }
        let range = entry.span.range();
        if std::str::from_utf8(&body[range.clone()]).is_ok() {
            entry.reading = Reading::Utf8;
        } else {
            entry.reading = Reading::Replaced;
            // At most one text for each entry, and `parse` keeps those below 2^31.
            entry.span.start = self.replaced.len() as u32;
            self.replaced
                .push(ByteStr::from_utf8_lossy(body.slice(range)));
        }
    }

    /// What `rule` says of an entry's text; it is asked once.
    #[inline]
    pub(super) fn judge(
        &mut self,
        index: usize,
        body: &Bytes,
        rule: impl FnOnce(&[u8]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        if let Some(verdict) = self.entries[index].verdict {
            return verdict;
        }
        self.read(index, body);
        let verdict = rule(self.bytes(index, body));
        self.entries[index].verdict = Some(verdict);
        verdict
    }

    /// What [`judge_digests`](Self::judge_digests) found out about an entry it was asked for.
    #[inline]
    pub(super) fn verdict(&self, index: usize) -> Result<(), Refusal> {
        self.entries[index]
            .verdict
            .expect("every key an item needs is judged before the first item")
    }

    /// Asks `rule` about the MD5 of each entry in `wanted` that has no verdict yet.
    ///
    /// Most keys are shorter than one block of MD5: hashed one by one they would cost as much as a small record.
    pub(super) fn judge_digests(
        &mut self,
        wanted: impl Iterator<Item = usize>,
        body: &Bytes,
        rule: impl Fn([u8; 16]) -> Result<(), Refusal>,
    ) {
        let mut unjudged = Vec::with_capacity(HASHED_TOGETHER);
        for index in wanted {
            if self.entries[index].verdict.is_some() {
                continue;
            }
            self.read(index, body);
            // Keeps a later item with the same key from asking again; overwritten below.
            self.entries[index].verdict = Some(Ok(()));
            unjudged.push(index);
            if unjudged.len() == HASHED_TOGETHER {
                self.judge_these(&mut unjudged, body, &rule);
            }
        }
        self.judge_these(&mut unjudged, body, &rule);
    }

    fn judge_these(
        &mut self,
        indices: &mut Vec<usize>,
        body: &Bytes,
        rule: impl Fn([u8; 16]) -> Result<(), Refusal>,
    ) {
        let texts: Vec<&[u8]> = indices
            .iter()
            .map(|index| self.bytes(*index, body))
            .collect();
        let digests = md5_lanes::digests(&texts);
        for (index, digest) in indices.drain(..).zip(digests) {
            self.entries[index].verdict = Some(rule(digest));
        }
    }

    /// Bytes held by the table itself, in use or not.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.replaced.capacity() * size_of::<ByteStr>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(spans: &[(usize, usize)]) -> Table {
        let mut table = Table::default();
        for (start, end) in spans {
            table.push(Span::new(*start..*end));
        }
        table
    }

    #[test]
    fn texts_are_slices_unless_bytes_had_to_be_replaced() {
        let body = Bytes::from_static(b"ab\xff\xfe");
        let mut table = table(&[(0, 2), (2, 3), (3, 4)]);
        for _ in 0..2 {
            assert_eq!(table.text(0, &body).as_bytes().as_ptr(), body.as_ptr());
            assert_eq!(table.text(2, &body), "\u{fffd}");
            assert_eq!(table.text(1, &body), "\u{fffd}");
        }
        assert_eq!(
            table.text(1, &body).as_bytes().as_ptr(),
            table.text(1, &body).as_bytes().as_ptr(),
            "made once"
        );
        assert_eq!(table.replaced.len(), 2);
    }

    #[test]
    fn an_entry_is_judged_once() {
        let body = Bytes::from_static(b"ab");
        let mut table = table(&[(0, 2)]);
        let mut asked = 0;
        for _ in 0..3 {
            let verdict = table.judge(0, &body, |text| {
                asked += 1;
                assert_eq!(text, b"ab");
                Err(Refusal::OutOfRange)
            });
            assert_eq!(verdict, Err(Refusal::OutOfRange));
        }
        assert_eq!(asked, 1);
    }
}
