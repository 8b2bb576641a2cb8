//! The step loop: takes jobs in, runs a step over the rows of several sequences, lets go of what is done.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::inbox::Shared;
use crate::backend::{Backend, HiddenWanted};
use crate::error::Error;
use crate::generation::SharedError;
use crate::prefix::PrefixStore;
use crate::scheduler::{Pace, StepLimits, plan};
use crate::session::{Job, Scratch, Session};

/// How an engine shares its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// Sequences in work at once; further requests wait.
    pub max_sequences: usize,
    /// Bytes of KV state kept for later requests; 0 keeps none.
    pub prefix_bytes: usize,
    /// Size of a step.
    pub limits: StepLimits,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            max_sequences: 16,
            prefix_bytes: 1 << 30,
            limits: StepLimits::default(),
        }
    }
}

/// The thread's side.
pub(super) struct StepLoop<B: Backend> {
    backend: B,
    shared: Arc<Shared>,
    options: EngineOptions,
    waiting: VecDeque<Job>,
    active: Vec<Session<B::Cache>>,
    prefixes: PrefixStore<B::Cache>,
    scratch: Scratch,
    pace: Pace,
}

enum Turn {
    Stepped,
    NothingToDo,
    Closing,
}

impl<B: Backend> StepLoop<B> {
    pub(super) fn new(backend: B, shared: Arc<Shared>, options: EngineOptions) -> Self {
        let prefixes = PrefixStore::new(options.prefix_bytes);
        StepLoop {
            backend,
            shared,
            options,
            waiting: VecDeque::new(),
            active: Vec::new(),
            prefixes,
            scratch: Scratch::default(),
            pace: Pace::default(),
        }
    }

    pub(super) fn run(mut self) {
        let end = loop {
            match catch_unwind(AssertUnwindSafe(|| self.turn())) {
                Ok(Ok(Turn::Stepped)) => {}
                Ok(Ok(Turn::NothingToDo)) => self.sleep(),
                Ok(Ok(Turn::Closing)) => break Arc::new(Error::Disposed),
                Ok(Err(error)) => break error,
                Err(panic) => {
                    break Arc::new(Error::EngineFailed {
                        reason: panic_message(&*panic),
                    });
                }
            }
        };
        let mut inbox = self.shared.lock();
        if let Error::EngineFailed { reason } = &*end {
            inbox.broken = Some(reason.clone());
        }
        self.waiting.extend(std::mem::take(&mut inbox.jobs));
        drop(inbox);
        self.waiting
            .iter()
            .for_each(|job| job.fail(Arc::clone(&end)));
        self.active
            .iter_mut()
            .for_each(|session| session.fail(Arc::clone(&end)));
        // After a panic the model's own parts may be in any state; their destructors must not take the process down.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self)));
    }

    /// Waits until there may be something to do.
    fn sleep(&self) {
        let mut inbox = self.shared.lock();
        while !(inbox.rung || inbox.closing || !inbox.jobs.is_empty()) {
            inbox = self
                .shared
                .news
                .wait(inbox)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes in what came, then runs one step. An error is one that ends the engine.
    fn turn(&mut self) -> std::result::Result<Turn, SharedError> {
        {
            let mut inbox = self.shared.lock();
            if inbox.closing {
                return Ok(Turn::Closing);
            }
            inbox.rung = false;
            self.waiting.extend(inbox.jobs.drain(..));
        }
        self.retire();
        self.admit();
        let ready: Vec<usize> = self.active.iter().map(Session::ready).collect();
        let rows = plan(&ready, self.pace.limits(self.options.limits));
        if rows.iter().all(|&rows| rows == 0) {
            return Ok(Turn::NothingToDo);
        }
        self.step(&rows)?;
        self.retire();
        Ok(Turn::Stepped)
    }

    /// Lets go of sequences that are done or that nobody waits for.
    fn retire(&mut self) {
        self.waiting.retain(|job| !job.is_cancelled());
        for index in (0..self.active.len()).rev() {
            if self.active[index].is_done() || self.active[index].is_cancelled() {
                self.active.remove(index).leave(&mut self.prefixes);
            }
        }
    }

    fn admit(&mut self) {
        while self.active.len() < self.options.max_sequences.max(1) {
            let Some(job) = self.waiting.pop_front() else {
                return;
            };
            self.active
                .push(Session::start(job, &self.backend, &mut self.prefixes));
        }
    }

    fn step(&mut self, rows: &[usize]) -> std::result::Result<(), SharedError> {
        let mut batch = Vec::new();
        let mut members = Vec::new();
        for (index, (session, &rows)) in self.active.iter_mut().zip(rows).enumerate() {
            if rows > 0 {
                let part = session.rows(rows);
                let hidden_rows = match part.hidden {
                    HiddenWanted::None => 0,
                    HiddenWanted::Last => 1,
                    HiddenWanted::All => rows,
                };
                members.push((index, rows, hidden_rows));
                batch.push(part);
            }
        }
        let started = Instant::now();
        let hidden = match self.backend.forward(&mut batch) {
            Ok(hidden) => hidden,
            Err(error) => {
                return self.drop_members(members.iter().map(|(index, ..)| *index), error);
            }
        };
        self.pace.note(rows.iter().sum(), started.elapsed());
        let width = self.backend.hidden_size();
        let mut hidden = hidden.as_slice();
        let mut failed = Vec::new();
        let keep_snapshots = self.options.prefix_bytes > 0;
        for (index, rows, hidden_rows) in members {
            let own;
            (own, hidden) = hidden.split_at(hidden_rows * width);
            let session = &mut self.active[index];
            if let Err(error) = session.advance(
                rows,
                own,
                &mut self.backend,
                &mut self.scratch,
                keep_snapshots,
            ) {
                failed.push((index, error));
            }
        }
        for (index, error) in failed.into_iter().rev() {
            self.drop_members([index], error)?;
        }
        Ok(())
    }

    /// Ends sequences whose state cannot be trusted any more; an engine failure is passed on.
    fn drop_members(
        &mut self,
        members: impl IntoIterator<Item = usize, IntoIter: DoubleEndedIterator>,
        error: Error,
    ) -> std::result::Result<(), SharedError> {
        let fatal = matches!(error, Error::EngineFailed { .. });
        let error = Arc::new(error);
        if fatal {
            return Err(error);
        }
        for index in members.into_iter().rev() {
            self.active.remove(index).fail(Arc::clone(&error));
        }
        Ok(())
    }
}

/// The text of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("internal error: {}", text.unwrap_or("unknown panic"))
}
