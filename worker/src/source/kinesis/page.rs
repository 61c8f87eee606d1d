//! Wire: a GetRecords answer in CBOR, walked once. Payload, partition key and sequence number of each record are slices
//! of the answer: none is copied, and nothing is allocated but the list of records.
//!
//! A record that is held keeps the whole answer alive. The byte budget counts it until its batch is settled; whatever
//! is kept for longer is copied: positions where they are kept, the next iterator here.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use checkpoint::{ByteStr, EncryptionType, HashRange, KinesisRecord, Millis, SequenceNumber};
use lease::{Shard, ShardId};
use minicbor::{data::IanaTag, data::Type, decode::Error};

use crate::{
    limits,
    source::{Page, ShardIterator},
};

/// An answer that is not what GetRecords answers.
#[derive(Debug, thiserror::Error)]
#[error("GetRecords answered CBOR that cannot be read, in {place}: {reason}")]
pub(super) struct PageError {
    /// The member, e.g. `Records[3].Data`.
    place: String,
    reason: String,
}

/// Reads an answer.
pub(super) fn read(body: &Bytes) -> Result<Page, PageError> {
    let mut walk = Walk::new(body);
    let page = walk.page();
    page.map_err(|fault| walk.error(fault))
}

/// What is wrong; where, the walk knows.
type Fault = Box<dyn std::error::Error + Send + Sync>;
type Outcome<T> = Result<T, Fault>;

/// The way through an answer.
struct Walk<'b> {
    body: &'b Bytes,
    decoder: minicbor::Decoder<'b>,
    /// The member of the answer that is being read.
    member: &'static str,
    /// The element of that, and the member of the element.
    element: Option<(usize, &'static str)>,
}

impl<'b> Walk<'b> {
    fn new(body: &'b Bytes) -> Self {
        Walk {
            body,
            decoder: minicbor::Decoder::new(body),
            member: "",
            element: None,
        }
    }

    fn error(&self, fault: Fault) -> PageError {
        let place = match self.element {
            Some((index, "")) => format!("{}[{index}]", self.member),
            Some((index, member)) => format!("{}[{index}].{member}", self.member),
            None if self.member.is_empty() => "the whole".to_owned(),
            None => self.member.to_owned(),
        };
        PageError {
            place,
            reason: fault.to_string(),
        }
    }

    fn page(&mut self) -> Outcome<Page> {
        let mut page = Page::default();
        let mut records = None;
        let length = self.decoder.map()?;
        let mut seen = 0;
        while self.more(length, &mut seen)? {
            match self.decoder.str()? {
                "Records" => {
                    self.member = "Records";
                    records = Some(self.records()?);
                }
                "NextShardIterator" => {
                    self.member = "NextShardIterator";
                    let next = self.optional(Self::text)?;
                    page.next = next.map(|next| ShardIterator(Bytes::copy_from_slice(&next)));
                }
                "MillisBehindLatest" => {
                    self.member = "MillisBehindLatest";
                    let millis = self.optional(|walk| Ok(walk.decoder.i64()?))?;
                    let millis = millis.and_then(|millis| u64::try_from(millis).ok());
                    page.behind = Duration::from_millis(millis.unwrap_or(0));
                }
                "ChildShards" => {
                    self.member = "ChildShards";
                    page.children = self.optional(Self::children)?.unwrap_or_default();
                }
                _ => self.decoder.skip()?,
            }
            self.member = "";
        }
        if self.decoder.position() != self.body.len() {
            return Err("bytes follow the answer".into());
        }
        // An answer without them is of something else, and must not pass for the end of a shard.
        page.records = records.ok_or("there is no Records")?;
        Ok(page)
    }

