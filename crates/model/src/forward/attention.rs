//! Attention of a pass: norm and rotate queries and keys, store keys and values, weigh and sum.
//!
//! Sequences with few rows (decoding) are shared out by KV head and chunk of keys, and the records are merged when the output
//! projection's input is prepared. Longer ones (prefill) first store all their keys, then are shared out by KV head and tile of
//! rows. Both merge the same records in the same order.

use kernels::float::attention::{Element, KEY_BLOCK, KEY_CHUNK, record_len};

use super::pass::Pass;
use super::scratch::{Local, QUERY_ROWS};
use super::sequence::Sequence;
use crate::pool::Worker;

impl Pass<'_> {
    /// Everything between the projections of a layer, up to the records or, for longer sequences, the output rows.
    pub(super) fn attend<E: Element>(&self, worker: &Worker<'_>, local: &mut Local, layer: usize) {
        let kv_heads = self.config.kv_heads;
        let long = || self.sequences.iter().filter(|s| !s.splits());
        let blocks: usize = long().map(Sequence::key_blocks).sum();
        if blocks > 0 {
            worker.phase(blocks, |unit| {
                let (sequence, block) = nth(long(), unit, Sequence::key_blocks);
                self.store_block::<E>(local, layer, sequence, block);
            });
        }
        let split_units = |s: &Sequence<'_>| {
            let (first, end) = s.chunks(layer, 0, s.rows);
            if s.splits() {
                kv_heads * (end - first)
            } else {
                0
            }
        };
        let tile_units = |s: &Sequence<'_>| {
            if s.splits() {
                0
            } else {
                kv_heads * s.rows.div_ceil(QUERY_ROWS)
            }
        };
        let tiles: usize = self.sequences.iter().map(tile_units).sum();
        let splits: usize = self.sequences.iter().map(split_units).sum();
        worker.phase(tiles + splits, |unit| {
            if unit < tiles {
                // The last tiles of a sequence see the most keys; starting with them evens out the end.
                let (sequence, at) = nth(self.sequences.iter(), tiles - 1 - unit, tile_units);
                self.attend_tile::<E>(local, layer, sequence, at % kv_heads, at / kv_heads);
            } else {
                let (sequence, at) = nth(self.sequences.iter(), unit - tiles, split_units);
                self.attend_chunk::<E>(local, layer, sequence, at % kv_heads, at / kv_heads);
            }
        });
    }

    /// The attention output of row `row` of the pass, if it was left in records; otherwise it is in place already.
    pub(super) fn merge_row(&self, merged: &mut [f32], layer: usize, row: usize, out: &mut [f32]) {
        let mut base = 0;
        for sequence in self.sequences {
            if row >= sequence.first + sequence.rows {
                base += sequence.records(layer, self.config.heads);
                continue;
            }
            if !sequence.splits() {
                return;
            }
            let (d, group) = (
                self.config.head_dim,
                self.config.heads / self.config.kv_heads,
            );
            let record = record_len(d);
            let (first, end) = sequence.chunks(layer, 0, sequence.rows);
            let merged = &mut merged[..record];
            for (head, out) in out.chunks_exact_mut(d).enumerate() {
                for chunk in 0..end - first {
                    let unit = (head / group) * (end - first) + chunk;
                    let at =
                        base + (unit * sequence.rows + row - sequence.first) * group + head % group;
                    // SAFETY: records were written before the last barrier, and are not written before the next.
                    let from = unsafe { self.records.part(at * record, record) };
                    if chunk == 0 {
                        merged.copy_from_slice(from);
                    } else {
                        self.fns.merge(merged, from);
                    }
                }
                self.fns.finish(merged, out);
            }
            return;
        }
    }

    /// Norms and rotates one head of `row` of the pass in place.
    fn turn(&self, layer: usize, row: usize, head: &mut [f32], norm: &[f32]) {
        self.fns.rmsnorm_in_place(head, norm, self.config.rms_eps);
        if self.slides(layer) {
            let pairs = self.config.rotated / 2;
            let at = row * pairs;
            self.fns
                .rotate(head, &self.cos[at..at + pairs], &self.sin[at..at + pairs]);
        }
    }

    /// Norms and rotates in place the queries of the rows in one block of sixteen positions, and stores their keys and values.
    fn store_block<E: Element>(
        &self,
        local: &mut Local,
        layer: usize,
        sequence: &Sequence<'_>,
        block: usize,
    ) {
        let base = (sequence.start / KEY_BLOCK + block) * KEY_BLOCK;
        let from = base.max(sequence.start) - sequence.start;
        let to = (base + KEY_BLOCK - sequence.start).min(sequence.rows);
        for row in from..to {
            let at = (sequence.first + row) * self.qkv_stride;
            // SAFETY: this unit alone uses the row's queries in this phase.
            let queries = unsafe { self.qkv.part_mut(at, self.config.query_rows()) };
            for head in queries.chunks_exact_mut(self.config.head_dim) {
                self.turn(layer, sequence.first + row, head, &self.query_norms[layer]);
            }
            for kv_head in 0..self.config.kv_heads {
                // SAFETY: this unit alone stores to this block of positions, and nobody reads it before the next barrier.
                unsafe { self.store_key::<E>(&mut local.key, layer, sequence, row, kv_head) };
            }
        }
    }

    /// # Safety
    /// As [`KvCache::store`](crate::kv_cache::KvCache::store), for the row's position.
    unsafe fn store_key<E: Element>(
        &self,
        key: &mut [f32],
        layer: usize,
        sequence: &Sequence<'_>,
        row: usize,
        kv_head: usize,
    ) {
        let d = self.config.head_dim;
        let at = (sequence.first + row) * self.qkv_stride + self.config.query_rows();
        // SAFETY: keys and values of the projections are only read since the last barrier.
        let (k, v) = unsafe {
            let keys = self.qkv.part(at + kv_head * d, d);
            (
                keys,
                self.qkv.part(at + self.config.kv_rows() + kv_head * d, d),
            )
        };
        key.copy_from_slice(k);
        self.turn(
            layer,
            sequence.first + row,
            key,
            &self.weights.layers[layer].k_norm,
        );
        // SAFETY: the position is prepared; nobody else uses this memory, by contract.
        unsafe {
            sequence
                .cache
                .store::<E>(self.fns, layer, kv_head, sequence.start + row, (key, v))
        };
    }

    /// All rows of a sequence over one chunk for one KV head, into records. Stores the sequence's own keys of that chunk first.
    fn attend_chunk<E: Element>(
        &self,
        local: &mut Local,
        layer: usize,
        sequence: &Sequence<'_>,
        kv_head: usize,
        nth_chunk: usize,
    ) {
        let (d, group) = (
            self.config.head_dim,
            self.config.heads / self.config.kv_heads,
        );
        let (first, end) = sequence.chunks(layer, 0, sequence.rows);
        let chunk = first + nth_chunk;
        for row in 0..sequence.rows {
            if (sequence.start + row) / KEY_CHUNK == chunk {
                // SAFETY: this unit is the only one of the phase that uses this KV head of this chunk, as units differ in one or
                // the other.
                unsafe { self.store_key::<E>(&mut local.key, layer, sequence, row, kv_head) };
            }
        }
        local.ranges.clear();
        for row in 0..sequence.rows {
            let at = (sequence.first + row) * self.qkv_stride + kv_head * group * d;
            // SAFETY: the projections are only read in this phase: sequences with few rows turn copies of their queries.
            let source = unsafe { self.qkv.part(at, group * d) };
            let queries = &mut local.queries[row * group * d..][..group * d];
            queries.copy_from_slice(source);
            for head in queries.chunks_exact_mut(d) {
                self.turn(layer, sequence.first + row, head, &self.query_norms[layer]);
            }
            let range = sequence.range(layer, row, chunk);
            local.ranges.extend(std::iter::repeat_n(range, group));
        }
        let before = self
            .sequences
            .iter()
            .take_while(|s| s.first < sequence.first);
        let base: usize = before.map(|s| s.records(layer, self.config.heads)).sum();
        let (n, record) = (sequence.rows * group, record_len(d));
        let unit = kv_head * (end - first) + nth_chunk;
        // SAFETY: records of a unit are its own in this phase.
        let records = unsafe {
            self.records
                .part_mut((base + unit * n) * record, n * record)
        };
        // SAFETY: this unit alone stores to this part of the cache, and has done so.
        let keys = unsafe { sequence.cache.chunk::<E>(layer, kv_head, chunk) };
        self.fns.attend(
            &keys,
            &local.queries[..n * d],
            &local.ranges,
            &mut local.scores,
            records,
        );
    }

    /// A tile of rows of a sequence over all chunks for one KV head, into the attention output.
    fn attend_tile<E: Element>(
        &self,
        local: &mut Local,
        layer: usize,
        sequence: &Sequence<'_>,
        kv_head: usize,
        tile: usize,
    ) {
        let (d, group) = (
            self.config.head_dim,
            self.config.heads / self.config.kv_heads,
        );
        let record = record_len(d);
        let (from, to) = (
            tile * QUERY_ROWS,
            sequence.rows.min((tile + 1) * QUERY_ROWS),
        );
        let n = (to - from) * group;
        for (row, queries) in (from..to).zip(local.queries.chunks_exact_mut(group * d)) {
            let at = (sequence.first + row) * self.qkv_stride + kv_head * group * d;
            // SAFETY: queries were turned before the last barrier and are only read since.
            queries.copy_from_slice(unsafe { self.qkv.part(at, group * d) });
        }
        let (first, end) = sequence.chunks(layer, from, to);
        for chunk in first..end {
            local.ranges.clear();
            for row in from..to {
                let range = sequence.range(layer, row, chunk);
                local.ranges.extend(std::iter::repeat_n(range, group));
            }
            // SAFETY: keys of longer sequences were stored before the last barrier.
            let keys = unsafe { sequence.cache.chunk::<E>(layer, kv_head, chunk) };
            let records = if chunk == first {
                &mut local.merged
            } else {
                &mut local.records
            };
            let records = &mut records[..n * record];
            self.fns.attend(
                &keys,
                &local.queries[..n * d],
                &local.ranges,
                &mut local.scores,
                records,
            );
            if chunk > first {
                for (into, from) in local
                    .merged
                    .chunks_exact_mut(record)
                    .zip(local.records[..n * record].chunks_exact(record))
                {
                    self.fns.merge(into, from);
                }
            }
        }
        for (i, merged) in local.merged[..n * record].chunks_exact(record).enumerate() {
            let (row, head) = (
                sequence.first + from + i / group,
                kv_head * group + i % group,
            );
            // SAFETY: this unit alone writes this head of this row, and nobody reads it before the next barrier.
            self.fns
                .finish(merged, unsafe { self.attention.part_mut(row, head * d, d) });
        }
    }
}

/// The sequence that holds unit `unit`, when each holds `units(sequence)` of them, and the unit's number there.
fn nth<'a, 'b: 'a>(
    sequences: impl Iterator<Item = &'a Sequence<'b>>,
    mut unit: usize,
    units: impl Fn(&Sequence<'b>) -> usize,
) -> (&'a Sequence<'b>, usize) {
    for sequence in sequences {
        let here = units(sequence);
        if unit < here {
            return (sequence, unit);
        }
        unit -= here;
    }
    unreachable!("units are counted by the same function")
}
