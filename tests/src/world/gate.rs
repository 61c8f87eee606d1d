//! What can be done to a process from outside: stop it for a while, as SIGSTOP does, or kill it.
//!
//! Every task of a process is wrapped in a [`Gated`] future. While the gate is shut none of them is polled: no timer, no
//! answer, no order is noticed, and the clocks go on. A killed task is dropped at its next poll, without running again.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

/// The gate of one process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    shut: bool,
    killed: bool,
    /// Everybody who was asked to go on, in the order of asking.
    waiting: Vec<Waker>,
}

impl Gate {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops every task of the process.
    pub fn shut(&self) {
        self.with(|state| state.shut = true);
    }

    /// Lets them go on.
    pub fn open(&self) {
        let waiting = self.with(|state| {
            state.shut = false;
            std::mem::take(&mut state.waiting)
        });
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ends the process.
    pub fn kill(&self) {
        self.with(|state| state.killed = true);
        self.open();
    }

    /// Whether the process is stopped at the moment.
    pub fn is_shut(&self) -> bool {
        self.with(|state| state.shut)
    }

    /// Whether the process was killed.
    pub fn is_killed(&self) -> bool {
        self.with(|state| state.killed)
    }

    fn passes(&self, waker: &Waker) -> Passage {
        self.with(|state| {
            if state.killed {
                return Passage::Killed;
            }
            if !state.shut {
                return Passage::Free;
            }
            if !state.waiting.iter().any(|other| other.will_wake(waker)) {
                state.waiting.push(waker.clone());
            }
            Passage::Shut
        })
    }
}

enum Passage {
    Free,
    Shut,
    Killed,
}

/// A task of a process; `None` when the process was killed before the task was over.
pub struct Gated<F> {
    task: Option<Pin<Box<F>>>,
    gate: Gate,
    panicked: Box<dyn Fn(&(dyn Any + Send)) + Send>,
}

impl<F: Future> Gated<F> {
    /// Puts a task behind a gate. `panicked` is told of a panic before it goes on its way.
    pub fn new(
        task: F,
        gate: &Gate,
        panicked: impl Fn(&(dyn Any + Send)) + Send + 'static,
    ) -> Self {
        Gated {
            task: Some(Box::pin(task)),
            gate: gate.clone(),
            panicked: Box::new(panicked),
        }
    }
}

impl<F: Future> Future for Gated<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match this.gate.passes(context.waker()) {
            Passage::Free => {}
            Passage::Shut => return Poll::Pending,
            Passage::Killed => {
                this.task = None;
                return Poll::Ready(None);
            }
        }
        let Some(task) = &mut this.task else {
            return Poll::Ready(None);
        };
        match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context))) {
            Ok(polled) => polled.map(Some),
            Err(panic) => {
                (this.panicked)(&*panic);
                resume_unwind(panic)
            }
        }
    }
}
