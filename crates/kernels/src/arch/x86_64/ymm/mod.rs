//! 256-bit kernels: 8 rows x 4 columns in a vector, eight vectors for a strip. Written once over [`Dot`], the way an
//! instruction set multiplies bytes, and stamped out by [`tables!`].
//!
//! With 16 registers a whole strip does not fit: sums of 32 rows (or of 16) are made at a time, over blocks of 256
//! columns, so that the bytes of the other rows are still in the first-level cache when their turn comes.
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

use std::arch::x86_64::*;

/// How an instruction set multiplies unsigned bytes with signed ones and adds up.
///
/// # Safety
///
/// Methods may only run where the instruction set is available.
pub(super) unsafe trait Dot {
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
unsafe fn prefetch(at: *const u8) {
    // SAFETY: a prefetch of any address is allowed.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(AHEAD).cast()) };
}

/// Four activations of a plane, in every lane.
///
/// # Safety
///
/// Four bytes can be read at `x`.
#[inline(always)]
unsafe fn broadcast(x: *const i8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_set1_epi32(x.cast::<i32>().read_unaligned()) }
}

/// [`broadcast`] of each plane, `from` bytes on.
///
/// # Safety
///
/// As [`broadcast`].
#[inline(always)]
unsafe fn broadcasts<const P: usize>(x: [*const i8; P], from: usize) -> [__m256i; P] {
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
unsafe fn loads<const V: usize>(at: *const u8) -> [__m256i; V] {
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
unsafe fn load(at: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_loadu_si256(at.cast()) }
}

/// Joins the sums of the high and the low plane.
///
/// # Safety
///
/// None but the instruction set's.
#[inline(always)]
unsafe fn join(high: __m256i, low: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_add_epi32(_mm256_slli_epi32::<7>(high), low) }
}

/// Makes the `KERNELS` table of a room from a [`Dot`], an [`Isa`](crate::Isa), the lanes of the float steps, and the
/// target features.
macro_rules! tables {
    ($dot:ty, $isa:expr, $float:expr, $features:literal) => {
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
            float: $float,
            read: products::read,
        };

        mod products {
            use super::*;
            use $crate::arch::x86_64::ymm;
            use $crate::mat::{GroupedStrip, Int8Strip, TernaryStrip};
            use $crate::rows::Rows;

            /// # Safety
            ///
            /// The CPU has this room's instruction set.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn read(bytes: &[u8]) -> u64 {
                // SAFETY: the caller's promise.
                unsafe { ymm::stream::read(bytes) }
            }

            $crate::arch::x86_64::ymm::tables!(@fn $features, ternary_int16 = ternary::int16::<$dot>(TernaryStrip));
            $crate::arch::x86_64::ymm::tables!(@fn $features, ternary_int8 = ternary::int8::<$dot>(TernaryStrip));
            $crate::arch::x86_64::ymm::tables!(@fn $features, grouped_int16 = grouped::any::<$dot, 2>(GroupedStrip));
            $crate::arch::x86_64::ymm::tables!(@fn $features, grouped_int8 = grouped::any::<$dot, 1>(GroupedStrip));
            $crate::arch::x86_64::ymm::tables!(@fn $features, int8_int16 = int8::int16::<$dot>(Int8Strip));
            $crate::arch::x86_64::ymm::tables!(@fn $features, int8_int8 = int8::int8::<$dot>(Int8Strip));
        }
    };
    (@fn $features:literal, $name:ident = $module:ident::$body:ident::<$($generic:tt),*>($strip:ident)) => {
        /// # Safety
        ///
        /// The CPU has this room's instruction set; lengths as the table asks.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name(w: &$strip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
            // SAFETY: the caller's promise.
            unsafe { ymm::$module::$body::<$($generic),*>(w, x, idx, out) }
        }
    };
}
pub(super) use tables;
