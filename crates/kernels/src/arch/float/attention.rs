//! Attention of a few queries over one chunk of keys, and the merging of chunks.
//!
//! Every score is a sum over the head's dimensions in order, every value a sum over positions in order, so no tiling, batch or
//! thread count changes a bit.

use super::lanes::{self, LANES, Lanes};
use crate::data::half::f32_to_f16;
use crate::data::kv_chunk::{KEY_BLOCK, KEY_CHUNK, KeyChunk, padded, record_len};

// A block of keys is a vector.
const _: () = assert!(KEY_BLOCK == LANES);

/// Largest finite half-precision number. Larger keys and values are held there: an infinity in the cache would make NaN of
/// positions that a query does not even see.
const F16_MAX: f32 = 65504.0;

/// Loading elements of the KV cache into lanes.
pub(crate) trait Load: Copy {
    /// # Safety
    /// The instruction set of `L` must be available; `p` readable for sixteen elements.
    unsafe fn load<L: Lanes>(p: *const Self) -> L;
}

impl Load for u16 {
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const Self) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { L::load_f16(p) }
    }
}

impl Load for f32 {
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const Self) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { L::load(p) }
    }
}

/// # Safety
/// The instruction set of `L` must be available; lengths as [`FloatFns::attend`](crate::float::FloatFns::attend) checks them.
#[inline(always)]
pub(crate) unsafe fn attend<L: Lanes, E: Load>(
    chunk: &KeyChunk<'_, E>,
    queries: *const f32,
    ranges: &[(usize, usize)],
    scores: *mut f32,
    records: *mut f32,
) {
    let d = chunk.head_dim;
    let mut i = 0;
    while i < ranges.len() {
        let left = ranges.len() - i;
        // SAFETY: each tile covers queries `i .. i + its size`, all below `ranges.len()`.
        unsafe {
            let (q, s, r) = (
                queries.add(i * d),
                scores.add(i * KEY_CHUNK),
                records.add(i * record_len(d)),
            );
            i += if L::WIDE && left >= 8 {
                tile::<L, E, 8, 2>(chunk, q, &ranges[i..i + 8], s, r)
            } else if left >= 4 {
                if L::WIDE {
                    tile::<L, E, 4, 4>(chunk, q, &ranges[i..i + 4], s, r)
                } else {
                    tile::<L, E, 4, 1>(chunk, q, &ranges[i..i + 4], s, r)
                }
            } else {
                tile::<L, E, 1, 4>(chunk, q, &ranges[i..=i], s, r)
            };
        }
    }
}

/// `Q` queries over the blocks that any of them sees, `B` vectors of keys or values at a time. Returns `Q`.
///
/// # Safety
/// As [`attend`], for `Q` queries.
#[inline(always)]
unsafe fn tile<L: Lanes, E: Load, const Q: usize, const B: usize>(
    chunk: &KeyChunk<'_, E>,
    queries: *const f32,
    ranges: &[(usize, usize)],
    scores: *mut f32,
    records: *mut f32,
) -> usize {
    let d = chunk.head_dim;
    let seen = ranges.iter().filter(|r| r.0 < r.1);
    let low = seen.clone().map(|r| r.0).min().unwrap_or(0);
    let high = seen.map(|r| r.1).max().unwrap_or(0);
    let (first, last) = (low / LANES, high.div_ceil(LANES));
    // SAFETY: blocks `first .. last` are within the chunk, queries and records within the caller's lengths.
    unsafe {
        let mut b = first;
        while b + B <= last {
            key_blocks::<L, E, Q, B>(
                chunk.keys.as_ptr().add(b * LANES * d),
                d,
                queries,
                scores.add(b * LANES),
            );
            b += B;
        }
        while b < last {
            key_blocks::<L, E, Q, 1>(
                chunk.keys.as_ptr().add(b * LANES * d),
                d,
                queries,
                scores.add(b * LANES),
            );
            b += 1;
        }
        for (q, range) in ranges.iter().enumerate() {
            weigh::<L>(
                scores.add(q * KEY_CHUNK),
                first,
                last,
                *range,
                records.add(q * record_len(d) + padded(d)),
            );
        }
        let mut column = 0;
        while column + B * LANES <= padded(d) {
            value_columns::<L, E, Q, B>(chunk, column, low, high, scores, records);
            column += B * LANES;
        }
        while column < padded(d) {
            value_columns::<L, E, Q, 1>(chunk, column, low, high, scores, records);
            column += LANES;
        }
    }
    Q
}

/// Scores of `Q` queries on `B` blocks of sixteen keys.
///
/// # Safety
/// As [`attend`]; `keys` points at the first of `B` blocks, `scores` at its place in the first query's row.
#[inline(always)]
unsafe fn key_blocks<L: Lanes, E: Load, const Q: usize, const B: usize>(
    keys: *const E,
    d: usize,
    queries: *const f32,
    scores: *mut f32,
) {
    // SAFETY: `i < d` in every block and query.
    unsafe {
        let mut sums = [[L::splat(0.0); B]; Q];
        for i in 0..d {
            let mut k = [L::splat(0.0); B];
            for (b, k) in k.iter_mut().enumerate() {
                *k = E::load(keys.add((b * d + i) * LANES));
            }
            for (q, sums) in sums.iter_mut().enumerate() {
                let x = L::splat(*queries.add(q * d + i));
                for (sum, k) in sums.iter_mut().zip(&k) {
                    *sum = k.fma(x, *sum);
                }
            }
        }
        for (q, sums) in sums.iter().enumerate() {
            for (b, sum) in sums.iter().enumerate() {
                sum.store(scores.add(q * KEY_CHUNK + b * LANES));
            }
        }
    }
}

