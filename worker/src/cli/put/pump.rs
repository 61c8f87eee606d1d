//! Loop: moves records from the input to the producer, at their rate, until there are no more or something ends it.

use std::{collections::VecDeque, time::Duration};

use super::{
    super::{exit::Failure, run::told_to_stop},
    input::{BadInput, Input, Item},
    rate::Rate,
    report::Progress,
};
use crate::{
    clock::Clock,
    producer::{Producer, ProducerError},
};

/// Why taking records ended. What was taken by then has been put, or is reported as not put.
#[derive(Debug)]
pub(super) enum Ended {
    /// There was nothing more.
    AllRead,
    /// A line could not be read.
    BadInput(BadInput),
    /// The stream takes nothing.
    Fatal(ProducerError),
    /// By a signal, after this record.
    Told(u64),
    /// By a second signal: something may be left.
    AtOnce,
}

/// Moves records from the input to the producer.
pub(super) struct Pump<'a> {
    pub(super) producer: &'a mut Producer,
    pub(super) input: Input,
    pub(super) rate: Option<Rate>,
    pub(super) clock: &'a Clock,
    pub(super) progress: Progress,
}

enum Event {
    Told,
    Tick,
    Read(Option<Vec<Result<Item, BadInput>>>),
    Due,
    Fatal(ProducerError),
}

impl Pump<'_> {
    pub(super) async fn run(&mut self) -> Result<Ended, Failure> {
        let ended = self.read().await?;
        self.progress.clear();
        if matches!(ended, Ended::Fatal(_)) {
            return Ok(ended);
        }
        let told = told_to_stop();
        tokio::select! {
            biased;
            told = told => told.map(|()| Ended::AtOnce),
            flushed = self.producer.flush() => Ok(match flushed {
                Ok(()) => ended,
                Err(error) => Ended::Fatal(error),
            }),
        }
    }

    async fn read(&mut self) -> Result<Ended, Failure> {
        let mut told = std::pin::pin!(told_to_stop());
        let mut tick = tokio::time::interval(Progress::EVERY);
        let start = self.clock.mono();
        let mut number = 0;
        let mut waiting = VecDeque::new();
        let mut last = 0;
        loop {
            let due = start + self.rate.map_or(Duration::ZERO, |rate| rate.due(number));
            let event = tokio::select! {
                biased;
                told = &mut told => { told?; Event::Told }
                _ = tick.tick() => Event::Tick,
                read = self.input.next(), if waiting.is_empty() => Event::Read(read),
                () = self.clock.sleep_until(due), if !waiting.is_empty() => Event::Due,
                error = self.producer.drive() => Event::Fatal(error),
            };
            match event {
                Event::Told => return Ok(Ended::Told(last)),
                Event::Tick => {
                    let elapsed = self.clock.mono().since(start);
                    self.progress.show(self.producer.summary(), elapsed);
                }
                Event::Read(None) => return Ok(Ended::AllRead),
                Event::Read(Some(items)) => waiting.extend(items),
                Event::Fatal(error) => return Ok(Ended::Fatal(error)),
                Event::Due => {
                    // Without a rate, everything that waits is due.
                    let count = self.rate.map_or(waiting.len(), |_| 1);
                    number += count as u64;
                    // Dropped in the middle, `put` has taken its record all the same; those behind it are not put.
                    tokio::select! {
                        biased;
                        put = put_all(self.producer, waiting.drain(..count), &mut last) => {
                            if let Err(ended) = put {
                                return Ok(ended);
                            }
                        }
                        told = &mut told => {
                            told?;
                            return Ok(Ended::Told(last));
                        }
                    }
                }
            }
        }
    }
}

/// Hands records to the producer; `last` is the last one it has taken.
async fn put_all(
    producer: &mut Producer,
    items: impl Iterator<Item = Result<Item, BadInput>>,
    last: &mut u64,
) -> Result<(), Ended> {
    for item in items {
        let Item { record, tag } = item.map_err(Ended::BadInput)?;
        *last = tag;
        producer.put(record, tag).await.map_err(Ended::Fatal)?;
    }
    Ok(())
}
