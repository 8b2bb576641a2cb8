//! Sixteen lanes in four 128-bit registers.

use crate::arch::float::lanes::Lanes;
use std::arch::aarch64::*;
use std::arch::asm;

/// Lanes 0 to 3, 4 to 7, 8 to 11 and 12 to 15.
#[derive(Clone, Copy)]
pub(crate) struct Quads(float32x4_t, float32x4_t, float32x4_t, float32x4_t);

macro_rules! lanewise {
    ($name:ident($($arg:ident),*) = $intrinsic:ident) => {
        #[inline(always)]
        unsafe fn $name(self $(, $arg: Self)*) -> Self {
            // SAFETY: NEON is part of AArch64.
            unsafe {
                Self(
                    $intrinsic(self.0 $(, $arg.0)*),
                    $intrinsic(self.1 $(, $arg.1)*),
                    $intrinsic(self.2 $(, $arg.2)*),
                    $intrinsic(self.3 $(, $arg.3)*),
                )
            }
        }
    };
}

/// Four half-precision values, widened. (The intrinsic needs a type that is not stable.)
///
/// # Safety
///
/// None: NEON is part of AArch64.
#[inline(always)]
unsafe fn widen(half: uint16x4_t) -> float32x4_t {
    let wide: float32x4_t;
    // SAFETY: the instruction reads and writes registers only.
    unsafe {
        asm!("fcvtl {wide:v}.4s, {half:v}.4h", wide = lateout(vreg) wide, half = in(vreg) half,
             options(pure, nomem, nostack, preserves_flags));
    }
    wide
}

/// Four values, narrowed to half precision, to nearest even.
///
/// # Safety
///
/// None: NEON is part of AArch64.
#[inline(always)]
unsafe fn narrow(wide: float32x4_t) -> uint16x4_t {
    let half: uint16x4_t;
    // SAFETY: the instruction reads and writes registers only.
    unsafe {
        asm!("fcvtn {half:v}.4h, {wide:v}.4s", half = lateout(vreg) half, wide = in(vreg) wide,
             options(pure, nomem, nostack, preserves_flags));
    }
    half
}

impl Lanes for Quads {
    // 32 registers hold eight of these.
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: NEON is part of AArch64.
        let v = unsafe { vdupq_n_f32(x) };
        Self(v, v, v, v)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: sixteen values are readable, by the trait's contract.
        unsafe {
            Self(
                vld1q_f32(p),
                vld1q_f32(p.add(4)),
                vld1q_f32(p.add(8)),
                vld1q_f32(p.add(12)),
            )
        }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: sixteen values are writable, by the trait's contract.
        unsafe {
            vst1q_f32(p, self.0);
            vst1q_f32(p.add(4), self.1);
            vst1q_f32(p.add(8), self.2);
            vst1q_f32(p.add(12), self.3);
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: sixteen values are readable, by the trait's contract.
        unsafe {
            Self(
                widen(vld1_u16(p)),
                widen(vld1_u16(p.add(4))),
                widen(vld1_u16(p.add(8))),
                widen(vld1_u16(p.add(12))),
            )
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: sixteen values are readable, by the trait's contract.
        unsafe {
            Self(
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p))),
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p.add(4)))),
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p.add(8)))),
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p.add(12)))),
            )
        }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        // SAFETY: sixteen values are writable, by the trait's contract.
        unsafe {
            vst1_u16(p, narrow(self.0));
            vst1_u16(p.add(4), narrow(self.1));
            vst1_u16(p.add(8), narrow(self.2));
            vst1_u16(p.add(12), narrow(self.3));
        }
    }
    lanewise!(add(o) = vaddq_f32);
    lanewise!(sub(o) = vsubq_f32);
    lanewise!(mul(o) = vmulq_f32);
    lanewise!(div(o) = vdivq_f32);
    #[inline(always)]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: NEON is part of AArch64.
        unsafe {
            Self(
                vfmaq_f32(c.0, self.0, b.0),
                vfmaq_f32(c.1, self.1, b.1),
                vfmaq_f32(c.2, self.2, b.2),
                vfmaq_f32(c.3, self.3, b.3),
            )
        }
    }
    #[inline(always)]
    unsafe fn select_lt(a: Self, b: Self, x: Self, y: Self) -> Self {
        // SAFETY: NEON is part of AArch64.
        unsafe {
            Self(
                vbslq_f32(vcltq_f32(a.0, b.0), x.0, y.0),
                vbslq_f32(vcltq_f32(a.1, b.1), x.1, y.1),
                vbslq_f32(vcltq_f32(a.2, b.2), x.2, y.2),
                vbslq_f32(vcltq_f32(a.3, b.3), x.3, y.3),
            )
        }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: NEON is part of AArch64.
        unsafe {
            let v = vaddq_f32(vaddq_f32(self.0, self.2), vaddq_f32(self.1, self.3));
            let v = vadd_f32(vget_low_f32(v), vget_high_f32(v));
            vget_lane_f32::<0>(v) + vget_lane_f32::<1>(v)
        }
    }
    #[inline(always)]
    unsafe fn pow2_of_bits(self) -> Self {
        // SAFETY: NEON is part of AArch64.
        unsafe {
            let power = |x| {
                let biased = vaddq_s32(vreinterpretq_s32_f32(x), vdupq_n_s32(127));
                vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
            };
            Self(power(self.0), power(self.1), power(self.2), power(self.3))
        }
    }
}

crate::arch::float::table::float_table!(Quads);
