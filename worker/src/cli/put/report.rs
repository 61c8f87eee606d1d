//! What `put` says: progress while it works (on a terminal only), a summary at the end.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use serde_json::json;

use super::pump::Ended;
use crate::{cli::look, producer::Summary};

/// Records that could not be put are listed up to this many; `--json` lists all.
const MOST_LISTED: usize = 50;

/// One line on standard error that is written over and over.
pub(super) struct Progress {
    on: bool,
    shown: bool,
}

impl Progress {
    pub(super) const EVERY: Duration = Duration::from_millis(250);

    pub(super) fn new() -> Self {
        Progress {
            on: io::stderr().is_terminal(),
            shown: false,
        }
    }

    pub(super) fn show(&mut self, summary: &Summary, elapsed: Duration) {
        if !self.on {
            return;
        }
        self.shown = true;
        eprint!("\r\x1b[K{} put", amount(summary, elapsed));
        if !summary.unplaced.is_empty() {
            eprint!(", {} could not be", summary.unplaced.len());
        }
        let _ = io::stderr().flush();
    }

    pub(super) fn clear(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// The end of the story.
pub(super) struct Report<'a> {
    pub(super) stream: &'a str,
    /// What a tag counts.
    pub(super) unit: &'static str,
    pub(super) summary: &'a Summary,
    pub(super) elapsed: Duration,
    pub(super) ended: &'a Ended,
}

impl Report<'_> {
    /// The summary goes to standard output, what went wrong to standard error.
    pub(super) fn print(&self, json: bool) {
        if json {
            println!("{}", self.json());
        } else {
            println!("{}", self.text());
        }
        if let Some(why) = self.why() {
            eprintln!("shardkeeper: {why}");
        }
        let unplaced = &self.summary.unplaced;
        if unplaced.is_empty() {
            return;
        }
        eprintln!(
            "shardkeeper: {} records could not be put:",
            look::count(unplaced.len() as u64)
        );
        for one in unplaced.iter().take(MOST_LISTED) {
            eprintln!("  {} {}: {}", self.unit, one.tag, one.reason);
        }
        if let Some(more) = unplaced
            .len()
            .checked_sub(MOST_LISTED)
            .filter(|more| *more > 0)
        {
            eprintln!("  and {more} more; --json lists all");
        }
    }

    fn why(&self) -> Option<String> {
        match self.ended {
            Ended::AllRead => None,
            Ended::BadInput(bad) => Some(format!(
                "{bad}; everything before it was read, nothing behind it"
            )),
            Ended::Fatal(error) => Some(error.to_string()),
            Ended::Told(last) => Some(format!(
                "told to stop; the last record taken was {} {last}",
                self.unit
            )),
            Ended::AtOnce => {
                Some("told to end at once; what was read last may not have been put".to_owned())
            }
        }
    }

    fn text(&self) -> String {
        let summary = self.summary;
        let mut text = format!(
            "{} put into {} as {} Kinesis records in {} calls",
            amount(summary, self.elapsed),
            self.stream,
            look::count(summary.kinesis_records),
            look::count(summary.calls)
        );
        if summary.resent > 0 {
            text += &format!(
                "; {} Kinesis records were sent again",
                look::count(summary.resent)
            );
        }
        if summary.misplaced > 0 {
            text += &format!(
                "; {} records were put again, since their aggregate met a split or merge",
                look::count(summary.misplaced)
            );
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let summary = self.summary;
        let unplaced: Vec<_> = summary
            .unplaced
            .iter()
            .map(|one| json!({ (self.unit): one.tag, "reason": &*one.reason }))
            .collect();
        json!({
            "stream": self.stream,
            "records": summary.records,
            "bytes": summary.bytes,
            "kinesis_records": summary.kinesis_records,
            "calls": summary.calls,
            "resent": summary.resent,
            "misplaced": summary.misplaced,
            "elapsed_ms": u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            "unplaced": unplaced,
            "error": self.why(),
        })
    }
}

fn amount(summary: &Summary, elapsed: Duration) -> String {
    let per_second = summary.records as f64 / elapsed.as_secs_f64().max(0.001);
    format!(
        "{} records, {}, {:.1} s, {}/s",
        look::count(summary.records),
        look::bytes(summary.bytes),
        elapsed.as_secs_f64(),
        look::count(per_second as u64)
    )
}
