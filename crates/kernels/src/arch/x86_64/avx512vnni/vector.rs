//! What the kernels of this room share.

use std::arch::x86_64::*;

/// Vectors of 16 rows in a strip.
pub(super) const VECTORS: usize = 4;

/// 16 sums for each of the four vectors of a strip.
pub(super) type Sums = [__m512i; VECTORS];

/// How far ahead of a stream to prefetch, in bytes, into the second-level cache. Measured: on a Xeon of the Sapphire Rapids
/// family 5 to 8 kB reach the rate of a plain read, 2 kB or the first-level cache 15 % less; on an EPYC of the Zen 4 family
/// one thread gains a seventh from 5 to 8 kB, and nothing beyond.
const AHEAD: usize = 8192;

/// Prefetches line `line` (of four) of the tile [`AHEAD`] of `tile`. Called between the steps of the arithmetic, not in a
/// burst: that alone is worth a seventh. Prefetching never faults.
#[allow(
    unused_unsafe,
    reason = "the intrinsic is a safe function in newer compilers only"
)]
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn prefetch(tile: *const u8, line: usize) {
    // SAFETY: a prefetch of any address is allowed.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(tile.wrapping_add(AHEAD + 64 * line).cast()) };
}

/// Four activations of a plane, in every lane.
///
/// # Safety
///
/// Four bytes can be read at `x`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn broadcast(x: *const i8) -> __m512i {
    // SAFETY: the caller's promise.
    _mm512_set1_epi32(unsafe { x.cast::<i32>().read_unaligned() })
}

/// Vector `v` of 64 bytes of a tile.
///
/// # Safety
///
/// 256 bytes can be read at `tile`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load(tile: *const u8, v: usize) -> __m512i {
    // SAFETY: the caller's promise; `v` is below 4.
    unsafe { _mm512_loadu_si512(tile.add(64 * v).cast()) }
}

/// Joins the sums of the high and the low plane.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn join(high: __m512i, low: __m512i) -> __m512i {
    _mm512_add_epi32(_mm512_slli_epi32::<7>(high), low)
}
