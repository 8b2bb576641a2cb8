//! How to load.

use std::path::PathBuf;
use std::thread;

/// How to load.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Pack matrices that are row-wise ternary to two bits. Off: plain tensors stay as they are.
    pub pack_experts: bool,
    /// Make the attention projections ternary by the rule of training, as the published 2-bit exports do.
    pub ternarize_attention: bool,
    /// Map files instead of reading them, where that saves a copy. Off for files that others may cut or rewrite in place.
    pub map: bool,
    /// Where packed copies are kept; `None`: nowhere, convert in memory at each load.
    pub cache_folder: Option<PathBuf>,
    /// Threads that convert; 0: as many as the process may use.
    pub threads: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            pack_experts: true,
            ternarize_attention: false,
            map: true,
            cache_folder: None,
            threads: 0,
        }
    }
}

impl LoadOptions {
    /// The number of threads that convert.
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        }
    }
}
