//! Loop: the calls of a processor that carry no records – its beginning, the end of its shard, the order to stop, a lost
//! lease – and the waits between tries.
//!
//! A call that fails is made again after a growing wait, except those on the way out. A call is cut off as soon as the
//! lease is lost or given up; only the last one, `lease_lost`, may take its time, within a limit.

use lease::{Shard, leases::Halt};

use super::{Consumer, halting::End};
use crate::{
    handler::{Commit, HandlerError, Processor},
    source::Source,
};

impl<S: Source, P: Processor> Consumer<S, P> {
    /// Prepares the processor; `Some`: told to stop before it was ready.
    pub(super) async fn initialize(&mut self) -> Option<End> {
        loop {
            let context = self.context.clone();
            self.progress.busy(Some(self.clock.mono()));
            let result = {
                let call = self.processor.initialize(&context);
                self.halt.cut_off(call).await
            };
            self.progress.busy(None);
            match result {
                None => return Some(self.cut()),
                Some(Ok(())) => {
                    self.retry.succeeded();
                    return None;
                }
                Some(Err(error)) => {
                    if let Some(end) = self.wait_after_failure("initialize", &error).await {
                        return Some(end);
                    }
                }
            }
        }
    }

    /// Waits before another try; ends early when told to stop.
    pub(super) async fn wait_after_failure(
        &mut self,
        call: &str,
        error: &HandlerError,
    ) -> Option<End> {
        let wait = self.retry.next_wait();
        tracing::warn!(
            stream = %self.context.stream,
            shard = %self.context.shard,
            failures = self.retry.failures(),
            retry_in = ?wait,
            "handler failed in {call}: {error}"
        );
        let until = self.clock.mono() + wait;
        loop {
            if self.halt.drains() {
                return Some(self.stop().await);
            }
            tokio::select! {
                biased;
                () = self.halt.changed() => {}
                () = self.clock.sleep_until(until) => return None,
            }
        }
    }

    /// Everything is handed over: the processor has the last word before the end is settled.
    pub(super) async fn end_shard(&mut self, children: Vec<Shard>) -> End {
        self.progress.reach_end();
        loop {
            self.progress.busy(Some(self.clock.mono()));
            let result = {
                let call = self.processor.shard_ended(&self.checkpointer);
                self.halt.cut_off(call).await
            };
            self.progress.busy(None);
            let error = match result {
                None => return self.cut(),
                Some(Ok(())) if self.processor.commit() == Commit::Auto => {
                    self.progress.settle_all();
                    return End::Ended(children);
                }
                Some(Ok(())) if self.progress.ended() => return End::Ended(children),
                Some(Ok(())) => {
                    "the shard has ended, but the processor did not checkpoint its end".into()
                }
                Some(Err(error)) => error,
            };
            if let Some(end) = self.wait_after_failure("shard_ended", &error).await {
                return end;
            }
        }
    }

    /// Told to drain: the batch in hand is complete, the processor has its last chance to checkpoint.
    pub(super) async fn stop(&mut self) -> End {
        self.progress.leave_end();
        if !self.halt.cuts() {
            let result = {
                let call = self.processor.shutdown_requested(&self.checkpointer);
                self.halt.cut_off(call).await
            };
            match result {
                Some(Ok(())) => return End::Drained,
                Some(Err(error)) => {
                    tracing::warn!(shard = %self.context.shard, "handler failed in shutdown_requested: {error}");
                    return End::Drained;
                }
                None => {}
            }
        }
        self.cut()
    }

    /// Why it is cut off.
    pub(super) fn cut(&self) -> End {
        match self.halt.told() {
            Some(Halt::Lost) => End::Lost,
            _ => End::Cancelled,
        }
    }

    /// Tells the processor that the lease is lost, and waits until it has parted from it.
    pub(super) async fn part(&mut self) {
        let until = self.clock.mono() + self.patience;
        tokio::select! {
            biased;
            () = self.processor.lease_lost() => {}
            () = self.clock.sleep_until(until) => tracing::error!(
                stream = %self.context.stream,
                shard = %self.context.shard,
                "handler does not return from lease_lost and is cut off"
            ),
        }
    }
}
