//! Attention of a few queries over one chunk of keys, and the merging of chunks.
//!
//! A chunk gives each query a *record*: the weighted sum of values, the largest score and the sum of weights. Records are
//! merged in the order of chunks.

use crate::arch::table::AttendFn;
pub use crate::data::kv_chunk::{KEY_BLOCK, KEY_CHUNK, KeyChunk, padded, record_len};
use crate::dispatch::FloatFns;

/// An element type of the KV cache: `u16` holds half-precision bits.
pub trait Element: Copy + Default + Send + Sync + 'static {
    /// Nearest values of this type; half precision saturates at its largest finite number.
    fn narrow(fns: &FloatFns, x: &[f32], out: &mut [Self]);
    #[doc(hidden)]
    fn attend(fns: &FloatFns) -> AttendFn<Self>;
}

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

impl Element for f32 {
    fn narrow(_: &FloatFns, x: &[f32], out: &mut [Self]) {
        out.copy_from_slice(x);
    }
    fn attend(fns: &FloatFns) -> AttendFn<Self> {
        fns.attend_f32
    }
}

/// Writes a key into lane `lane` of its block of sixteen, `[head_dim][KEY_BLOCK]`.
///
/// # Panics
/// If `block` is not one of heads of `key.len()`, or `lane` not one of its lanes.
pub fn store_key<E: Element>(fns: &FloatFns, block: &mut [E], lane: usize, key: &[f32]) {
    assert_eq!(
        block.len(),
        key.len() * KEY_BLOCK,
        "attention: block of keys"
    );
    for (groups, key) in block.chunks_mut(64 * KEY_BLOCK).zip(key.chunks(64)) {
        let mut narrow = [E::default(); 64];
        E::narrow(fns, key, &mut narrow[..key.len()]);
        for (group, x) in groups.chunks_exact_mut(KEY_BLOCK).zip(&narrow) {
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
            .checked_sub(KEY_BLOCK)
            .expect("a record holds its two last values");
        assert_eq!(padded % KEY_BLOCK, 0, "attention: records");
        // SAFETY: this table's instruction set is available; both hold `padded + KEY_BLOCK` values.
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
