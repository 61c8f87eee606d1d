//! Rule: in which encoding a Kinesis is asked, when nobody has said so.
//!
//! * CBOR first. Whoever answers it in CBOR – be it with an error – speaks it, and that is settled.
//! * An answer in anything else is nonsense: the same request is put in JSON at once, so that the caller never sees it.
//!   Only an answer in JSON settles JSON; nothing is learnt from two that make no sense.
//! * A gateway's refusal or a lost answer says nothing about the encoding: the caller gets it, and tries again in its own
//!   time. Should that happen [`PATIENCE`] times before CBOR was ever answered, it counts as nonsense: there are servers
//!   that fall over on what they cannot read.
//! * An answer that says it is CBOR and cannot be read is a stand-in's idea of CBOR (kinesis-local leaves out the tag of
//!   timestamps): the same request is put in JSON, and JSON it is from then on.
//! * What is settled otherwise stays so for the life of the client; what the configuration says, always.

/// Unclear answers that are put down to chance.
const PATIENCE: u8 = 2;

/// How bodies are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// `application/x-amz-cbor-1.1`.
    Cbor,
    /// `application/x-amz-json-1.1`.
    Json,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// An answer in the encoding that was asked in.
    Answer,
    /// Something else.
    Nonsense,
    /// CBOR by its name, but not as AWS writes it.
    Garbled,
    /// Nothing, or what a gateway says when there is nobody behind it.
    Unclear,
}

/// What to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Hand it on.
    Done,
    /// Ask the same again, in JSON.
    AskInJson,
}

/// What is known about one Kinesis.
#[derive(Debug)]
pub(super) struct Speech {
    settled: Option<Encoding>,
    /// By the configuration.
    told: bool,
    unclear: u8,
}

impl Speech {
    /// Nothing is known yet.
    pub(super) fn unknown() -> Self {
        Speech {
            settled: None,
            told: false,
            unclear: 0,
        }
    }

    /// Somebody has said so.
    pub(super) fn settled(encoding: Encoding) -> Self {
        Speech {
            settled: Some(encoding),
            told: true,
            unclear: 0,
        }
    }

    /// How to ask.
    pub(super) fn encoding(&self) -> Encoding {
        self.settled.unwrap_or(Encoding::Cbor)
    }

    /// Whether anything is certain.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.is_some()
    }

    /// Takes in what came back for a question in `asked`. Questions may overlap.
    pub(super) fn heard(&mut self, asked: Encoding, heard: Heard) -> Then {
        match (self.settled, asked, heard) {
            (_, Encoding::Cbor, Heard::Garbled) if !self.told => {
                self.settled = Some(Encoding::Json);
                Then::AskInJson
            }
            (None, _, Heard::Answer) => {
                self.settled = Some(asked);
                Then::Done
            }
            // Another question was quicker to find out.
            (None | Some(Encoding::Json), Encoding::Cbor, Heard::Nonsense) => Then::AskInJson,
            (None, Encoding::Cbor, Heard::Unclear) => {
                self.unclear = self.unclear.saturating_add(1);
                if self.unclear > PATIENCE {
                    Then::AskInJson
                } else {
                    Then::Done
                }
            }
            _ => Then::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Encoding::{Cbor, Json},
        Heard::{Answer, Garbled, Nonsense, Unclear},
        Then::{AskInJson, Done},
        *,
    };

    /// Plays a history and compares what is done at each step, and the encoding at the end.
    fn play(mut speech: Speech, steps: &[(Encoding, Heard, Then)], end: Encoding) {
        for (index, (asked, heard, then)) in steps.iter().enumerate() {
            assert_eq!(speech.heard(*asked, *heard), *then, "step {index}");
        }
        assert_eq!(speech.encoding(), end);
    }

    #[test]
    fn cbor_that_cannot_be_read_is_not_spoken_any_longer_unless_told_to() {
        let steps = [
            (Cbor, Answer, Done),
            (Cbor, Garbled, AskInJson),
            (Json, Answer, Done),
        ];
        play(Speech::unknown(), &steps, Json);
        play(Speech::settled(Cbor), &[(Cbor, Garbled, Done)], Cbor);
    }

    #[test]
    fn an_answer_settles_the_encoding_it_came_in() {
        play(Speech::unknown(), &[(Cbor, Answer, Done)], Cbor);
        play(
            Speech::unknown(),
            &[(Cbor, Nonsense, AskInJson), (Json, Answer, Done)],
            Json,
        );
    }

    #[test]
    fn two_answers_without_sense_settle_nothing() {
        play(
            Speech::unknown(),
            &[
                (Cbor, Nonsense, AskInJson),
                (Json, Nonsense, Done),
                (Cbor, Nonsense, AskInJson),
                (Json, Unclear, Done),
            ],
            Cbor,
        );
    }

    #[test]
    fn gateways_and_lost_answers_are_chance_until_they_are_a_habit() {
        let steps = [
            (Cbor, Unclear, Done),
            (Cbor, Unclear, Done),
            (Cbor, Unclear, AskInJson),
        ];
        play(Speech::unknown(), &steps, Cbor);
        let mut speech = Speech::unknown();
        for (asked, heard, then) in steps {
            assert_eq!(speech.heard(asked, heard), then);
        }
        play(speech, &[(Json, Answer, Done)], Json);
    }

    #[test]
    fn questions_that_overlap_agree() {
        // Both were asked in CBOR before the first answer came.
        play(
            Speech::unknown(),
            &[
                (Cbor, Nonsense, AskInJson),
                (Json, Answer, Done),
                (Cbor, Nonsense, AskInJson),
                (Json, Answer, Done),
            ],
            Json,
        );
    }

    #[test]
    fn what_is_settled_stays_so() {
        for encoding in [Cbor, Json] {
            for heard in [Answer, Nonsense, Unclear] {
                let steps = [(encoding, heard, Done); 5];
                play(Speech::settled(encoding), &steps, encoding);
            }
        }
    }
}
