//! How loading tells how far it is, and is told to stop.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// What loading is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Writing the packed copy.
    Convert,
    /// Bringing weights into memory.
    Load,
}

/// Is told how far loading is, and asked whether to go on. Called from several threads, a few hundred times in all.
pub trait Progress: Sync {
    /// `done` of `total` source bytes.
    fn report(&self, phase: Phase, done: u64, total: u64);

    /// Loading ends with [`Error::Cancelled`] soon after this turns true.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Tells nobody.
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _: Phase, _: u64, _: u64) {}
}

/// Counts bytes for the progress, and asks it whether to go on.
pub(crate) struct Meter<'a> {
    progress: &'a dyn Progress,
    phase: Phase,
    total: u64,
    done: AtomicU64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(progress: &'a dyn Progress, phase: Phase, total: u64) -> Self {
        progress.report(phase, 0, total);
        Meter {
            progress,
            phase,
            total,
            done: AtomicU64::new(0),
        }
    }

    /// Reports about 200 times in all.
    pub(crate) fn add(&self, bytes: u64) -> Result<()> {
        if self.progress.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let before = self.done.fetch_add(bytes, Ordering::Relaxed);
        let step = (self.total / 200).max(1);
        let after = before + bytes;
        if before / step != after / step && after < self.total {
            self.progress.report(self.phase, after, self.total);
        }
        Ok(())
    }

    /// Reports that all is done.
    pub(crate) fn finish(self) {
        self.progress.report(self.phase, self.total, self.total);
    }
}
