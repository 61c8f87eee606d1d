//! Builds the expressions of one conditional write.
//!
//! Every attribute is named by a placeholder, so that no name can clash with a reserved word; a value that is written
//! and one that is compared with have different placeholders, since a write often does both with one attribute.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

/// What one write changes, and on which condition.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Expression {
    sets: Vec<String>,
    removes: Vec<String>,
    adds: Vec<String>,
    conditions: Vec<String>,
    /// Placeholders of attribute names.
    pub(super) names: HashMap<String, String>,
    /// Placeholders of values.
    pub(super) values: HashMap<String, AttributeValue>,
}

impl Expression {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// The attribute becomes `value`.
    pub(super) fn set(mut self, name: &str, value: AttributeValue) -> Self {
        let (attribute, new) = (self.name(name), self.value("new", name, value));
        self.sets.push(format!("{attribute} = {new}"));
        self
    }

    /// Several attributes become these values.
    pub(super) fn set_all<'a>(
        self,
        values: impl IntoIterator<Item = (&'a str, AttributeValue)>,
    ) -> Self {
        values
            .into_iter()
            .fold(self, |self_, (name, value)| self_.set(name, value))
    }

    /// The attributes go, if they are there.
    pub(super) fn remove<const N: usize>(mut self, names: [&str; N]) -> Self {
        for name in names {
            let attribute = self.name(name);
            self.removes.push(attribute);
        }
        self
    }

    /// The number rises by `value`; an absent one counts as 0.
    pub(super) fn add(mut self, name: &str, value: AttributeValue) -> Self {
        let (attribute, added) = (self.name(name), self.value("new", name, value));
        self.adds.push(format!("{attribute} {added}"));
        self
    }

    /// Only if the attribute is `value`.
    pub(super) fn when(mut self, name: &str, value: AttributeValue) -> Self {
        let (attribute, seen) = (self.name(name), self.value("seen", name, value));
        self.conditions.push(format!("{attribute} = {seen}"));
        self
    }

    /// Only if the attribute is `value`, or absent if that is `None`.
    pub(super) fn when_same(self, name: &str, value: Option<AttributeValue>) -> Self {
        match value {
            Some(value) => self.when(name, value),
            None => self.when_absent(name),
        }
    }

    /// Only if the row does not have the attribute.
    pub(super) fn when_absent(mut self, name: &str) -> Self {
        let attribute = self.name(name);
        self.conditions
            .push(format!("attribute_not_exists({attribute})"));
        self
    }

    /// Only if the row has the attribute.
    pub(super) fn when_present(mut self, name: &str) -> Self {
        let attribute = self.name(name);
        self.conditions
            .push(format!("attribute_exists({attribute})"));
        self
    }

    /// Only if the row does not have `absent`, or its `name` is `value`.
    pub(super) fn when_absent_or(
        mut self,
        absent: &str,
        name: &str,
        value: AttributeValue,
    ) -> Self {
        let (absent, attribute) = (self.name(absent), self.name(name));
        let seen = self.value("seen", name, value);
        self.conditions.push(format!(
            "(attribute_not_exists({absent}) OR {attribute} = {seen})"
        ));
        self
    }

    /// The `UpdateExpression`.
    pub(super) fn update(&self) -> String {
        [
            ("SET", &self.sets),
            ("REMOVE", &self.removes),
            ("ADD", &self.adds),
        ]
        .into_iter()
        .filter(|(_, clauses)| !clauses.is_empty())
        .map(|(word, clauses)| format!("{word} {}", clauses.join(", ")))
        .collect::<Vec<_>>()
        .join(" ")
    }

    /// The `ConditionExpression`; `None`: there is none.
    pub(super) fn condition(&self) -> Option<String> {
        (!self.conditions.is_empty()).then(|| self.conditions.join(" AND "))
    }

    /// The values, or `None` if there are none: DynamoDB refuses an empty map.
    pub(super) fn some_values(&self) -> Option<HashMap<String, AttributeValue>> {
        (!self.values.is_empty()).then(|| self.values.clone())
    }

    fn name(&mut self, name: &str) -> String {
        let placeholder = format!("#{name}");
        self.names.insert(placeholder.clone(), name.to_owned());
        placeholder
    }

    fn value(&mut self, which: &str, name: &str, value: AttributeValue) -> String {
        let mut placeholder = format!(":{which}_{name}");
        // Two conditions on one attribute may ask for different values (and then never hold together).
        while self
            .values
            .get(&placeholder)
            .is_some_and(|taken| *taken != value)
        {
            placeholder.push_str("_too");
        }
        self.values.insert(placeholder.clone(), value);
        placeholder
    }
}
