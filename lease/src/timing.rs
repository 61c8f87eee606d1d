//! Rule: every interval of the lease protocol, derived from the failover time.
//!
//! A holder believes in its lease until `last good write SENT + failover - margin`; an observer takes a row whose
//! counter it has **seen** unchanged for the failover time. The first is always earlier, whatever the clocks of the
//! two say, as long as they run at about the same rate: that is what the margin is for.

use std::time::Duration;

use crate::time::Time;

/// The intervals of one application; every worker of a fleet should use the same failover time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    failover: Duration,
    checkpoint_every: Duration,
}

impl Timing {
    /// Intervals for this failover time, and checkpoints at least this often while there is something new.
    pub fn new(failover: Duration, checkpoint_every: Duration) -> Self {
        Timing {
            failover,
            checkpoint_every,
        }
    }

    /// A lease whose counter is seen unchanged for this long is free.
    pub fn failover(&self) -> Duration {
        self.failover
    }

    /// A holder stops believing this much earlier than others could start to act.
    pub fn margin(&self) -> Duration {
        self.failover / 20
    }

    /// A holder renews this often: as seldom as leaves room for a try that hangs until its time-out and another one
    /// after it. Each renewal is a write that somebody pays for.
    pub fn renew_every(&self) -> Duration {
        self.failover * 2 / 5
    }

    /// A new checkpoint is stored at least this often; renewals carry it for free.
    pub fn checkpoint_every(&self) -> Duration {
        self.checkpoint_every
    }

    /// A call to the table that takes longer has no clear answer (hazard H19).
    pub fn request_timeout(&self) -> Duration {
        self.failover / 4
    }

    /// The leader and its deputy look at the table this often, so that a dead worker is noticed within two seconds
    /// after the failover time.
    pub fn watch_every(&self) -> Duration {
        (self.failover * 15 / 100).min(Duration::from_millis(1500))
    }

    /// Everybody else looks this often.
    pub fn follow_every(&self) -> Duration {
        self.watch_every() * 3
    }

    /// While a worker waits for news of its own (it just joined, inherits, hands over or leaves) it looks this often.
    pub fn wait_every(&self) -> Duration {
        (self.failover / 40).clamp(Duration::from_millis(20), Duration::from_millis(200))
    }

    /// A worker that joined waits for its share this long before it calms down.
    pub fn join_patience(&self) -> Duration {
        self.failover
    }

    /// A worker that joined counts as quick to answer for this long, by whoever sees its row.
    pub fn quick_for(&self) -> Duration {
        self.join_patience() / 2
    }

    /// The leader lock's heartbeat.
    pub fn lock_every(&self) -> Duration {
        self.failover / 4
    }

    /// An heir that does not answer within this time gets nothing.
    pub fn heir_patience(&self) -> Duration {
        self.failover * 6 / 10
    }

    /// A holder that drains for longer is cut off (the KCL's graceful hand-off time-out).
    pub fn drain_patience(&self) -> Duration {
        self.failover * 3
    }