/// Turns one query's scores in blocks `first .. last` into weights `e^(score - max)`, 0 outside `range`; writes the largest
/// score (minus infinity if the range is empty) and the sum of weights to `out`.
///
/// # Safety
/// The instruction set of `L` must be available; `scores` holds the blocks, `out` two values.
#[inline(always)]
unsafe fn weigh<L: Lanes>(
    scores: *mut f32,
    first: usize,
    last: usize,
    range: (usize, usize),
    out: *mut f32,
) {
    let mut lane = [0.0; LANES];
    for (i, lane) in lane.iter_mut().enumerate() {
        *lane = i as f32;
    }
    // SAFETY: blocks are within the row of scores.
    unsafe {
        let lane = L::load(lane.as_ptr());
        let outside = L::splat(f32::NEG_INFINITY);
        let (low, high) = (L::splat(range.0 as f32), L::splat(range.1 as f32));
        let mut top = outside;
        for b in first..last {
            let at = lane.add(L::splat((b * LANES) as f32));
            let s = L::load(scores.add(b * LANES));
            let s = L::select_lt(at, high, L::select_lt(at, low, outside, s), outside);
            s.store(scores.add(b * LANES));
            top = lanes::greater(s, top);
        }
        let top = lanes::max(top);
        // With nothing to see the weights are 0, not e^(inf - inf).
        let base = L::splat(if range.0 < range.1 { top } else { 0.0 });
        let mut total = L::splat(0.0);
        for b in first..last {
            let e = lanes::exp(L::load(scores.add(b * LANES)).sub(base));
            e.store(scores.add(b * LANES));
            total = total.add(e);
        }
        *out = top;
        *out.add(1) = total.sum();
    }
}

/// Weighted sums of `B` vectors of value columns from `column` on, over positions `low .. high`, for `Q` queries.
///
/// # Safety
/// As [`attend`], for `Q` queries; the columns are below `padded(head_dim)`.
#[inline(always)]
unsafe fn value_columns<L: Lanes, E: Load, const Q: usize, const B: usize>(
    chunk: &KeyChunk<'_, E>,
    column: usize,
    low: usize,
    high: usize,
    weights: *const f32,
    records: *mut f32,
) {
    let stride = padded(chunk.head_dim);
    // SAFETY: positions are within the chunk, columns within its stride.
    unsafe {
        let values = chunk.values.as_ptr().add(column);
        let mut sums = [[L::splat(0.0); B]; Q];
        for position in low..high {
            let mut v = [L::splat(0.0); B];
            for (b, v) in v.iter_mut().enumerate() {
                *v = E::load(values.add(position * stride + b * LANES));
            }
            for (q, sums) in sums.iter_mut().enumerate() {
                let w = L::splat(*weights.add(q * KEY_CHUNK + position));
                for (sum, v) in sums.iter_mut().zip(&v) {
                    *sum = v.fma(w, *sum);
                }
            }
        }
        for (q, sums) in sums.iter().enumerate() {
            for (b, sum) in sums.iter().enumerate() {
                sum.store(records.add(q * record_len(chunk.head_dim) + column + b * LANES));
            }
        }
    }
}

/// # Safety
/// The instruction set of `L` must be available; both records hold `padded + 2` values, apart from each other.
#[inline(always)]
pub(crate) unsafe fn merge<L: Lanes>(into: *mut f32, from: *const f32, padded: usize) {
    // SAFETY: offsets stay below `padded + 2`.
    unsafe {
        let (old, new) = (*into.add(padded), *from.add(padded));
        if new == f32::NEG_INFINITY {
            return;
        }
        if old == f32::NEG_INFINITY {
            std::ptr::copy_nonoverlapping(from, into, padded + 2);
            return;
        }
        let top = if new > old { new } else { old };
        let keep: L = lanes::exp(L::splat(old - top));
        let take: L = lanes::exp(L::splat(new - top));
        for i in (0..padded).step_by(LANES) {
            let kept = L::load(into.add(i)).mul(keep);
            L::load(from.add(i)).fma(take, kept).store(into.add(i));
        }
        *into.add(padded) = top;
        let kept = L::splat(*into.add(padded + 1)).mul(keep);
        let total = L::splat(*from.add(padded + 1)).fma(take, kept);
        *into.add(padded + 1) = lanes::to_array(total)[0];
    }
}

/// # Safety
/// The instruction set of `L` must be available; `record` is one of a head of `n`, `out` writable for `n` values.
#[inline(always)]
pub(crate) unsafe fn finish<L: Lanes>(record: *const f32, out: *mut f32, n: usize) {
    // SAFETY: records are padded to whole vectors, the partial store covers the tail.
    unsafe {
        let total = L::splat(*record.add(padded(n) + 1));
        for i in (0..n).step_by(LANES) {
            lanes::store_part(L::load(record.add(i)).div(total), out.add(i), n - i);
        }
    }
}

/// # Safety
/// The instruction set of `L` must be available; `x` readable and `out` writable for `n` values.
#[inline(always)]
pub(crate) unsafe fn narrow<L: Lanes>(x: *const f32, out: *mut u16, n: usize) {
    // SAFETY: offsets stay below `n`; the tail is done one by one.
    unsafe {
        let mut i = 0;
        while i + LANES <= n {
            let high = lanes::lesser(L::splat(F16_MAX), L::load(x.add(i)));
            lanes::greater(L::splat(-F16_MAX), high).store_f16(out.add(i));
            i += LANES;
        }
        for i in i..n {
            *out.add(i) = f32_to_f16((*x.add(i)).clamp(-F16_MAX, F16_MAX));
        }
    }
}
