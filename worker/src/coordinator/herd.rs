//! The consumers of one worker: started, told, watched. Nothing is decided here.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use checkpoint::Position;
use lease::{
    Lease, LeaseKey, Time,
    leases::{Halt, Handled},
    renew::Tenure,
};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};

use crate::{
    backoff::Random,
    budget::Budget,
    clock::Clock,
    consumer::{Delivery, Parts, Report, consume, meter::Meter},
    handler::{ProcessorFactory, ShardContext, progress::Progress},
    metrics,
    run::DataPlane,
    source::Source,
};

/// One stream, as its consumers need it.
pub(crate) struct Pasture<S> {
    pub(crate) name: String,
    pub(crate) source: Arc<S>,
    pub(crate) delivery: Delivery,
}

pub(crate) struct Herd<S, F: ProcessorFactory> {
    pub(crate) streams: Vec<Pasture<S>>,
    pub(crate) factory: F,
    pub(crate) reports: mpsc::UnboundedSender<Report>,
    pub(crate) budget: Budget,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) stuck_after: Duration,
    pub(crate) data: DataPlane,
    pub(crate) members: BTreeMap<LeaseKey, Member>,
}

pub(crate) struct Member {
    tenure: Tenure,
    progress: Arc<Progress>,
    halt: watch::Sender<Option<Halt>>,
    meter: Meter,
    task: AbortHandle,
    reported_stuck: bool,
    over: bool,
}

impl<S: Source, F: ProcessorFactory> Herd<S, F> {
    pub(crate) fn start(
        &mut self,
        stream: usize,
        lease: Box<Lease>,
        tenure: Tenure,
        valid_until: Time,
    ) {
        let key = lease.key.clone();
        let pasture = &self.streams[stream];
        let context = ShardContext {
            stream: pasture.name.clone(),
            shard: lease.shard.clone(),
            tenure,
            resumed_at: lease.checkpoint.clone(),
        };
        let progress = Arc::new(Progress::new(lease.checkpoint.clone(), valid_until));
        let (halt, told) = watch::channel(None);
        let meter = Meter::new(
            &pasture.name,
            lease.shard.as_str(),
            pasture.delivery.retention,
        );
        let parts = Parts {
            processor: self.factory.processor(&context),
            context,
            lease,
            delivery: pasture.delivery,
            source: pasture.source.clone(),
            progress: progress.clone(),
            reports: self.reports.clone(),
            halt: told,
            budget: self.budget.clone(),
            clock: self.clock.clone(),
            random: self.random.fork(),
            meter: meter.clone(),
            patience: self.stuck_after,
        };
        let task = self.data.spawn(Box::pin(consume(parts)));
        let member = Member {
            tenure,
            progress,
            halt,
            meter,
            task,
            reported_stuck: false,
            over: false,
        };
        self.members.insert(key, member);
    }

    /// What the consumer of a tenure has done. Still known after its end, for the last write of the row.
    pub(crate) fn handled(&self, key: &LeaseKey, tenure: Tenure) -> Handled {
        let member = self.members.get(key);
        match member.filter(|member| member.tenure == tenure) {
            Some(member) => Handled {
                watermark: member.progress.watermark(),
                bytes: member.progress.handled_bytes(),
            },
            None => Handled::default(),
        }
    }

    pub(crate) fn believe(&self, key: &LeaseKey, until: Time) {
        if let Some(member) = self.members.get(key) {
            member.progress.believe(until);
        }
    }

    pub(crate) fn halt(&mut self, key: &LeaseKey, halt: Halt) {
        if let Some(member) = self.members.get_mut(key) {
            if halt == Halt::Lost {
                // Nothing of this tenure is handed over from here on, whatever the task is doing.
                member.progress.believe(Time::ZERO);
            }
            member.halt.send_replace(Some(halt));
        }
    }

    /// A consumer is over.
    pub(crate) fn ended(&mut self, key: &LeaseKey, tenure: Tenure, at_shard_end: bool) {
        if let Some(member) = self
            .members
            .get_mut(key)
            .filter(|member| member.tenure == tenure)
        {
            member.over = true;
            if at_shard_end {
                member.meter.shard().shard_ended();
            }
        }
    }

    /// A shard's end is stored: its numbers are of no more interest.
    pub(crate) fn finished(&mut self, key: &LeaseKey) {
        if self.members.get(key).is_some_and(|member| member.over) {
            self.members.remove(key);
        }
    }

    pub(crate) fn stored(&self, key: &LeaseKey, position: &Position) {
        if let Some(member) = self.members.get(key) {
            member.progress.stored(position);
            member.meter.shard().checkpoint_written();
        }
    }

    pub(crate) fn renewed(&self, key: &LeaseKey, age: Duration) {
        if let Some(member) = self.members.get(key) {
            member.meter.shard().lease_renewal_age(age);
        }
    }

    /// Consumers that make no progress, each reported once.
    pub(crate) fn stuck(&mut self, now: Time) -> Vec<(LeaseKey, Tenure)> {
        let limit = self.stuck_after;
        self.members
            .iter_mut()
            .filter(|(_, member)| !member.over && !member.reported_stuck)
            .filter(|(_, member)| {
                member.progress.busy_for(now) > limit || member.progress.failing_for(now) > limit
            })
            .map(|(key, member)| {
                member.reported_stuck = true;
                (key.clone(), member.tenure)
            })
            .collect()
    }

    /// The gauges.
    pub(crate) fn measure(&mut self, now: Time) {
        let mut stuck = 0;
        for member in self.members.values().filter(|member| !member.over) {
            stuck += usize::from(member.reported_stuck);
            let shard = member.meter.shard();
            shard.checkpoint_lag(member.progress.not_stored());
            let busy = member.progress.busy_for(now);
            if !busy.is_zero() {
                shard.handler_in_progress(busy);
            }
        }
        metrics::stuck_shards(stuck);
        metrics::buffer_used(usize::try_from(self.budget.used()).unwrap_or(usize::MAX));
    }
}

impl<S, F: ProcessorFactory> Drop for Herd<S, F> {
    /// A worker that ends takes its consumers with it, whatever they are doing.
    fn drop(&mut self) {
        for member in self.members.values() {
            member.progress.believe(Time::ZERO);
            member.task.abort();
        }
    }
}