    /// A worker with leases writes its own row this often (the KCL's period; its leaders take 60 s for dead).
    pub fn worker_row_every(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// A worker without leases has no other sign of life and writes its row more often.
    pub fn idle_worker_row_every(&self) -> Duration {
        (self.failover / 3).min(self.worker_row_every())
    }

    /// A worker whose own row is seen unchanged for this long is dead. `every`: how often it says that it writes it; a
    /// Java worker does not say, and its own leaders wait for a minute.
    pub fn worker_patience(&self, every: Option<Duration>) -> Duration {
        every.map_or(Duration::from_secs(60), |every| every + self.failover / 2)
    }

    /// A worker's row that is seen unchanged for this long can be removed.
    pub fn worker_row_kept_for(&self, every: Option<Duration>) -> Duration {
        every.map_or(Duration::from_secs(24 * 3600), |every| {
            every * 4 + self.failover * 6
        })
    }

    /// A row that came to a Java worker from another may stand still for this long before it is free: such a worker
    /// looks for rows that were given to it once in a failover time and renews the first time a third of it later; its
    /// own leaders wait as long.
    pub fn java_heir_patience(&self) -> Duration {
        self.failover * 2
    }

    /// The deputy rescues a shard that the leader has not rescued for this long.
    pub fn deputy_patience(&self) -> Duration {
        self.watch_every() * 2
    }

    /// A pause between two lists that are `pace` apart is a gap if it is longer than this: nothing can be said then
    /// about what stood still.
    pub fn gap(&self, pace: Duration) -> Duration {
        (self.failover / 2).max(pace * 2)
    }

    /// A failed list of the table or of the shards is tried again within this time.
    pub fn list_again_within(&self) -> Duration {
        self.request_timeout().min(Duration::from_secs(1))
    }

    /// A finished row is not removed before it was known for this long: no call is under way for so long.
    pub fn row_kept_for(&self) -> Duration {
        self.failover * 3
    }

    /// The leader asks Kinesis for the shards this often, to repair what nobody noticed.
    pub fn list_shards_every(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// A shard that was given up by this worker is not taken back by it for this long.
    pub fn avoid_for(&self) -> Duration {
        self.failover * 3
    }

    /// How long to wait before try number `attempt` (from 1) after a failure: 2.5 % of the failover time, doubling up
    /// to an eighth of it. `salt` spreads the rows of one worker.
    pub fn retry_after(&self, attempt: u32, salt: u64) -> Duration {
        let base = (self.failover / 40).saturating_mul(1 << attempt.saturating_sub(1).min(6));
        let most = self.failover / 8;
        let wait = base.min(most);
        wait / 2 + wait.mul_f64((salt % 1024) as f64 / 2048.0)
    }

    /// The end of a belief that rests on a write sent then.
    pub fn valid_until(&self, sent: Time) -> Time {
        sent + self.failover.saturating_sub(self.margin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_always_stops_before_an_observer_starts() {
        for millis in [100, 1_000, 10_000, 60_000] {
            let timing = Timing::new(Duration::from_millis(millis), Duration::from_secs(5));
            let sent = Time::new(Duration::from_secs(100));
            // The earliest an observer can see the write is the moment it was sent.
            assert!(timing.valid_until(sent) < sent + timing.failover());
            // A renewal that hangs and another whole try fit into one belief.
            let tries = timing.request_timeout() * 2 + timing.retry_after(1, 1023);
            assert!(timing.renew_every() + tries <= timing.failover() - timing.margin());
        }
    }

    #[test]
    fn nobody_is_taken_for_dead_before_it_could_speak() {
        for millis in [100, 1_000, 10_000, 60_000] {
            let timing = Timing::new(Duration::from_millis(millis), Duration::from_secs(5));
            for every in [timing.worker_row_every(), timing.idle_worker_row_every()] {
                // One late row is no death, and a dead worker's row is not removed before that.
                let patience = timing.worker_patience(Some(every));
                assert!(patience >= every + timing.request_timeout());
                assert!(timing.worker_row_kept_for(Some(every)) > patience);
            }
            assert!(timing.worker_row_kept_for(None) > timing.worker_patience(None));
            // An heir answers, and a leader rescues, before anybody else acts.
            assert!(timing.heir_patience() > timing.wait_every() * 2);
            assert!(timing.deputy_patience() > timing.watch_every());
            assert!(timing.java_heir_patience() > timing.failover() + timing.renew_every());
        }
    }

    #[test]
    fn retries_grow_and_stay_bounded() {
        let timing = Timing::new(Duration::from_secs(10), Duration::from_secs(5));
        for salt in [0, 512, 1023] {
            assert!(timing.retry_after(1, salt) <= Duration::from_millis(250));
            assert!(timing.retry_after(1, salt) >= Duration::from_millis(125));
            assert!(timing.retry_after(40, salt) <= Duration::from_millis(1250));
        }
    }
}
