//! Memory of a pass: what all threads share, and what each has for itself. Allocated once and used again.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;

use kernels::buffer::Buffer;
use kernels::float::attention::{KEY_CHUNK, record_len};
use kernels::{Precision, Rows, STRIP};

use super::moe::{Choice, Routing};
use crate::config::Config;

/// Passes of at most this many rows let every thread prepare a product's input for itself, which is cheaper than a barrier.
pub(super) const PRIVATE_ROWS: usize = 4;
/// Sequences of at most this many rows share their keys out to the threads; longer ones share out their rows.
pub(super) const SPLIT_ROWS: usize = 4;
/// Rows of a longer sequence whose attention is computed together.
pub(super) const QUERY_ROWS: usize = 8;
/// Rows of activations multiplied at a time, so that the results stay in the nearest cache.
pub(super) const PRODUCT_ROWS: usize = 48;

/// Distance between rows of `len` values that are written strip by strip: whole cache lines, and an odd number of them, so that
/// the same columns of many rows do not fall into the same cache sets.
pub(super) fn stride(len: usize) -> usize {
    (len.div_ceil(16) | 1) * 16
}

/// A buffer whose parts are written by different threads, with barriers between writers and readers.
#[derive(Clone, Copy)]
pub(super) struct Disjoint<'a, T> {
    start: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: what is done through the pointer is ruled by the contracts of `part` and `part_mut`.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(super) fn new(buffer: &'a mut [T]) -> Self {
        Self {
            start: buffer.as_mut_ptr(),
            len: buffer.len(),
            life: PhantomData,
        }
    }

    fn check(&self, at: usize, len: usize) {
        assert!(
            at <= self.len && len <= self.len - at,
            "part {at}+{len} of {}",
            self.len
        );
    }

    /// # Safety
    /// No other thread writes to these values while the result is used; writes by others happened before.
    pub(super) unsafe fn part(&self, at: usize, len: usize) -> &'a [T] {
        self.check(at, len);
        // SAFETY: in bounds of a buffer borrowed for 'a; nobody writes, by contract.
        unsafe { std::slice::from_raw_parts(self.start.add(at), len) }
    }

    /// # Safety
    /// No other thread reads or writes these values while the result is used, and no second slice of them is held.
    pub(super) unsafe fn part_mut(&self, at: usize, len: usize) -> &'a mut [T] {
        self.check(at, len);
        // SAFETY: in bounds of a buffer borrowed for 'a; nobody else uses these values, by contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }
}

/// What the threads share. `n` is the rows of the pass.
pub(super) struct Scratch {
    /// Residual stream, `[n][stride(hidden)]`.
    pub(super) h: Buffer<f32>,
    /// Normed input of attention and of the experts, `[n][hidden]`.
    pub(super) x: Rows,
    /// Queries, keys, values, `[n][stride((heads + 2 kv_heads) * head_dim)]`.
    pub(super) qkv: Buffer<f32>,
    /// Attention output, `[n][heads * head_dim]`.
    pub(super) attention: Rows,
    /// Attention records of sequences that share their keys out.
    pub(super) records: Vec<f32>,
    /// Router logits, `[n][experts]`.
    pub(super) router: Vec<f32>,
    /// `[n][experts_per_token]`.
    pub(super) choices: Vec<Choice>,
    /// Inner activations of the experts, one row a slot: `[n * experts_per_token][expert_hidden]`.
    pub(super) inner: Rows,
    /// Rotary angles, `[n][rotated / 2]`.
    pub(super) cos: Vec<f32>,
    pub(super) sin: Vec<f32>,
    /// 0, 1, 2, ...: for products with consecutive rows.
    pub(super) iota: Vec<u32>,
    /// For each row the first layer whose input was out of range; [`NO_OVERFLOW`] where none was.
    pub(super) overflow: Vec<AtomicU32>,
}

/// No layer.
pub(super) const NO_OVERFLOW: u32 = u32::MAX;

/// Whether a norm can be taken of these values: the sum of their squares is a number below infinity. Otherwise a norm would turn them
/// into zeros or into what is no number.
pub(super) fn in_range(values: &[f32]) -> bool {
    let (chunks, rest) = values.as_chunks::<16>();
    let mut squares = [0f32; 16];
    for chunk in chunks {
        for (sum, value) in squares.iter_mut().zip(chunk) {
            *sum += value * value;
        }
    }
    let sum: f32 = squares.iter().sum();
    (sum + rest.iter().map(|value| value * value).sum::<f32>()).is_finite()
}

