//! 128-bit kernels: 4 rows x 4 columns in a vector, sixteen vectors for a strip. Written once over [`Dot`], the way an
//! instruction set multiplies bytes, and stamped out by [`tables!`].
//!
//! Sums of 16 rows (or of 8, for two rows of activations) are made at a time, over blocks of 256 columns, so that the bytes
//! of the other rows are still in the first-level cache when their turn comes.
//!
//! All functions here are inlined into functions with the target features; that is what makes calling them sound.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over small arrays of registers are clearer by number"
)]

pub(super) mod grouped;
pub(super) mod int8;
pub(super) mod lanes;
pub(super) mod stream;
pub(super) mod ternary;

use std::arch::aarch64::*;

/// How an instruction set multiplies signed bytes and adds up. A vector of codes holds 4 rows x 4 columns, a vector of
/// activations 16 columns, of which lane `F` (4 columns) is used.
///
/// # Safety
///
/// Methods may only run where the instruction set is available.
pub(super) unsafe trait Dot {
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
fn prefetch(at: *const u8) {
    crate::arch::prefetch(at.wrapping_add(AHEAD));
}

/// 16 bytes of codes.
///
/// # Safety
///
/// 16 bytes can be read at `at`.
#[inline(always)]
unsafe fn load(at: *const u8) -> uint8x16_t {
    // SAFETY: the caller's promise.
    unsafe { vld1q_u8(at) }
}

/// 16 activations.
///
/// # Safety
///
/// 16 bytes can be read at `at`.
#[inline(always)]
unsafe fn load_x(at: *const i8) -> int8x16_t {
    // SAFETY: the caller's promise.
    unsafe { vld1q_s8(at) }
}

/// Joins the sums of the high and the low plane.
///
/// # Safety
///
/// None but the instruction set's.
#[inline(always)]
unsafe fn join(high: int32x4_t, low: int32x4_t) -> int32x4_t {
    // SAFETY: the caller's promise.
    unsafe { vaddq_s32(vshlq_n_s32::<7>(high), low) }
}

/// Makes the `KERNELS` table of a room from a [`Dot`], an [`Isa`](crate::Isa), and the target features.
macro_rules! tables {
    ($dot:ty, $isa:expr, $features:literal) => {
        $crate::arch::portable::portable!($features);

        pub(crate) static KERNELS: $crate::dispatch::Kernels = $crate::dispatch::Kernels {
            isa: $isa,
            quantize: $crate::dispatch::QuantizeFns {
                float: portable::quantize_float,
                int16: portable::quantize_int16,
                int8: portable::quantize_int8,
            },
            ternary: $crate::dispatch::TernaryFns {
                float: portable::ternary_float,
                int16: products::ternary_int16,
                int8: products::ternary_int8,
            },
            grouped: $crate::dispatch::GroupedFns {
                float: portable::grouped_float,
                int16: products::grouped_int16,
                int8: products::grouped_int8,
            },
            int8: $crate::dispatch::Int8Fns {
                float: portable::int8_float,
                int16: products::int8_int16,
                int8: products::int8_int8,
            },
            float: $crate::arch::aarch64::quad::lanes::FLOAT,
            read: $crate::arch::aarch64::quad::stream::read,
        };

        mod products {
            use super::*;
            use $crate::arch::aarch64::quad;
            use $crate::mat::{GroupedStrip, Int8Strip, TernaryStrip};
            use $crate::rows::Rows;

            $crate::arch::aarch64::quad::tables!(@fn $features, ternary_int16 = ternary::int16::<$dot>(TernaryStrip));
            $crate::arch::aarch64::quad::tables!(@fn $features, ternary_int8 = ternary::int8::<$dot>(TernaryStrip));
            $crate::arch::aarch64::quad::tables!(@fn $features, grouped_int16 = grouped::any::<$dot, 2>(GroupedStrip));
            $crate::arch::aarch64::quad::tables!(@fn $features, grouped_int8 = grouped::any::<$dot, 1>(GroupedStrip));
            $crate::arch::aarch64::quad::tables!(@fn $features, int8_int16 = int8::int16::<$dot>(Int8Strip));
            $crate::arch::aarch64::quad::tables!(@fn $features, int8_int8 = int8::int8::<$dot>(Int8Strip));
        }
    };
    (@fn $features:literal, $name:ident = $module:ident::$body:ident::<$($generic:tt),*>($strip:ident)) => {
        /// # Safety
        ///
        /// The CPU has this room's instruction set; lengths as the table asks.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name(w: &$strip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
            // SAFETY: the caller's promise.
            unsafe { quad::$module::$body::<$($generic),*>(w, x, idx, out) }
        }
    };
}
pub(super) use tables;
