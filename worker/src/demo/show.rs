//! What is seen: events as lines, and below them – on a terminal – who reads which shard at the moment.

use std::{
    fmt::Write as _,
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use checkpoint::Position;
use lease::Lease;
use serde_json::{Value, json};

use super::Proof;

pub(super) struct Show {
    json: bool,
    terminal: bool,
    /// Lines of the display that are on the terminal now.
    drawn: usize,
    at: Duration,
    last: Option<(Duration, u64)>,
    rate: f64,
    printed: Option<Duration>,
}

/// The moment.
pub(super) struct Status {
    pub(super) at: Duration,
    pub(super) put: u64,
    pub(super) delivered: u64,
    pub(super) repeated: u64,
    pub(super) leases: Vec<Lease>,
}

/// Between two lines of status where there is no terminal.
const EVERY: Duration = Duration::from_secs(2);

impl Show {
    pub(super) fn new(json: bool) -> Self {
        Show {
            json,
            terminal: !json && std::io::stdout().is_terminal(),
            drawn: 0,
            at: Duration::ZERO,
            last: None,
            rate: 0.0,
            printed: None,
        }
    }

    pub(super) fn begin(&mut self, summary: &str) {
        self.say(summary, &[("event", "started".into())]);
    }

    /// An event: a line for people, or a JSON object for programs.
    pub(super) fn say(&mut self, text: &str, fields: &[(&str, Value)]) {
        if !self.json {
            let line = format!("{:5.1} s  {text}", self.at.as_secs_f64());
            self.print(&line);
            return;
        }
        let mut object = serde_json::Map::new();
        object.insert("event".to_owned(), "note".into());
        object.insert("seconds".to_owned(), seconds(self.at));
        object.insert("text".to_owned(), text.into());
        for (key, value) in fields {
            object.insert((*key).to_owned(), value.clone());
        }
        self.print(&Value::Object(object).to_string());
    }

    /// Prints above the display.
    fn print(&mut self, line: &str) {
        self.erase();
        println!("{line}");
    }

    fn erase(&mut self) {
        if self.drawn > 0 {
            print!("\x1b[{}A\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }

    pub(super) fn status(&mut self, status: &Status) {
        self.at = status.at;
        self.measure(status);
        if self.terminal {
            let display = self.display(status);
            self.erase();
            self.drawn = display.lines().count();
            print!("{display}");
            let _ = std::io::stdout().flush();
            return;
        }
        if self
            .printed
            .is_some_and(|printed| status.at < printed + EVERY)
        {
            return;
        }
        self.printed = Some(status.at);
        if self.json {
            let line = self.as_json(status).to_string();
            self.print(&line);
        } else {
            let line = format!(
                "{:5.1} s  {}",
                status.at.as_secs_f64(),
                self.headline(status)
            );
            self.print(&line);
            for lease in &status.leases {
                println!("         {}", row(lease));
            }
        }
    }

    /// Records per second, over the last second.
    fn measure(&mut self, status: &Status) {
        match self.last {
            Some((at, _)) if status.at < at + Duration::from_secs(1) => {}
            Some((at, delivered)) => {
                let over = (status.at - at).as_secs_f64();
                self.rate = (status.delivered - delivered) as f64 / over;
                self.last = Some((status.at, status.delivered));
            }
            None => self.last = Some((status.at, status.delivered)),
        }
    }

    fn headline(&self, status: &Status) -> String {
        format!(
            "put {}  delivered {}  behind {}  repeated {}  {:.0} records/s",
            status.put,
            status.delivered,
            status.put - status.delivered.min(status.put),
            status.repeated,
            self.rate
        )
    }

    fn display(&self, status: &Status) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "         ─── {}", self.headline(status));
        for lease in &status.leases {
            let _ = writeln!(text, "         {}", row(lease));
        }
        text
    }

    fn as_json(&self, status: &Status) -> Value {
        let shards: Vec<Value> = status
            .leases
            .iter()
            .map(|lease| {
                json!({
                    "shard": lease.shard.as_str(),
                    "reader": lease.reader().map(lease::WorkerId::as_str),
                    "heir": lease.checkpoint_owner.as_ref().and(lease.owner.as_ref()).map(lease::WorkerId::as_str),
                    "position": lease.checkpoint.to_string(),
                })
            })
            .collect();
        json!({
            "event": "status",
            "seconds": seconds(status.at),
            "put": status.put,
            "delivered": status.delivered,
            "repeated": status.repeated,
            "records_per_second": self.rate.round(),
            "shards": shards,
        })
    }

    pub(super) fn proof(&mut self, proof: &Proof) {
        if self.json {
            // The last line of all; its keys are promised.
            let line = json!({
                "event": "proof",
                "put": proof.put,
                "delivered": proof.delivered,
                "lost": proof.lost,
                "repeated": proof.repeated,
                "repeated_after_kill": proof.repeated_after_kill,
                "out_of_order": proof.out_of_order,
                "children_before_parents": proof.children_before_parents,
                "ok": proof.ok,
            });
            self.print(&line.to_string());
            return;
        }
        self.print("");
        println!("put                      {:>8}", proof.put);
        println!("delivered                {:>8}", proof.delivered);
        println!("lost                     {:>8}", proof.lost);
        println!(
            "repeated                 {:>8}   ({} first delivered by the killed worker, behind its last checkpoint)",
            proof.repeated, proof.repeated_after_kill
        );
        println!("out of order             {:>8}", proof.out_of_order);
        println!(
            "children before parents  {:>8}",
            proof.children_before_parents
        );
        let verdict = if proof.ok {
            "proven: nothing lost, order kept, repeats explained"
        } else {
            "NOT PROVEN"
        };
        println!("{verdict}");
    }
}

fn row(lease: &Lease) -> String {
    let who = match (&lease.owner, &lease.checkpoint_owner) {
        _ if lease.ended() => "read to its end".to_owned(),
        (Some(heir), Some(reader)) => format!("{reader} → {heir}"),
        (Some(owner), None) => owner.to_string(),
        _ => "nobody".to_owned(),
    };
    let position = match &lease.checkpoint {
        Position::At {
            sequence,
            sub_sequence,
        } => {
            let digits = sequence.as_str();
            let tail = digits.len().saturating_sub(8);
            format!("…{}/{sub_sequence}", &digits[tail..])
        }
        sentinel => sentinel.to_string(),
    };
    format!("{}  {who:<24} {position}", lease.shard)
}

fn seconds(at: Duration) -> Value {
    json!((at.as_secs_f64() * 10.0).round() / 10.0)
}
