//! What the kernels of this room share.

use std::arch::x86_64::*;

/// How an instruction set multiplies unsigned bytes with signed ones and adds up.
///
/// # Safety
///
/// Methods may only run where the instruction set is available.
pub(in crate::arch::x86_64) unsafe trait Dot {
    /// Adds the products of codes and activations. Sums are 16 bits wide or more: the caller keeps
    /// `steps * 2 * largest code * 127` below 2^15, and widens in time.
    unsafe fn add(sums: __m256i, codes: __m256i, q: __m256i) -> __m256i;

    /// Sums of [`Dot::add`] to one 32-bit sum a row.
    unsafe fn widen(sums: __m256i) -> __m256i;

    /// Adds the products of codes of 8 bits to 32-bit sums: of `code - 128` if [`Dot::CENTRED`], else of `code`.
    unsafe fn add_bytes(sums: __m256i, codes: __m256i, q: __m256i) -> __m256i;

    /// See [`Dot::add_bytes`].
    const CENTRED: bool;
}

/// How far ahead of a stream to prefetch, in bytes; see the AVX-512 room.
const AHEAD: usize = 8192;

/// Prefetches a cache line [`AHEAD`] of `at`. Prefetching never faults.
///
/// # Safety
///
/// None but the instruction set's.
#[inline(always)]
pub(super) unsafe fn prefetch(at: *const u8) {
    // SAFETY: a prefetch of any address is allowed.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(AHEAD).cast()) };
}

/// Four activations of a plane, in every lane.
///
/// # Safety
///
/// Four bytes can be read at `x`.
#[inline(always)]
pub(super) unsafe fn broadcast(x: *const i8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_set1_epi32(x.cast::<i32>().read_unaligned()) }
}

/// [`broadcast`] of each plane, `from` bytes on.
///
/// # Safety
///
/// As [`broadcast`].
#[inline(always)]
pub(super) unsafe fn broadcasts<const P: usize>(x: [*const i8; P], from: usize) -> [__m256i; P] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut q = [_mm256_setzero_si256(); P];
        for p in 0..P {
            q[p] = broadcast(x[p].add(from));
        }
        q
    }
}

/// `V` vectors, one after the other.
///
/// # Safety
///
/// `32 V` bytes can be read at `at`.
#[inline(always)]
pub(super) unsafe fn loads<const V: usize>(at: *const u8) -> [__m256i; V] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut words = [_mm256_setzero_si256(); V];
        for v in 0..V {
            words[v] = load(at.add(32 * v));
        }
        words
    }
}

/// 32 bytes.
///
/// # Safety
///
/// 32 bytes can be read at `at`.
#[inline(always)]
pub(super) unsafe fn load(at: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_loadu_si256(at.cast()) }
}

/// Joins the sums of the high and the low plane.
///
/// # Safety
///
/// None but the instruction set's.
#[inline(always)]
pub(super) unsafe fn join(high: __m256i, low: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_add_epi32(_mm256_slli_epi32::<7>(high), low) }
}
