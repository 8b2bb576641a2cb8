//! Plain NEON, which every AArch64 CPU has.

use super::quad::table::tables;
use super::quad::vector::Dot;
use crate::arch::isa::Isa;
use std::arch::aarch64::*;

/// Products in 16 bits.
struct Mlal;

// SAFETY: NEON is part of AArch64.
unsafe impl Dot for Mlal {
    /// Products of rows 0 and 1, and of rows 2 and 3, column by column.
    type Sums = (int16x8_t, int16x8_t);
    /// The same, pairs of columns added.
    type Wide = (int32x4_t, int32x4_t);

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: NEON is part of AArch64.
        unsafe { (vdupq_n_s16(0), vdupq_n_s16(0)) }
    }

    #[inline(always)]
    unsafe fn add<const F: i32>(sums: Self::Sums, codes: int8x16_t, x: int8x16_t) -> Self::Sums {
        // SAFETY: as above.
        unsafe {
            let q = lane::<F>(x);
            (
                vmlal_s8(sums.0, vget_low_s8(codes), vget_low_s8(q)),
                vmlal_high_s8(sums.1, codes, q),
            )
        }
    }

    #[inline(always)]
    unsafe fn widen(sums: Self::Sums) -> int32x4_t {
        // SAFETY: as above.
        unsafe { vpaddq_s32(vpaddlq_s16(sums.0), vpaddlq_s16(sums.1)) }
    }

    #[inline(always)]
    unsafe fn zero_wide() -> Self::Wide {
        // SAFETY: as above.
        unsafe { (vdupq_n_s32(0), vdupq_n_s32(0)) }
    }

    #[inline(always)]
    unsafe fn add_wide<const F: i32>(
        sums: Self::Wide,
        codes: int8x16_t,
        x: int8x16_t,
    ) -> Self::Wide {
        // SAFETY: as above.
        unsafe {
            let q = lane::<F>(x);
            (
                vpadalq_s16(sums.0, vmull_s8(vget_low_s8(codes), vget_low_s8(q))),
                vpadalq_s16(sums.1, vmull_high_s8(codes, q)),
            )
        }
    }

    #[inline(always)]
    unsafe fn finish(sums: Self::Wide) -> int32x4_t {
        // SAFETY: as above.
        unsafe { vpaddq_s32(sums.0, sums.1) }
    }
}

/// Four activations, repeated.
///
/// # Safety
///
/// None: NEON is part of AArch64.
#[inline(always)]
unsafe fn lane<const F: i32>(x: int8x16_t) -> int8x16_t {
    // SAFETY: as above.
    unsafe { vreinterpretq_s8_s32(vdupq_laneq_s32::<F>(vreinterpretq_s32_s8(x))) }
}

tables!(Mlal, Isa::Neon, "neon");
