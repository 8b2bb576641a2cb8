//! Where jobs wait until the step loop takes them in.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::session::Job;

#[derive(Default)]
pub(super) struct Inbox {
    pub(super) jobs: Vec<Job>,
    /// Set by readers that made room or went away.
    pub(super) rung: bool,
    pub(super) closing: bool,
    pub(super) broken: Option<String>,
}

#[derive(Default)]
pub(super) struct Shared {
    pub(super) inbox: Mutex<Inbox>,
    pub(super) news: Condvar,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inbox> {
        // The inbox is consistent after every statement that changes it, so a panic elsewhere does not spoil it.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Inbox)) {
        change(&mut self.lock());
        self.news.notify_all();
    }
}