    fn records(&mut self) -> Outcome<Vec<KinesisRecord>> {
        let length = self.decoder.array()?;
        // The length is the peer's word: it may not make us allocate more than a real answer can need.
        let most = u64::from(limits::GET_RECORDS_MOST_RECORDS);
        let room = usize::try_from(length.unwrap_or(0).min(most)).unwrap_or(0);
        let mut records = Vec::with_capacity(room);
        let mut seen = 0;
        while self.more(length, &mut seen)? {
            self.element = Some((records.len(), ""));
            records.push(self.record(records.len())?);
        }
        self.element = None;
        Ok(records)
    }

    fn record(&mut self, index: usize) -> Outcome<KinesisRecord> {
        let (mut data, mut key, mut sequence, mut arrival, mut encryption) =
            (None, None, None, None, None);
        let length = self.decoder.map()?;
        let mut seen = 0;
        while self.more(length, &mut seen)? {
            match self.member_of_record()? {
                "Data" => {
                    self.element = Some((index, "Data"));
                    data = Some(self.blob()?);
                }
                "PartitionKey" => {
                    self.element = Some((index, "PartitionKey"));
                    key = self.optional(Self::bytes_of_text)?;
                }
                "SequenceNumber" => {
                    self.element = Some((index, "SequenceNumber"));
                    sequence = Some(SequenceNumber::from_bytes(self.bytes_of_text()?)?);
                }
                "ApproximateArrivalTimestamp" => {
                    self.element = Some((index, "ApproximateArrivalTimestamp"));
                    arrival = self.optional(Self::timestamp)?;
                }
                "EncryptionType" => {
                    self.element = Some((index, "EncryptionType"));
                    encryption = self.optional(Self::encryption)?.flatten();
                }
                _ => self.decoder.skip()?,
            }
            self.element = Some((index, ""));
        }
        Ok(KinesisRecord {
            data: data.ok_or("there is no Data")?,
            partition_key: ByteStr::from_utf8_lossy(key.unwrap_or_default()),
            sequence: sequence.ok_or("there is no SequenceNumber")?,
            arrival,
            encryption,
        })
    }

    fn encryption(&mut self) -> Outcome<Option<EncryptionType>> {
        Ok(match &self.bytes_of_text()?[..] {
            b"NONE" => Some(EncryptionType::None),
            b"KMS" => Some(EncryptionType::Kms),
            // A kind of the future.
            _ => None,
        })
    }

    fn children(&mut self) -> Outcome<Vec<Shard>> {
        let length = self.decoder.array()?;
        let mut children = Vec::new();
        let mut seen = 0;
        while self.more(length, &mut seen)? {
            self.element = Some((children.len(), ""));
            children.push(self.child()?);
        }
        self.element = None;
        Ok(children)
    }

    fn child(&mut self) -> Outcome<Shard> {
        let (mut id, mut range, mut parents) = (None, None, BTreeSet::new());
        let length = self.decoder.map()?;
        let mut seen = 0;
        while self.more(length, &mut seen)? {
            match self.decoder.str()? {
                "ShardId" => id = Some(self.shard_id()?),
                "HashKeyRange" => range = Some(self.range()?),
                "ParentShards" => {
                    let length = self.decoder.array()?;
                    let mut seen = 0;
                    while self.more(length, &mut seen)? {
                        parents.insert(self.shard_id()?);
                    }
                }
                _ => self.decoder.skip()?,
            }
        }
        Ok(Shard {
            id: id.ok_or("there is no ShardId")?,
            parents,
            range: range.ok_or("there is no HashKeyRange")?,
            starting_sequence: None,
            closed: false,
        })
    }

    fn shard_id(&mut self) -> Outcome<ShardId> {
        let id = self.text()?;
        Ok(ShardId::from(std::str::from_utf8(&id)?))
    }

    fn range(&mut self) -> Outcome<HashRange> {
        let (mut start, mut end) = (Bytes::new(), Bytes::new());
        let length = self.decoder.map()?;
        let mut seen = 0;
        while self.more(length, &mut seen)? {
            match self.decoder.str()? {
                "StartingHashKey" => start = self.text()?,
                "EndingHashKey" => end = self.text()?,
                _ => self.decoder.skip()?,
            }
        }
        let range = HashRange::parse(std::str::from_utf8(&start)?, std::str::from_utf8(&end)?)?;
        Ok(range)
    }

