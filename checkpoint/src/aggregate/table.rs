//! One string table of an aggregate: the texts its items share.
//!
//! An entry is looked at only when an item uses it, and then once: its verdict and whether it is UTF-8 are remembered.

use bytes::Bytes;

use super::judge::Refusal;
use super::parse::Span;
use crate::text::ByteStr;

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
        let entry = self.entries[index];
        match entry.reading {
            Reading::Utf8 => ByteStr::from_checked(body.slice(entry.span.range())),
            Reading::Replaced => self.replaced[entry.span.start as usize].clone(),
            Reading::Unread => self.read(index, body),
        }
    }

    fn read(&mut self, index: usize, body: &Bytes) -> ByteStr {
        let entry = &mut self.entries[index];
        let range = entry.span.range();
        if std::str::from_utf8(&body[range.clone()]).is_ok() {
            entry.reading = Reading::Utf8;
            return ByteStr::from_checked(body.slice(range));
        }
        let text = ByteStr::from_utf8_lossy(body.slice(range));
        entry.reading = Reading::Replaced;
        // At most one text for each entry, and `parse` keeps those below 2^31.
        entry.span.start = self.replaced.len() as u32;
        self.replaced.push(text.clone());
        text
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
        let verdict = rule(self.text(index, body).as_bytes());
        self.entries[index].verdict = Some(verdict);
        verdict
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
