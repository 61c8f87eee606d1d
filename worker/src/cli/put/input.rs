//! Where records come from: lines, JSON lines, or a generator. Read on a thread of its own, since reading blocks.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead as _, BufReader, IsTerminal as _, Read},
    path::Path,
};

use bytes::Bytes;
use checkpoint::{HashKey, PutRecord};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::{Args, key::KeyRule};
use crate::{
    backoff::Random,
    cli::exit::{Exit, Failure},
    limits,
};

/// Records that the reading thread hands over at once, at most: handing them over one by one would cost more than
/// everything else.
const CHUNK: usize = 256;
/// Or as many bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that may wait.
const AHEAD: usize = 2;
/// A longer line holds no record that a stream could take: base64 takes 4 bytes for 3, and the keys need some.
const LONGEST_LINE: usize = 2 * limits::RECORD_MOST_BYTES;

/// A record, and the line it came from (or its number), from 1.
#[derive(Debug, PartialEq)]
pub(super) struct Item {
    pub(super) record: PutRecord,
    pub(super) tag: u64,
}

/// A line that is no record.
#[derive(Debug, PartialEq)]
pub(super) struct BadInput {
    /// From 1.
    line: u64,
    reason: String,
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} {}", self.line, self.reason)
    }
}

/// What is to be put, in chunks; the last one may end with a line that is no record.
pub(super) struct Input(mpsc::Receiver<Vec<Result<Item, BadInput>>>);

impl Input {
    /// Starts to read.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(super) fn open(args: &Args, random: &mut Random) -> Result<Self, Failure> {
        let (send, receive) = mpsc::channel(AHEAD);
        let (key, jsonl, random) = (args.key.clone(), args.jsonl, random.fork());
        let out = Chunks {
            send,
            items: Vec::new(),
            bytes: 0,
        };
        let read: Box<dyn FnOnce() + Send> = match args.generate {
            Some(count) => {
                let size = args.size.as_usize();
                Box::new(move || generate(count, size, &key, random, out))
            }
            None => {
                let reader = reader(&args.file)?;
                let lines = Lines {
                    reader,
                    key,
                    jsonl,
                    random,
                    line: 0,
                    records: 0,
                };
                Box::new(move || lines.pour(out))
            }
        };
        std::thread::Builder::new()
            .name("shardkeeper-input".to_owned())
            .spawn(read)
            .map_err(|error| Failure::new(Exit::Failed, error))?;
        Ok(Input(receive))
    }

    /// The next records, at least one; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Vec<Result<Item, BadInput>>> {
        self.0.recv().await
    }
}

/// Where the reading thread puts what it has read.
struct Chunks {
    send: mpsc::Sender<Vec<Result<Item, BadInput>>>,
    items: Vec<Result<Item, BadInput>>,
    bytes: usize,
}

impl Chunks {
    /// Takes one item; hands all over if they are many, or `now`. Says whether anybody wants more.
    fn push(&mut self, item: Result<Item, BadInput>, now: bool) -> bool {
        let wrong = item.is_err();
        self.bytes += item.as_ref().map_or(0, |item| item.record.data.len());
        self.items.push(item);
        let full = self.items.len() >= CHUNK || self.bytes >= CHUNK_BYTES;
        if !(full || now || wrong) {
            return true;
        }
        self.hand_over() && !wrong
    }

    fn hand_over(&mut self) -> bool {
        self.bytes = 0;
        let items = std::mem::take(&mut self.items);
        items.is_empty() || self.send.blocking_send(items).is_ok()
    }
}

type Reader = BufReader<Box<dyn Read + Send>>;

fn reader(file: &Path) -> Result<Reader, Failure> {
    const BUFFER: usize = 1 << 16;
    if file == Path::new("-") {
        if io::stdin().is_terminal() {
            eprintln!("reading records from the terminal, one a line; Ctrl-D ends");
        }
        return Ok(BufReader::with_capacity(BUFFER, Box::new(io::stdin())));
    }
    match File::open(file) {
        Ok(opened) => Ok(BufReader::with_capacity(BUFFER, Box::new(opened))),
        Err(error) => Err(Failure::new(
            Exit::Usage,
            format!("{} cannot be read: {error}", file.display()),
        )),
    }
}

/// Lines as records.
struct Lines {
    reader: Reader,
    key: KeyRule,
    jsonl: bool,
    random: Random,
    line: u64,
    records: u64,
}

impl Lines {
    /// Reads to the end. What was read is handed over before a read that may have to wait.
    fn pour(mut self, mut out: Chunks) {
        while let Some(item) = self.next() {
            let about_to_wait = !self.reader.buffer().contains(&b'\n');
            if !out.push(item, about_to_wait) {
                return;
            }
        }
        out.hand_over();
    }

