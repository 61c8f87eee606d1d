//! Word: what a consumer tells the coordinator – exactly once that it is over, whatever ends it.

use checkpoint::Position;
use lease::{LeaseKey, Shard, renew::Tenure};
use tokio::sync::{mpsc, oneshot};

/// What a consumer tells the coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    /// A processor wants its watermark stored now.
    Checkpoint {
        key: LeaseKey,
        tenure: Tenure,
        position: Position,
        stored: oneshot::Sender<bool>,
    },
    /// The last record is settled; the task is over.
    ShardEnded {
        key: LeaseKey,
        tenure: Tenure,
        children: Vec<Shard>,
    },
    /// The task is over.
    Stopped { key: LeaseKey, tenure: Tenure },
}

/// Reports that the task is over when it is dropped: also when the processor panics, or the task is aborted.
pub(super) struct LastWord {
    report: Option<Report>,
    reports: mpsc::UnboundedSender<Report>,
}

impl LastWord {
    /// Says [`Report::Stopped`] unless told otherwise.
    pub(super) fn stopped(
        key: LeaseKey,
        tenure: Tenure,
        reports: mpsc::UnboundedSender<Report>,
    ) -> Self {
        LastWord {
            report: Some(Report::Stopped { key, tenure }),
            reports,
        }
    }

    /// Says this instead.
    pub(super) fn say(&mut self, report: Report) {
        self.report = Some(report);
    }
}

impl Drop for LastWord {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            // Nobody listens any more: the worker is gone.
            let _ = self.reports.send(report);
        }
    }
}
