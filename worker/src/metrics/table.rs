//! How a metric is described, and how it becomes a handle of the recorder in force.

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Unit, with_recorder,
};

/// How a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; starts at zero with the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One metric as users see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// The full name.
    pub name: &'static str,
    /// How it counts.
    pub kind: Kind,
    /// What it counts.
    pub unit: Unit,
    /// Its labels; `stream` and `shard` are subject to [`super::ShardLabels`].
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

impl Metric {
    fn key(&self, labels: Vec<Label>) -> Key {
        let known = |label: &Label| self.labels.contains(&label.key());
        debug_assert!(
            labels.iter().all(known),
            "{} has no such label: {labels:?}",
            self.name
        );
        Key::from_parts(self.name, labels)
    }

    pub(super) fn counter(&self, labels: Vec<Label>) -> Counter {
        debug_assert_eq!(self.kind, Kind::Counter, "{}", self.name);
        with_recorder(|recorder| recorder.register_counter(&self.key(labels), &METADATA))
    }

    pub(super) fn gauge(&self, labels: Vec<Label>) -> Gauge {
        debug_assert_eq!(self.kind, Kind::Gauge, "{}", self.name);
        with_recorder(|recorder| recorder.register_gauge(&self.key(labels), &METADATA))
    }

    pub(super) fn histogram(&self, labels: Vec<Label>) -> Histogram {
        debug_assert_eq!(self.kind, Kind::Histogram, "{}", self.name);
        with_recorder(|recorder| recorder.register_histogram(&self.key(labels), &METADATA))
    }

    pub(super) fn describe(&self) {
        let (name, unit, help) = (KeyName::from(self.name), Some(self.unit), self.help.into());
        with_recorder(|recorder| match self.kind {
            Kind::Counter => recorder.describe_counter(name, unit, help),
            Kind::Gauge => recorder.describe_gauge(name, unit, help),
            Kind::Histogram => recorder.describe_histogram(name, unit, help),
        });
    }
}

/// Defines metrics as constants, and `ALL` of them.
macro_rules! table {
    ($($id:ident = $kind:ident $name:literal $unit:ident [$($label:literal),*] $help:literal;)+) => {
        $(
            const $id: Metric = Metric {
                name: concat!("shardkeeper_", $name),
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: &[$($label),*],
                help: $help,
            };
        )+

        /// Every metric there is; `docs/METRICS.md` is held against it.
        pub const ALL: &[Metric] = &[$($id,)+];
    };
}
pub(super) use table;
