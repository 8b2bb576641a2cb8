//! Attention of a few queries over one chunk of keys, and the merging of chunks.
//!
//! A KV head's cache is cut at absolute positions into chunks of [`KEY_CHUNK`]. Keys lie in blocks of sixteen, transposed
//! (`[position / 16][head_dim][16]`), so a vector holds the scores of sixteen keys and nothing is summed across it; values lie
//! row by row, padded to whole vectors (`[position][padded]`). A chunk gives each query a *record*: the weighted sum of values,
//! the largest score and the sum of weights. Records are merged in the order of chunks. Every score is a sum over the head's
//! dimensions in order, every value a sum over positions in order, so no tiling, batch or thread count changes a bit.

use super::FloatFns;
use super::lanes::{self, LANES, Lanes};
use crate::half::f32_to_f16;

/// Largest finite half-precision number. Larger keys and values are held there: an infinity in the cache would make NaN of
/// positions that a query does not even see.
const F16_MAX: f32 = 65504.0;

/// Positions in a chunk.
pub const KEY_CHUNK: usize = 256;

/// Head size rounded up to whole vectors: the stride of values.
#[must_use]
pub const fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(LANES)
}

/// Length of a record: `padded` weighted sums, then the largest score and the sum of weights, then unused.
#[must_use]
pub const fn record_len(head_dim: usize) -> usize {
    padded(head_dim) + LANES
}

/// An element type of the KV cache: `u16` holds half-precision bits.
pub trait Element: Copy + Default + Send + Sync + 'static {
    /// Nearest values of this type; half precision saturates at its largest finite number.
    fn narrow(fns: &FloatFns, x: &[f32], out: &mut [Self]);
    #[doc(hidden)]
    fn attend(fns: &FloatFns) -> AttendFn<Self>;
}

/// Loading elements into lanes, kept apart from [`Element`] because lanes are private.
pub(crate) trait Load: Element {
    /// # Safety
    /// The instruction set of `L` must be available; `p` readable for sixteen elements.
    unsafe fn load<L: Lanes>(p: *const Self) -> L;
}

/// Chunk, queries, count, ranges, scores, records: see [`FloatFns::attend`].
#[doc(hidden)]
pub type AttendFn<E> =
    unsafe fn(&KeyChunk<'_, E>, *const f32, &[(usize, usize)], *mut f32, *mut f32);

impl Element for u16 {
    fn narrow(fns: &FloatFns, x: &[f32], out: &mut [Self]) {
        assert_eq!(x.len(), out.len(), "narrow: length");
        // SAFETY: the table's instruction set is available; both hold `x.len()` values.
        unsafe { (fns.narrow)(x.as_ptr(), out.as_mut_ptr(), x.len()) }
    }
    fn attend(fns: &FloatFns) -> AttendFn<Self> {
        fns.attend_f16
    }
}

impl Load for u16 {
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const Self) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { L::load_f16(p) }
    }
}

impl Element for f32 {
    fn narrow(_: &FloatFns, x: &[f32], out: &mut [Self]) {
        out.copy_from_slice(x);
    }
    fn attend(fns: &FloatFns) -> AttendFn<Self> {
        fns.attend_f32
    }
}

impl Load for f32 {
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const Self) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { L::load(p) }
    }
}

/// One KV head's keys and values of [`KEY_CHUNK`] positions.
#[derive(Clone, Copy, Debug)]
pub struct KeyChunk<'a, E> {
    keys: &'a [E],
    values: &'a [E],
    head_dim: usize,
}

impl<'a, E: Element> KeyChunk<'a, E> {
    /// # Panics
    /// If `keys` is not `KEY_CHUNK * head_dim` long or `values` not `KEY_CHUNK * padded(head_dim)`.
    #[must_use]
    pub fn new(keys: &'a [E], values: &'a [E], head_dim: usize) -> Self {
        assert_eq!(keys.len(), KEY_CHUNK * head_dim, "attention: keys");
        assert_eq!(
            values.len(),
            KEY_CHUNK * padded(head_dim),
            "attention: values"
        );
        Self {
            keys,
            values,
            head_dim,
        }
    }
}

/// Positions whose keys lie in one block: `[head_dim][KEY_BLOCK]`.
pub const KEY_BLOCK: usize = LANES;

/// Writes a key into lane `lane` of its block of sixteen, `[head_dim][KEY_BLOCK]`.
///
/// # Panics
/// If `block` is not one of heads of `key.len()`, or `lane` not one of its lanes.
pub fn store_key<E: Element>(fns: &FloatFns, block: &mut [E], lane: usize, key: &[f32]) {
    assert_eq!(block.len(), key.len() * LANES, "attention: block of keys");
    for (groups, key) in block.chunks_mut(64 * LANES).zip(key.chunks(64)) {
        let mut narrow = [E::default(); 64];
        E::narrow(fns, key, &mut narrow[..key.len()]);
        for (group, x) in groups.chunks_exact_mut(LANES).zip(&narrow) {
            group[lane] = *x;
        }
    }
}

impl FloatFns {
    /// Attention of queries over one chunk. `queries` is `[n][head_dim]`, scaled already; query `i` sees the positions
    /// `ranges[i].0 .. ranges[i].1` of the chunk, which may be none. `scores` is room for `n * KEY_CHUNK` values; `records`,
    /// `[n][record_len]`, receives the results.
    ///
    /// # Panics
    /// If a length does not fit, or a range leaves the chunk.
    pub fn attend<E: Element>(
        &self,
        chunk: &KeyChunk<'_, E>,
        queries: &[f32],
        ranges: &[(usize, usize)],
        scores: &mut [f32],
        records: &mut [f32],
    ) {
        let n = ranges.len();
        assert_eq!(queries.len(), n * chunk.head_dim, "attention: queries");
        assert!(scores.len() >= n * KEY_CHUNK, "attention: room for scores");
        assert_eq!(
            records.len(),
            n * record_len(chunk.head_dim),
            "attention: records"
        );
        assert!(
            ranges.iter().all(|r| r.1 <= KEY_CHUNK),
            "attention: a range leaves the chunk"
        );
        // SAFETY: this table's instruction set is available (see `FloatFns`); all lengths are checked above.
        unsafe {
            E::attend(self)(
                chunk,
                queries.as_ptr(),
                ranges,
                scores.as_mut_ptr(),
                records.as_mut_ptr(),
            )
        }
    }

    /// Merges the record `from` of a later chunk into `into`.
    ///
    /// # Panics
    /// If the records differ in length or are shorter than any record.
    pub fn merge(&self, into: &mut [f32], from: &[f32]) {
        assert_eq!(into.len(), from.len(), "attention: records");
        let padded = into
            .len()
            .checked_sub(LANES)
            .expect("a record holds its two last values");
        assert_eq!(padded % LANES, 0, "attention: records");
        // SAFETY: this table's instruction set is available; both hold `padded + LANES` values.
        unsafe { (self.merge)(into.as_mut_ptr(), from.as_ptr(), padded) }
    }

    /// The attention output of a merged record: weighted sums over the sum of weights.
    ///
    /// # Panics
    /// If `record` is not one of a head of `out.len()`.
    pub fn finish(&self, record: &[f32], out: &mut [f32]) {
        assert_eq!(record.len(), record_len(out.len()), "attention: record");
        // SAFETY: this table's instruction set is available; lengths are checked above.
        unsafe { (self.finish)(record.as_ptr(), out.as_mut_ptr(), out.len()) }
    }
}

/// # Safety
/// The instruction set of `L` must be available; lengths as [`FloatFns::attend`] checks them.
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
