//! What the threads of a pass share. The layer loop and attention are methods of it, each in a file of its own.

use std::sync::atomic::{AtomicU32, Ordering};

use kernels::float::FloatFns;
use kernels::{Kernels, SharedRows};

use super::moe::Choice;
use super::scratch::{self, Disjoint, PRIVATE_ROWS};
use super::sequence::Sequence;
use crate::config::{Config, LayerKind};
use crate::kv_cache::CacheType;
use crate::weights::Weights;

/// One pass over all layers for some rows, as all threads see it. Shapes are those of [`Scratch`](super::scratch::Scratch).
pub(super) struct Pass<'a> {
    pub(super) config: &'a Config,
    pub(super) weights: &'a Weights,
    pub(super) kernels: &'a Kernels,
    pub(super) fns: &'a FloatFns,
    /// For each layer the query norm, times `1 / sqrt(head_dim)`.
    pub(super) query_norms: &'a [Vec<f32>],
    pub(super) cache_type: CacheType,
    pub(super) tokens: &'a [u32],
    pub(super) sequences: &'a [Sequence<'a>],
    pub(super) h: Disjoint<'a, f32>,
    /// Distance between rows of `h`, and of `qkv`.
    pub(super) h_stride: usize,
    pub(super) qkv_stride: usize,
    pub(super) x: SharedRows<'a>,
    pub(super) qkv: Disjoint<'a, f32>,
    pub(super) attention: SharedRows<'a>,
    pub(super) records: Disjoint<'a, f32>,
    pub(super) router: Disjoint<'a, f32>,
    pub(super) choices: Disjoint<'a, Choice>,
    pub(super) inner: SharedRows<'a>,
    pub(super) cos: &'a [f32],
    pub(super) sin: &'a [f32],
    pub(super) iota: &'a [u32],
    /// For each row the first layer that found its input out of range.
    pub(super) overflow: &'a [AtomicU32],
}

impl Pass<'_> {
    pub(super) fn rows(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn slides(&self, layer: usize) -> bool {
        self.config.layers[layer] == LayerKind::Sliding
    }

    /// Whether each thread prepares inputs for itself.
    pub(super) fn is_private(&self) -> bool {
        self.rows() <= PRIVATE_ROWS
    }

    /// Notes it if row `r` of the residual stream is more than `layer` can take in.
    ///
    /// # Safety
    /// As for [`h_row`](Self::h_row).
    pub(super) unsafe fn watch(&self, r: usize, layer: usize) {
        // SAFETY: the caller's promise is the same.
        if !scratch::in_range(unsafe { self.h_row(r) }) {
            self.overflow[r].fetch_min(layer as u32, Ordering::Relaxed);
        }
    }

    /// Row `r` of the residual stream.
    ///
    /// # Safety
    /// Nobody writes to the row while the result is used.
    pub(super) unsafe fn h_row(&self, r: usize) -> &[f32] {
        // SAFETY: the caller's promise is the same.
        unsafe { self.h.part(r * self.h_stride, self.config.hidden) }
    }
}
