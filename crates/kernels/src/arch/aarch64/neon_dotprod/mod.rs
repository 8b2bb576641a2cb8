//! NEON with the dot-product instructions.

use super::quad::table::tables;
use super::quad::vector::Dot;
use crate::arch::isa::Isa;
use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

/// Whether the CPU has the dot-product instructions.
pub(crate) fn is_available() -> bool {
    is_aarch64_feature_detected!("dotprod")
}

/// Four products at once in 32 bits. (The intrinsics are not stable.)
struct Sdot;

// SAFETY: NEON and dot-product instructions only; the trait's callers are compiled for them.
unsafe impl Dot for Sdot {
    type Sums = int32x4_t;
    type Wide = int32x4_t;

    #[inline(always)]
    unsafe fn zero() -> int32x4_t {
        // SAFETY: NEON is part of AArch64.
        unsafe { vdupq_n_s32(0) }
    }

    #[inline(always)]
    unsafe fn add<const F: i32>(mut sums: int32x4_t, codes: int8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: the instruction reads and writes registers only; it is available, by the trait's contract.
        unsafe {
            asm!(".arch_extension dotprod", "sdot {sums:v}.4s, {codes:v}.16b, {x:v}.4b[{lane}]",
                 sums = inout(vreg) sums, codes = in(vreg) codes, x = in(vreg) x, lane = const F,
                 options(pure, nomem, nostack, preserves_flags));
        }
        sums
    }

    #[inline(always)]
    unsafe fn widen(sums: int32x4_t) -> int32x4_t {
        sums
    }

    #[inline(always)]
    unsafe fn zero_wide() -> int32x4_t {
        // SAFETY: NEON is part of AArch64.
        unsafe { vdupq_n_s32(0) }
    }

    #[inline(always)]
    unsafe fn add_wide<const F: i32>(sums: int32x4_t, codes: int8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: the trait's contract.
        unsafe { Self::add::<F>(sums, codes, x) }
    }

    #[inline(always)]
    unsafe fn finish(sums: int32x4_t) -> int32x4_t {
        sums
    }
}

tables!(Sdot, Isa::NeonDotprod, "neon,dotprod");
