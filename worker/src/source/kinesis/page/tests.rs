use minicbor::Encoder;
use proptest::prelude::*;

use super::*;

const SEQUENCE: &str = "49590338271490256608559692538361571095921575989136588898";

/// Writes an answer by hand, as a server could: with lengths, or with breaks.
struct Server {
    out: Encoder<Vec<u8>>,
    definite: bool,
}

impl Server {
    fn new(definite: bool) -> Self {
        let out = Encoder::new(Vec::new());
        Server { out, definite }
    }

    fn map(&mut self, members: u64, body: impl FnOnce(&mut Self)) {
        if self.definite {
            self.out.map(members).expect("written");
            return body(self);
        }
        self.out.begin_map().expect("written");
        body(self);
        self.out.end().expect("written");
    }

    fn list(&mut self, elements: u64, body: impl FnOnce(&mut Self)) {
        if self.definite {
            self.out.array(elements).expect("written");
            return body(self);
        }
        self.out.begin_array().expect("written");
        body(self);
        self.out.end().expect("written");
    }

    fn text(&mut self, name: &str, text: &str) {
        self.out.str(name).expect("written");
        if self.definite {
            self.out.str(text).expect("written");
            return;
        }
        let middle = text.chars().take(text.len() / 3).map(char::len_utf8).sum();
        let (left, right) = text.split_at(middle);
        let parts = self.out.begin_str().expect("written").str(left);
        parts
            .expect("written")
            .str(right)
            .expect("written")
            .end()
            .expect("written");
    }

    fn blob(&mut self, name: &str, blob: &[u8]) {
        self.out.str(name).expect("written");
        if self.definite {
            self.out.bytes(blob).expect("written");
            return;
        }
        let (left, right) = blob.split_at(blob.len() / 2);
        let parts = self.out.begin_bytes().expect("written").bytes(left);
        parts
            .expect("written")
            .bytes(right)
            .expect("written")
            .end()
            .expect("written");
    }

    fn unknown(&mut self, name: &str) {
        self.out.str(name).expect("written");
        // {"a": [1, {_ }, -2.5], "b": tag 9 of true}
        self.out
            .map(2)
            .and_then(|out| {
                out.str("a")?
                    .array(3)?
                    .u8(1)?
                    .begin_map()?
                    .end()?
                    .f64(-2.5)?
                    .str("b")?
                    .tag(minicbor::data::Tag::new(9))?
                    .bool(true)
            })
            .expect("written");
    }

    fn record(&mut self, data: &[u8]) {
        self.map(6, |server| {
            server.unknown("Fresh");
            server.text("SequenceNumber", SEQUENCE);
            server
                .out
                .str("ApproximateArrivalTimestamp")
                .expect("written");
            server
                .out
                .tag(IanaTag::Timestamp)
                .and_then(|out| out.i64(1_764_500_000_123))
                .expect("written");
            server.blob("Data", data);
            server.text("PartitionKey", "schlüssel");
            server.text("EncryptionType", "KMS");
        });
    }

    fn child(&mut self) {
        self.map(4, |server| {
            server.text("ShardId", "shardId-000000000001");
            server.out.str("ParentShards").expect("written");
            server.list(1, |server| {
                server
                    .out
                    .str("shardId-000000000000")
                    .map(drop)
                    .expect("written")
            });
            server.unknown("Fresh");
            server.out.str("HashKeyRange").expect("written");
            server.map(2, |server| {
                server.text("StartingHashKey", "0");
                server.text("EndingHashKey", "99");
            });
        });
    }

    fn answer(definite: bool, records: &[&[u8]]) -> Bytes {
        let mut server = Server::new(definite);
        server.map(5, |server| {
            server
                .out
                .str("MillisBehindLatest")
                .and_then(|out| out.i64(1_500))
                .expect("written");
            server.unknown("Fresh");
            server.text("NextShardIterator", "AAAA=");
            server.out.str("Records").expect("written");
            server.list(records.len() as u64, |server| {
                records.iter().for_each(|data| server.record(data));
            });
            server.out.str("ChildShards").expect("written");
            server.list(1, Server::child);
        });
        server.out.into_writer().into()
    }
}

fn lies_in(whole: &Bytes, part: &[u8]) -> bool {
    whole.as_ptr_range().contains(&part.as_ptr())
}

#[test]
fn both_kinds_of_length_and_unknown_members_are_read() {
    for definite in [true, false] {
        let page = read(&Server::answer(definite, &[b"one", b"", b"three"])).expect("read");
        assert_eq!(page.behind, Duration::from_millis(1_500));
        assert_eq!(page.next, Some(ShardIterator("AAAA=".into())));
        let payloads: Vec<_> = page.records.iter().map(|record| &record.data[..]).collect();
        assert_eq!(payloads, [&b"one"[..], b"", b"three"]);
        for record in &page.records {
            assert_eq!(record.partition_key, "schlüssel");
            assert_eq!(record.sequence.as_str(), SEQUENCE);
            assert_eq!(record.arrival, Some(Millis(1_764_500_000_123)));
            assert_eq!(record.encryption, Some(EncryptionType::Kms));
        }
        let child = Shard {
            id: "shardId-000000000001".into(),
            parents: ["shardId-000000000000".into()].into_iter().collect(),
            range: HashRange::parse("0", "99").expect("a range"),
            starting_sequence: None,
            closed: false,
        };
        assert_eq!(page.children, [child]);
    }
}

