//! A sequence's part of a pass: its rows, and what of the cache they see.

use kernels::float::attention::{KEY_BLOCK, KEY_CHUNK};

use super::scratch::SPLIT_ROWS;
use crate::kv_cache::KvCache;

/// A sequence's part of a pass.
pub(super) struct Sequence<'a> {
    pub(super) cache: &'a KvCache,
    /// Its first row in the pass.
    pub(super) first: usize,
    pub(super) rows: usize,
    /// The position of its first row.
    pub(super) start: usize,
}

impl Sequence<'_> {
    pub(super) fn splits(&self) -> bool {
        self.rows <= SPLIT_ROWS
    }

    /// Chunks that any of the rows `from .. to` sees, first and end.
    pub(super) fn chunks(&self, layer: usize, from: usize, to: usize) -> (usize, usize) {
        let first = self.cache.visible_from(layer, self.start + from) / KEY_CHUNK;
        (first, (self.start + to - 1) / KEY_CHUNK + 1)
    }

    /// What row `row` sees of `chunk`, in positions of the chunk.
    pub(super) fn range(&self, layer: usize, row: usize, chunk: usize) -> (usize, usize) {
        let position = self.start + row;
        let base = chunk * KEY_CHUNK;
        let from = self.cache.visible_from(layer, position).max(base);
        let to = (position + 1).min(base + KEY_CHUNK);
        if from < to {
            (from - base, to - base)
        } else {
            (0, 0)
        }
    }

    /// Blocks of sixteen positions that its rows touch.
    pub(super) fn key_blocks(&self) -> usize {
        (self.start + self.rows - 1) / KEY_BLOCK - self.start / KEY_BLOCK + 1
    }

    /// Records this sequence needs in a layer if it shares out its keys.
    pub(super) fn records(&self, layer: usize, heads: usize) -> usize {
        let (first, end) = self.chunks(layer, 0, self.rows);
        if self.splits() {
            (end - first) * self.rows * heads
        } else {
            0
        }
    }
}

/// The most records any layer needs.
pub(super) fn max_records(sequences: &[Sequence<'_>], layers: usize, heads: usize) -> usize {
    let of_layer = |layer| sequences.iter().map(|s| s.records(layer, heads)).sum();
    (0..layers).map(of_layer).max().unwrap_or(0)
}