impl Scratch {
    /// Bytes of the largest parts of it, about; the rest is small beside them.
    pub(super) fn bytes(config: &Config, max_rows: usize) -> u64 {
        // A value and its quantised form.
        const OF_ROWS: usize = 8;
        let floats = stride(config.hidden)
            + stride(config.query_rows() + 2 * config.kv_rows())
            + config.experts
            + config.rotated;
        let slot = OF_ROWS * config.expert_hidden + size_of::<Choice>() + size_of::<u32>();
        let row = 4 * floats
            + OF_ROWS * (config.hidden + config.query_rows())
            + config.experts_per_token * slot;
        max_rows as u64 * row as u64
    }

    pub(super) fn new(config: &Config, precision: Precision, max_rows: usize) -> Self {
        let slots = max_rows * config.experts_per_token;
        Self {
            h: Buffer::zeroed(max_rows * stride(config.hidden)),
            x: Rows::new(max_rows, config.hidden, precision),
            qkv: Buffer::zeroed(max_rows * stride(config.query_rows() + 2 * config.kv_rows())),
            attention: Rows::new(max_rows, config.query_rows(), precision),
            records: Vec::new(),
            router: vec![0.0; max_rows * config.experts],
            choices: vec![Choice::default(); slots],
            inner: Rows::new(slots, config.expert_hidden, precision),
            cos: vec![0.0; max_rows * (config.rotated / 2)],
            sin: vec![0.0; max_rows * (config.rotated / 2)],
            iota: (0..slots as u32).collect(),
            overflow: (0..max_rows).map(|_| AtomicU32::new(NO_OVERFLOW)).collect(),
        }
    }

    /// The first of these rows whose numbers left their range, counted from `first`, and the layer in which they did; no layer for
    /// the embedding. Looks at what the last of `layers` layers left, too.
    pub(super) fn overflow(
        &mut self,
        first: usize,
        rows: usize,
        hidden: usize,
        layers: usize,
    ) -> Option<(usize, Option<usize>)> {
        let mut found = (first..first + rows).filter_map(|r| {
            let noted = std::mem::replace(self.overflow[r].get_mut(), NO_OVERFLOW);
            let last = &self.h[r * stride(hidden)..][..hidden];
            let at = match noted {
                NO_OVERFLOW if in_range(last) => return None,
                NO_OVERFLOW => layers,
                noted => noted as usize,
            };
            Some((r - first, at.checked_sub(1)))
        });
        let earliest = found.next();
        found.for_each(drop); // so that all notes are taken back
        earliest
    }
}

/// What each thread has for itself.
pub(super) struct Local {
    /// Private copies of the product inputs, for small passes.
    pub(super) x: Rows,
    pub(super) attention: Rows,
    pub(super) inner: Rows,
    /// Results of a product, and of a second one.
    pub(super) out: Vec<f32>,
    pub(super) out2: Vec<f32>,
    /// Queries, ranges, scores and records of a tile of attention.
    pub(super) queries: Vec<f32>,
    pub(super) ranges: Vec<(usize, usize)>,
    pub(super) scores: Vec<f32>,
    pub(super) records: Vec<f32>,
    pub(super) merged: Vec<f32>,
    /// One key.
    pub(super) key: Vec<f32>,
    /// Router probabilities of one row.
    pub(super) probabilities: Vec<f32>,
    /// Choices of all rows, for small passes.
    pub(super) choices: Vec<Choice>,
    pub(super) routing: Routing,
}

impl Local {
    pub(super) fn new(config: &Config, precision: Precision) -> Self {
        let slots = PRIVATE_ROWS * config.experts_per_token;
        let queries = QUERY_ROWS.max(SPLIT_ROWS) * (config.heads / config.kv_heads);
        let record = record_len(config.head_dim);
        Self {
            x: Rows::new(PRIVATE_ROWS, config.hidden, precision),
            attention: Rows::new(PRIVATE_ROWS, config.query_rows(), precision),
            inner: Rows::new(slots, config.expert_hidden, precision),
            out: vec![0.0; PRODUCT_ROWS * STRIP],
            out2: vec![0.0; PRODUCT_ROWS * STRIP],
            queries: vec![0.0; queries * config.head_dim],
            ranges: Vec::with_capacity(queries),
            scores: vec![0.0; queries * KEY_CHUNK],
            records: vec![0.0; queries * record],
            merged: vec![0.0; queries * record],
            key: vec![0.0; config.head_dim],
            probabilities: vec![0.0; config.experts],
            choices: vec![Choice::default(); slots],
            routing: Routing::default(),
        }
    }
}
