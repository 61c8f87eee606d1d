//! SubscribeToShard on the wire: frames of `application/vnd.amazon.eventstream`, one per event, as long as the client reads.

use std::time::Duration;

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use bytes::Bytes;
use futures::stream::{self, Stream};
use hyper::body::Frame;

use super::page::json_event;
use super::value::Value;
use crate::local::clock::Clock;
use crate::local::faults::{Action, Rule};
use crate::local::http::{CUT_PAUSE, Cut};
use crate::local::model::{Code, Error, Step, Subscription};
use crate::local::shared::SharedKinesis;

/// A clock handed in by a test may jump; look at it at least this often.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// The frames of a subscription, until it ends or `fault` ends it.
pub(crate) fn frames(
    kinesis: SharedKinesis,
    clock: Clock,
    subscription: Subscription,
    fault: Option<Rule>,
) -> impl Stream<Item = Result<Frame<Bytes>, Cut>> + Send {
    let feed = Feed {
        kinesis,
        clock,
        subscription,
        fault,
        events: 0,
        bytes: 0,
        next: Next::Greeting,
    };
    stream::unfold(feed, |mut feed| async move {
        feed.next()
            .await
            .map(|frame| (frame.map(Frame::data), feed))
    })
}

struct Feed {
    kinesis: SharedKinesis,
    clock: Clock,
    subscription: Subscription,
    fault: Option<Rule>,
    events: u64,
    bytes: u64,
    next: Next,
}

/// What comes next in the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The empty first frame that the protocol demands.
    Greeting,
    Event,
    Cut,
    End,
}

impl Feed {
    async fn next(&mut self) -> Option<Result<Bytes, Cut>> {
        let frame = match self.next {
            Next::Greeting => {
                self.next = Next::Event;
                event_frame("initial-response", b"{}".to_vec())
            }
            Next::Event => self.event().await?,
            Next::Cut => {
                // Lets what was sent before reach the client.
                tokio::time::sleep(CUT_PAUSE).await;
                return Some(Err(Cut));
            }
            Next::End => return None,
        };
        Some(Ok(self.within_bytes(frame)))
    }

    async fn event(&mut self) -> Option<Bytes> {
        if let Some(rule) = self
            .fault
            .as_ref()
            .filter(|rule| rule.after_events == Some(self.events))
        {
            if rule.action == Action::Cut {
                self.next = Next::Cut;
                return Some(Bytes::new());
            }
            let (_, error) = super::refusal(rule, "SubscribeToShard")?;
            self.next = Next::End;
            return Some(exception_frame(&in_stream(&error.0), &error.1));
        }
        self.events += 1;
        match self.step().await {
            Ok(Some(frame)) => Some(frame),
            Ok(None) => {
                self.next = Next::End;
                None
            }
            Err(error) => {
                self.next = Next::End;
                Some(exception_frame(
                    &in_stream(error.code.name()),
                    &error.message,
                ))
            }
        }
    }

    /// Waits for the next event; `None` when the subscription ended in order.
    async fn step(&mut self) -> Result<Option<Bytes>, Error> {
        let bell = self.subscription.bell();
        loop {
            let mut rung = std::pin::pin!(bell.notified());
            // From here on no ring is missed, though the wait begins only after looking.
            rung.as_mut().enable();
            let now = (self.clock)();
            let step = self.kinesis.lock().next_step(&mut self.subscription, now)?;
            let until = match step {
                Step::Event(event) => {
                    return Ok(Some(event_frame(
                        "SubscribeToShardEvent",
                        json_event(&event),
                    )));
                }
                Step::End => return Ok(None),
                Step::Wait(until) => until,
            };
            let wait =
                Duration::from_millis(u64::try_from(until - now).unwrap_or(0)).min(LONGEST_SLEEP);
            tokio::select! {
                () = rung => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Shortens the frame that crosses the limit of a cut.
    fn within_bytes(&mut self, frame: Bytes) -> Bytes {
        let limit = self.fault.as_ref().and_then(|rule| rule.after_bytes);
        let before = self.bytes;
        self.bytes += frame.len() as u64;
        match limit {
            Some(limit) if self.bytes >= limit => {
                self.next = Next::Cut;
                frame.slice(..usize::try_from(limit - before).unwrap_or(0))
            }
            _ => frame,
        }
    }
}

/// Within the stream the internal error has a name of its own.
fn in_stream(code: &str) -> String {
    if code == Code::InternalFailure.name() {
        "InternalFailureException".to_owned()
    } else {
        code.to_owned()
    }
}

fn event_frame(kind: &'static str, payload: Vec<u8>) -> Bytes {
    frame(
        &[
            (":message-type", "event"),
            (":event-type", kind),
            (":content-type", "application/x-amz-json-1.1"),
        ],
        payload,
    )
}

fn exception_frame(code: &str, message: &str) -> Bytes {
    let mut payload = Vec::new();
    Value::map([("message", message.to_owned().into())]).write_json(&mut payload);
    frame(
        &[
            (":message-type", "exception"),
            (":exception-type", code),
            (":content-type", "application/x-amz-json-1.1"),
        ],
        payload,
    )
}

fn frame(headers: &[(&'static str, &str)], payload: Vec<u8>) -> Bytes {
    let headers = headers
        .iter()
        .map(|(name, value)| Header::new(*name, HeaderValue::String((*value).to_owned().into())));
    let mut out = Vec::with_capacity(payload.len() + 256);
    let message = Message::new_from_parts(headers.collect(), payload);
    write_message_to(&message, &mut out)
        .expect("headers are short and an event is far below the frame limit of 16 MiB");
    out.into()
}