    /// Whether another element follows; eats the break that ends an indefinite length.
    fn more(&mut self, length: Option<u64>, seen: &mut u64) -> Result<bool, Error> {
        let more = match length {
            Some(length) => *seen < length,
            None if self.decoder.datatype()? == Type::Break => {
                self.decoder.set_position(self.decoder.position() + 1);
                false
            }
            None => true,
        };
        *seen += 1;
        Ok(more)
    }

    /// A member that may be null.
    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<Option<T>> {
        if self.decoder.datatype()? == Type::Null {
            self.decoder.null()?;
            return Ok(None);
        }
        read(self).map(Some)
    }

    fn blob(&mut self) -> Outcome<Bytes> {
        if self.decoder.datatype()? == Type::BytesIndef {
            let mut whole = Vec::new();
            for part in self.decoder.bytes_iter()? {
                whole.extend_from_slice(part?);
            }
            return Ok(whole.into());
        }
        Ok(self.body.slice_ref(self.decoder.bytes()?))
    }

    fn text(&mut self) -> Outcome<Bytes> {
        if self.decoder.datatype()? == Type::StringIndef {
            let mut whole = String::new();
            for part in self.decoder.str_iter()? {
                whole.push_str(part?);
            }
            return Ok(whole.into());
        }
        Ok(self.body.slice_ref(self.decoder.str()?.as_bytes()))
    }

    /// The name of the next member. Those of a record are told by their bytes alone, as there are thousands in an answer.
    fn member_of_record(&mut self) -> Result<&'b str, Error> {
        let at = self.decoder.position();
        if let Some(name) = bytes_of_text(&self.body[at..])
            && let Some(known) = OF_RECORD
                .iter()
                .find(|known| known.as_bytes() == name.bytes)
        {
            self.decoder.set_position(at + name.whole);
            return Ok(known);
        }
        self.decoder.str()
    }

    /// A text whose bytes are checked by whoever makes something of them.
    fn bytes_of_text(&mut self) -> Outcome<Bytes> {
        let at = self.decoder.position();
        let Some(text) = bytes_of_text(&self.body[at..]) else {
            return self.text();
        };
        self.decoder.set_position(at + text.whole);
        Ok(self.body.slice_ref(text.bytes))
    }

    /// Milliseconds, against the standard of CBOR; a fraction of one is dropped.
    fn timestamp(&mut self) -> Outcome<Millis> {
        if self.decoder.datatype()? == Type::Tag && self.decoder.tag()? != IanaTag::Timestamp.tag()
        {
            return Err("another tag than 1".into());
        }
        let millis = match self.decoder.datatype()? {
            #[allow(clippy::cast_possible_truncation)] // saturates, which no real time does
            Type::F16 | Type::F32 | Type::F64 => self.decoder.f64()?.floor() as i64,
            _ => self.decoder.i64()?,
        };
        Ok(Millis(millis))
    }
}

/// The members of a record.
const OF_RECORD: [&str; 5] = [
    "Data",
    "PartitionKey",
    "SequenceNumber",
    "ApproximateArrivalTimestamp",
    "EncryptionType",
];

/// A text as it lies in an answer.
struct Text<'b> {
    bytes: &'b [u8],
    /// Its length and that of what stands before it.
    whole: usize,
}

/// The text that `rest` begins with, if its length is given in one of the two shortest ways.
fn bytes_of_text(rest: &[u8]) -> Option<Text<'_>> {
    let (length, head) = match *rest {
        [first @ 0x60..=0x77, ..] => (usize::from(first - 0x60), 1),
        [0x78, length, ..] => (usize::from(length), 2),
        _ => return None,
    };
    let whole = head + length;
    let bytes = rest.get(head..whole)?;
    Some(Text { bytes, whole })
}

#[cfg(test)]
mod tests;
