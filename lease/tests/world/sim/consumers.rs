//! Consumers: they read what is there, settle it one tick later, end with their shard, and stop when told to.

use checkpoint::Position;
use lease::{
    Lease, LeaseKey, ShardId,
    leases::{Event, Halt},
    renew::Tenure,
};

use super::{Ev, MILLI, Pid, SECOND, World};
use crate::{process::Consumer, stream::moment};

impl World {
    pub(super) fn start_consumer(
        &mut self,
        pid: Pid,
        lease: &Lease,
        tenure: Tenure,
        until: lease::Time,
    ) {
        let from = moment(&lease.checkpoint, lease.pinned);
        let slow = self.moody && self.rng.u32(0..10) == 0;
        let consumer = Consumer {
            shard: lease.shard.clone(),
            tenure,
            valid_until: until,
            read: from,
            settled: None,
            halt: None,
            drains_in: if slow {
                self.rng.u64(1..40) * SECOND
            } else {
                self.rng.u64(1..300) * MILLI
            },
            stuck: false,
        };
        self.process(pid).last_words.remove(&lease.key);
        let former = self
            .process(pid)
            .consumers
            .insert(lease.key.clone(), consumer);
        if former.is_some() {
            self.check
                .fail(self.now, format!("{pid} starts {} twice", lease.key));
        }
        self.check
            .started(self.now, pid, lease, from, &self.processes, &self.stream);
        self.order(1, Ev::Tick(pid, lease.key.clone(), tenure));
    }

    /// A consumer settles what it handed over before, and hands over what is there.
    pub(super) fn consume(&mut self, pid: Pid, key: &LeaseKey, tenure: Tenure) {
        let believes = self.processes[&pid].believes(key, self.now);
        let now = self.now;
        let process = self.processes.get_mut(&pid).expect("checked by happen");
        let Some(consumer) = process.consumer(key, tenure) else {
            return;
        };
        if consumer.halt.is_some() || consumer.stuck {
            return;
        }
        if believes {
            // What was read before this tick.
            if let Some(newest) = consumer.settle(&self.stream) {
                self.check.settled(&consumer.shard, newest);
            }
            let newest = self.stream.newest(&consumer.shard, now);
            if newest > consumer.read {
                consumer.read = newest;
                self.check.delivered(now, &consumer.shard);
            } else if self.stream.get(&consumer.shard).is_closed() {
                let event = Event::ShardEnded {
                    key: key.clone(),
                    tenure,
                    children: self.stream.children(&consumer.shard),
                };
                self.check.ended(&consumer.shard);
                process.consumers.remove(key);
                return self.hear(pid, event);
            } else {
                self.check.delivered(now, &consumer.shard);
            }
        }
        let pause = self.rng.u64(self.tick / 2..self.tick * 3 / 2);
        self.order(pause, Ev::Tick(pid, key.clone(), tenure));
    }

    pub(super) fn stop_consumer(&mut self, pid: Pid, key: LeaseKey, halt: Halt) {
        let late = self.moody && self.rng.u32(0..10) == 0;
        let quick = self.rng.u64(0..50) * MILLI;
        let process = self.process(pid);
        let Some(consumer) = process.consumers.get_mut(&key) else {
            return;
        };
        consumer.halt = Some(halt);
        let tenure = consumer.tenure;
        let after = match halt {
            Halt::Drain if consumer.stuck => return,
            Halt::Drain => consumer.drains_in,
            Halt::Lost | Halt::Cancel if late => self.rng.u64(1..6) * SECOND,
            Halt::Lost | Halt::Cancel => quick,
        };
        self.order(after, Ev::StopDone(pid, key, tenure));
    }

    pub(super) fn stop_done(&mut self, pid: Pid, key: &LeaseKey, tenure: Tenure) {
        let believes = self.processes[&pid].believes(key, self.now);
        let process = self.processes.get_mut(&pid).expect("checked by happen");
        let Some(consumer) = process.consumer(key, tenure) else {
            return;
        };
        if consumer.halt == Some(Halt::Drain) && believes {
            // The batch in hand is done.
            if let Some(newest) = consumer.settle(&self.stream) {
                self.check.settled(&consumer.shard, newest);
            }
        }
        // The machine reads the last watermark when it hears that the consumer is gone.
        let event = Event::Stopped {
            key: key.clone(),
            tenure,
        };
        let gone = process.consumers.remove(key).expect("looked at");
        let last = gone.settled.map(crate::stream::position);
        self.hear_with(pid, event, (key, tenure), last);
    }

    /// Like `hear`, while the shell still knows the watermark of a consumer that is gone.
    fn hear_with(
        &mut self,
        pid: Pid,
        event: Event,
        (key, tenure): (&LeaseKey, Tenure),
        last: Option<Position>,
    ) {
        if let Some(last) = last {
            let words = (tenure, last);
            self.process(pid).last_words.insert(key.clone(), words);
        }
        self.hear(pid, event);
    }

    /// Who reads `shard` and believes in it.
    pub(crate) fn readers(&self, shard: &ShardId) -> Vec<Pid> {
        self.processes
            .iter()
            .filter(|(_, process)| {
                process.consumers.iter().any(|(key, consumer)| {
                    consumer.shard == *shard
                        && consumer.halt.is_none()
                        && process.believes(key, self.now)
                })
            })
            .map(|(pid, _)| *pid)
            .collect()
    }
}