#[test]
fn records_are_slices_and_the_iterator_is_not() {
    let answer = Server::answer(true, &[b"payload"]);
    let page = read(&answer).expect("read");
    let record = &page.records[0];
    assert!(lies_in(&answer, &record.data));
    assert!(lies_in(&answer, record.partition_key.as_bytes()));
    assert!(lies_in(&answer, record.sequence.as_str().as_bytes()));
    // It outlives the records by one poll.
    assert!(!lies_in(&answer, &page.next.expect("one").0));
}

#[test]
fn a_key_that_is_no_utf_8_does_not_stop_the_shard() {
    // {"Records": [{"Data": h'61', "PartitionKey": <FF>, "SequenceNumber": "7"}]}
    let answer =
        b"\xa1\x67Records\x81\xa3\x64Data\x41a\x6cPartitionKey\x61\xff\x6eSequenceNumber\x617";
    let page = read(&Bytes::from_static(answer)).expect("read");
    assert_eq!(page.records[0].partition_key, "\u{fffd}");
}

#[test]
fn nulls_mean_that_a_member_is_missing() {
    // {"Records": [], "NextShardIterator": null, "MillisBehindLatest": null, "ChildShards": null}
    let answer = b"\xa4\x67Records\x80\x71NextShardIterator\xf6\x72MillisBehindLatest\xf6\x6bChildShards\xf6";
    let page = read(&Bytes::from_static(answer)).expect("read");
    assert_eq!((page.next, page.behind), (None, Duration::ZERO));
    assert!(page.records.is_empty() && page.children.is_empty());
}

#[test]
fn faults_are_named_with_their_place() {
    for (answer, message) in [
        (&b""[..], "in the whole: end of input"),
        (b"\xa0", "in the whole: there is no Records"),
        (b"{}", "in the whole: unexpected type string"),
        (
            b"\xa1\x67Records\x80\x00",
            "in the whole: bytes follow the answer",
        ),
        (b"\xa1\x67Records\x01", "in Records"),
        (
            b"\xa1\x67Records\x81\xa0",
            "in Records[0]: there is no Data",
        ),
        (
            b"\xa1\x67Records\x82\xa1\x64Data\x61x",
            "in Records[0].Data: unexpected type string",
        ),
        (
            b"\xa1\x67Records\x81\xa1\x6eSequenceNumber\x62x1",
            "in Records[0].SequenceNumber: sequence number \"x1\" has a character",
        ),
        (
            b"\xa1\x67Records\x81\xa1\x78\x1bApproximateArrivalTimestamp\xc2\x00",
            "in Records[0].ApproximateArrivalTimestamp: another tag than 1",
        ),
        (
            b"\xa1\x6bChildShards\x81\xa1\x67ShardId\x61s",
            "in ChildShards[0]: there is no HashKeyRange",
        ),
        // A length that nobody could keep does not make us allocate it.
        (
            b"\xa1\x67Records\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
            "in Records[0]: end of input",
        ),
        (
            b"\xa1\x67Records\x81\xa1\x64Data\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
            "in Records[0].Data",
        ),
    ] {
        let error = read(&Bytes::from_static(answer))
            .expect_err("refused")
            .to_string();
        assert!(error.contains(message), "{error:?} should say {message:?}");
    }
}

#[test]
fn every_answer_that_is_cut_short_is_refused() {
    for definite in [true, false] {
        let answer = Server::answer(definite, &[b"one", b"two"]);
        for end in 0..answer.len() {
            read(&answer.slice(..end)).expect_err("cut short");
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        definite: bool,
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..20),
    ) {
        let slices: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let page = read(&Server::answer(definite, &slices)).expect("read");
        let read: Vec<Vec<u8>> = page.records.iter().map(|record| record.data.to_vec()).collect();
        prop_assert_eq!(read, payloads);
    }

    /// Whatever comes is read or refused; it neither panics nor allocates without end.
    #[test]
    fn mutations_are_read_or_refused(
        definite: bool,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut answer = Server::answer(definite, &[b"one", b"two"]).to_vec();
        for (index, byte) in changes {
            let index = index.index(answer.len());
            answer[index] = byte;
        }
        let answer = Bytes::from(answer);
        if let Ok(page) = read(&answer) {
            prop_assert!(page.bytes() <= answer.len());
        }
    }

    #[test]
    fn noise_is_read_or_refused(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&noise.into());
    }
}
