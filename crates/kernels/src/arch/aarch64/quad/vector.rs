//! What the kernels of this room share.

use std::arch::aarch64::*;

/// How an instruction set multiplies signed bytes and adds up. A vector of codes holds 4 rows x 4 columns, a vector of
/// activations 16 columns, of which lane `F` (4 columns) is used.
///
/// # Safety
///
/// Methods may only run where the instruction set is available.
pub(in crate::arch::aarch64) unsafe trait Dot {
    /// Sums of small codes.
    type Sums: Copy;
    /// Sums of codes of 8 bits.
    type Wide: Copy;

    /// No sums yet.
    unsafe fn zero() -> Self::Sums;
    /// Adds products. Sums are 16 bits wide or more: the caller keeps `steps * largest code * 127` below 2^15.
    unsafe fn add<const F: i32>(sums: Self::Sums, codes: int8x16_t, x: int8x16_t) -> Self::Sums;
    /// One 32-bit sum a row.
    unsafe fn widen(sums: Self::Sums) -> int32x4_t;

    /// No sums yet.
    unsafe fn zero_wide() -> Self::Wide;
    /// Adds products of codes from -128 to 127.
    unsafe fn add_wide<const F: i32>(
        sums: Self::Wide,
        codes: int8x16_t,
        x: int8x16_t,
    ) -> Self::Wide;
    /// One 32-bit sum a row.
    unsafe fn finish(sums: Self::Wide) -> int32x4_t;
}

/// How far ahead of a stream to prefetch, in bytes.
const AHEAD: usize = 4096;

/// Prefetches a cache line [`AHEAD`] of `at`.
#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    crate::arch::prefetch::prefetch(at.wrapping_add(AHEAD));
}

/// 16 bytes of codes.
///
/// # Safety
///
/// 16 bytes can be read at `at`.
#[inline(always)]
pub(super) unsafe fn load(at: *const u8) -> uint8x16_t {
    // SAFETY: the caller's promise.
    unsafe { vld1q_u8(at) }
}

/// 16 activations.
///
/// # Safety
///
/// 16 bytes can be read at `at`.
#[inline(always)]
pub(super) unsafe fn load_x(at: *const i8) -> int8x16_t {
    // SAFETY: the caller's promise.
    unsafe { vld1q_s8(at) }
}

/// Joins the sums of the high and the low plane.
///
/// # Safety
///
/// None but the instruction set's.
#[inline(always)]
pub(super) unsafe fn join(high: int32x4_t, low: int32x4_t) -> int32x4_t {
    // SAFETY: the caller's promise.
    unsafe { vaddq_s32(vshlq_n_s32::<7>(high), low) }
}
