//! Faults on demand, before Kinesis and DynamoDB alike. Rule: of the rules that match a call and fire, delays add up and the
//! first one with another action decides. With equal seed and equal order of calls the same calls fail.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Which service a call goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// Kinesis Data Streams.
    Kinesis,
    /// DynamoDB.
    DynamoDb,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Refused for its rate, with the code that this operation of AWS uses.
    Throttle,
    /// Refused with an internal error, HTTP 500.
    Internal,
    /// Refused with the rule's `code`, HTTP 400.
    Error,
    /// Carried out, `delay_ms` late.
    Delay,
    /// The connection is closed: before the call is carried out, or (with `after_bytes` or `after_events`) within the reply.
    Cut,
    /// Carried out, then the connection is closed without a reply.
    Lost,
}

/// One rule. Every condition that is absent holds for all calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Calls of this service only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// Calls of this operation only, by the API's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Calls about this only: a stream name, shard id or consumer name; in DynamoDB any quoted word of the request, so a table
    /// name or a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What happens.
    pub action: Action,
    /// How long the call is held back first, milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// The error code of [`Action::Error`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// [`Action::Cut`]: how many bytes of the reply's body still go out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_bytes: Option<u64>,
    /// SubscribeToShard: how many events still go out before the action, which then happens within the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_events: Option<u64>,
    /// How many matching calls pass before the rule may fire.
    #[serde(default)]
    pub skip: u64,
    /// Share of the matching calls for which it fires, 0 to 1.
    #[serde(default = "always")]
    pub probability: f64,
    /// How often it fires at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// How long it may fire, milliseconds from when it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<i64>,
}

fn always() -> f64 {
    1.0
}

impl Rule {
    /// A rule that fires for every call.
    #[must_use]
    pub fn new(action: Action) -> Self {
        Self {
            service: None,
            operation: None,
            key: None,
            action,
            delay_ms: 0,
            code: None,
            after_bytes: None,
            after_events: None,
            skip: 0,
            probability: 1.0,
            count: None,
            for_ms: None,
        }
    }

    /// The same rule for one operation only.
    #[must_use]
    pub fn on(mut self, service: Service, operation: &str) -> Self {
        self.service = Some(service);
        self.operation = Some(operation.to_owned());
        self
    }

    /// The same rule, firing this often at most.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    fn check(&self) -> Result<(), BadRule> {
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(BadRule::Probability(self.probability));
        }
        let needs = [
            (
                self.action == Action::Delay && self.delay_ms == 0,
                "action \"delay\" needs \"delay_ms\"",
            ),
            (
                self.action == Action::Error && self.code.is_none(),
                "action \"error\" needs \"code\"",
            ),
            (
                self.action != Action::Error && self.code.is_some(),
                "\"code\" goes with action \"error\" only",
            ),
            (
                self.action != Action::Cut && self.after_bytes.is_some(),
                "\"after_bytes\" goes with action \"cut\" only",
            ),
            (
                self.after_events.is_some()
                    && self.operation.as_deref() != Some("SubscribeToShard"),
                "\"after_events\" goes with operation \"SubscribeToShard\" only",
            ),
            (
                self.after_events.is_some() && matches!(self.action, Action::Delay | Action::Lost),
                "\"after_events\" does not go with this action",
            ),
        ];
        needs
            .into_iter()
            .find(|(broken, _)| *broken)
            .map_or(Ok(()), |(_, what)| Err(BadRule::Meaningless(what)))
    }
}

/// A rule that makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadRule {
    /// Outside 0 to 1.
    #[error("\"probability\" is {0}; it must be between 0 and 1")]
    Probability(f64),
    /// Fields that do not go together.
    #[error("{0}")]
    Meaningless(&'static str),
}

/// A rule in force and what it has done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleStatus {
    /// For removing it.
    pub id: u64,
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// Calls that matched.
    pub seen: u64,
    /// Calls for which it fired.
    pub hits: u64,
    #[serde(skip)]
    until: Option<i64>,
}

/// What is to happen to one call.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Verdict {
    /// Hold it back this long first.
    pub delay_ms: u64,
    /// Then do as this rule says, if there is one.
    pub rule: Option<Rule>,
}

/// The rules in force; clones share them.
#[derive(Debug, Clone)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Lets a call pass without the lock while there are no rules.
    rules: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rules: Vec<RuleStatus>,
    last_id: u64,
    dice: fastrand::Rng,
}

impl Faults {
    /// No rules yet; `seed` decides the draws of probabilities.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            rules: Vec::new(),
            last_id: 0,
            dice: fastrand::Rng::with_seed(seed),
        };
        Self(Arc::new(Shared {
            rules: AtomicUsize::new(0),
            state: Mutex::new(state),
        }))
    }

    /// Adds a rule at `now` (epoch milliseconds) and answers its id.
    ///
    /// # Errors
    /// [`BadRule`] if its fields contradict each other.
    pub fn add(&self, rule: Rule, now: i64) -> Result<u64, BadRule> {
        rule.check()?;
        let mut state = self.state();
        state.last_id += 1;
        let id = state.last_id;
        let until = rule.for_ms.map(|ms| now.saturating_add(ms));
        state.rules.push(RuleStatus {
            id,
            rule,
            seen: 0,
            hits: 0,
            until,
        });
        self.0.rules.store(state.rules.len(), Ordering::Release);
        Ok(id)
    }

    /// The rules in the order they are asked.
    #[must_use]
    pub fn list(&self) -> Vec<RuleStatus> {
        self.state().rules.clone()
    }

    /// Removes one rule; false if there is none of this id.
    pub fn remove(&self, id: u64) -> bool {
        let mut state = self.state();
        let before = state.rules.len();
        state.rules.retain(|r| r.id != id);
        self.0.rules.store(state.rules.len(), Ordering::Release);
        state.rules.len() < before
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.state().rules.clear();
        self.0.rules.store(0, Ordering::Release);
    }

    /// What happens to this call. `about` tells whether the call is about a rule's key.
    pub(crate) fn decide(
        &self,
        service: Service,
        operation: &str,
        about: impl Fn(&str) -> bool,
        now: i64,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        if self.0.rules.load(Ordering::Acquire) == 0 {
            return verdict;
        }
        let State { rules, dice, .. } = &mut *self.state();
        for status in rules {
            let rule = &status.rule;
            let matches = rule.service.is_none_or(|s| s == service)
                && rule.operation.as_deref().is_none_or(|o| o == operation)
                && rule.key.as_deref().is_none_or(&about)
                && status.until.is_none_or(|until| now < until)
                && rule.count.is_none_or(|count| status.hits < count);
            if !matches || (verdict.rule.is_some() && rule.action != Action::Delay) {
                continue;
            }
            status.seen += 1;
            if status.seen <= rule.skip || dice.f64() >= rule.probability {
                continue;
            }
            status.hits += 1;
            verdict.delay_ms += rule.delay_ms;
            if rule.action != Action::Delay {
                verdict.rule = Some(rule.clone());
            }
        }
        verdict
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
