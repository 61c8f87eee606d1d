//! The recorder of the process and its text for Prometheus.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics_exporter_prometheus::{
    BuildError, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use metrics_util::MetricKindMask;

use super::labels::WorkerState;
use super::shard::{Registry, ShardLabels};
use super::table::Kind;
use super::{ALL, BUILD_INFO, Metric, WORKER_STATE, describe, label};

/// Upper bounds of the histograms, in seconds: from a local handler to one that waits for a slow database.
const BUCKETS: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// The process could not be given its recorder.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Another part of the process has installed one.
    #[error("the process already has a metrics recorder; install it once, and before any other")]
    AlreadyInstalled,
    /// The exporter refused its settings: a mistake in this file.
    #[error("the metrics exporter refused its settings: {0}")]
    Settings(#[from] BuildError),
}

/// Renders the metrics of the process.
#[derive(Debug)]
pub struct Exporter {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
    pub(super) registry: Arc<Registry>,
    /// One rendering at a time: a gauge that was not set since the last rendering is dropped by the next, so setting
    /// and rendering must not interleave between two scrapers.
    turn: Mutex<()>,
}

/// Installs the recorder of the process and describes every metric.
///
/// # Errors
/// If the process already has one.
pub fn install(labels: ShardLabels) -> Result<Exporter, InstallError> {
    let exporter = Exporter::build(labels)?;
    if !exporter.registry.install() {
        return Err(InstallError::AlreadyInstalled);
    }
    metrics::set_global_recorder(exporter.recorder.clone())
        .map_err(|_| InstallError::AlreadyInstalled)?;
    Ok(exporter)
}

fn build_labels() -> Vec<metrics::Label> {
    vec![label("version", env!("CARGO_PKG_VERSION"))]
}

impl Exporter {
    /// Makes a recorder without installing it, describes every metric, and shows those without labels from the start,
    /// so that "never happened" reads 0.
    pub(crate) fn build(labels: ShardLabels) -> Result<Exporter, InstallError> {
        let registry = Registry::new(labels);
        let recorder = PrometheusBuilder::new()
            .set_buckets(BUCKETS)?
            .idle_timeout(MetricKindMask::GAUGE, Some(Duration::ZERO))
            .build_recorder();
        let exporter = Exporter {
            handle: recorder.handle(),
            recorder: Arc::new(recorder),
            registry,
            turn: Mutex::default(),
        };
        exporter.within(|| {
            describe();
            for metric in ALL
                .iter()
                .filter(|metric| metric.kind == Kind::Counter && metric.labels.is_empty())
            {
                metric.counter(vec![]).increment(0);
            }
            BUILD_INFO.gauge(build_labels()).set(1.0);
        });
        Ok(exporter)
    }

    /// Runs `events` so that they reach this exporter, whatever is installed.
    pub(super) fn within<T>(&self, events: impl FnOnce() -> T) -> T {
        metrics::with_local_recorder(&*self.recorder, events)
    }

    /// All metrics in the Prometheus text format.
    pub fn render(&self) -> String {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.within(|| {
            self.registry.publish();
            touch_process_gauges();
        });
        self.handle.render()
    }

    /// Folds collected samples of histograms together. Call it every few seconds: without it, samples pile up when
    /// nobody scrapes.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

/// Marks the gauges of the process as alive; those of a shard are alive as long as the shard is held.
fn touch_process_gauges() {
    let touch = |metric: &Metric, labels| metric.gauge(labels).increment(0.0);
    for metric in ALL
        .iter()
        .filter(|metric| metric.kind == Kind::Gauge && metric.labels.is_empty())
    {
        touch(metric, vec![]);
    }
    for state in WorkerState::ALL {
        touch(&WORKER_STATE, vec![label("state", state.as_str())]);
    }
    touch(&BUILD_INFO, build_labels());
}