    fn next(&mut self) -> Option<Result<Item, BadInput>> {
        loop {
            self.line += 1;
            let mut line = Vec::new();
            let mut limited = (&mut self.reader).take(LONGEST_LINE as u64 + 1);
            match limited.read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(self.bad(format!("cannot be read: {error}")))),
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            } else if line.len() > LONGEST_LINE {
                return Some(Err(self.bad(format!("is longer than {LONGEST_LINE} bytes"))));
            }
            if line.is_empty() {
                continue;
            }
            self.records += 1;
            let record = if self.jsonl {
                self.object(&line)
            } else {
                self.plain(line)
            };
            return Some(match record {
                Ok(record) => Ok(Item {
                    record,
                    tag: self.line,
                }),
                Err(reason) => Err(self.bad(reason)),
            });
        }
    }

    fn bad(&self, reason: String) -> BadInput {
        BadInput {
            line: self.line,
            reason,
        }
    }

    fn plain(&mut self, line: Vec<u8>) -> Result<PutRecord, String> {
        Ok(PutRecord {
            partition_key: self.key.key(&line, self.records, &mut self.random)?,
            explicit_hash_key: None,
            data: Bytes::from(line),
        })
    }

    fn object(&mut self, line: &[u8]) -> Result<PutRecord, String> {
        let object: Object<'_> =
            serde_json::from_slice(line).map_err(|error| json_error(&error))?;
        let data = object.data()?;
        let partition_key = match object.partition_key {
            Some(key) => key,
            None => self.key.key(&data, self.records, &mut self.random)?,
        };
        let explicit_hash_key: Option<HashKey> = object
            .explicit_hash_key
            .map(|text| text.parse())
            .transpose()
            .map_err(|error| format!("has a wrong explicit_hash_key: {error}"))?;
        Ok(PutRecord {
            partition_key,
            explicit_hash_key,
            data,
        })
    }
}

/// A line of JSON. Other keys than these are refused: a misspelt one would silently mean another partition key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    data_base64: Option<String>,
    partition_key: Option<String>,
    explicit_hash_key: Option<String>,
    /// What `run` writes beside, and a new record gets anew.
    #[serde(rename = "stream")]
    _stream: Option<IgnoredAny>,
    #[serde(rename = "shard")]
    _shard: Option<IgnoredAny>,
    #[serde(rename = "sequence")]
    _sequence: Option<IgnoredAny>,
    #[serde(rename = "sub_sequence")]
    _sub_sequence: Option<IgnoredAny>,
    #[serde(rename = "arrival_ms")]
    _arrival: Option<IgnoredAny>,
}

impl Object<'_> {
    fn data(&self) -> Result<Bytes, String> {
        match (self.data, &self.data_base64) {
            (Some(raw), None) if raw.get().starts_with('"') => {
                let text: String =
                    serde_json::from_str(raw.get()).map_err(|error| json_error(&error))?;
                Ok(Bytes::from(text))
            }
            (Some(raw), None) => Ok(Bytes::copy_from_slice(raw.get().as_bytes())),
            (None, Some(text)) => base64_simd::STANDARD
                .decode_to_vec(text)
                .map(Bytes::from)
                .map_err(|error| format!("has a data_base64 that is no base64: {error}")),
            (None, None) => Err("has no data: write \"data\" or \"data_base64\"".to_owned()),
            (Some(_), Some(_)) => {
                Err("has both data and data_base64: write one of them".to_owned())
            }
        }
    }
}

/// Without serde's own line number, which is always 1 here.
fn json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(what, _)| what);
    match error.column() {
        0 => format!("is not as it should be: {what}"),
        column => format!("column {column} is not as it should be: {what}"),
    }
}

fn generate(count: u64, size: usize, key: &KeyRule, mut random: Random, mut out: Chunks) {
    for number in 1..=count {
        let data = generated(number, size, &mut random);
        let item = match key.key(&data, number, &mut random) {
            Ok(partition_key) => Ok(Item {
                record: PutRecord {
                    partition_key,
                    explicit_hash_key: None,
                    data,
                },
                tag: number,
            }),
            Err(reason) => Err(BadInput {
                line: number,
                reason,
            }),
        };
        if !out.push(item, false) {
            return;
        }
    }
    out.hand_over();
}

/// The record's number, then random letters and digits up to the size. The number is never cut.
fn generated(number: u64, size: usize, random: &mut Random) -> Bytes {
    let mut text = format!("{number} ");
    while text.len() < size {
        text.push_str(&random.word());
    }
    let digits = text.find(' ').unwrap_or(text.len());
    text.truncate(size.max(digits));
    Bytes::from(text)
}

#[cfg(test)]
mod tests;
