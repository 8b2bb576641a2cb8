//! Sixteen lanes in two 256-bit registers.

use crate::arch::float::lanes::Lanes;
use std::arch::x86_64::*;

/// Lanes 0 to 7 and 8 to 15.
#[derive(Clone, Copy)]
pub(crate) struct Halves(__m256, __m256);

macro_rules! lanewise {
    ($name:ident($($arg:ident),*) = $intrinsic:ident) => {
        #[inline(always)]
        unsafe fn $name(self $(, $arg: Self)*) -> Self {
            // SAFETY: AVX2 and FMA are available, by the trait's contract.
            unsafe { Self($intrinsic(self.0 $(, $arg.0)*), $intrinsic(self.1 $(, $arg.1)*)) }
        }
    };
}

/// The end of [`Lanes::sum`]: lane `i` with `i + 4`, then `+ 2`, `+ 1`.
///
/// # Safety
///
/// AVX2 is available.
#[inline(always)]
pub(in crate::arch::x86_64) unsafe fn sum_of_eight(v: __m256) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
        _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
    }
}

impl Lanes for Halves {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: AVX2 is available, by the trait's contract.
        let v = unsafe { _mm256_set1_ps(x) };
        Self(v, v)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: AVX2 is available and sixteen values are readable, by the trait's contract.
        unsafe { Self(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: AVX2 is available and sixteen values are writable, by the trait's contract.
        unsafe {
            _mm256_storeu_ps(p, self.0);
            _mm256_storeu_ps(p.add(8), self.1);
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: F16C is available and sixteen values are readable, by the trait's contract.
        unsafe {
            Self(
                _mm256_cvtph_ps(_mm_loadu_si128(p.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(p.add(8).cast())),
            )
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: AVX2 is available and sixteen values are readable, by the trait's contract.
        unsafe {
            let widen = |half| {
                let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(half));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
            };
            Self(widen(p.cast()), widen(p.add(8).cast()))
        }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        // SAFETY: F16C is available and sixteen values are writable, by the trait's contract.
        unsafe {
            _mm_storeu_si128(
                p.cast(),
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0),
            );
            _mm_storeu_si128(
                p.add(8).cast(),
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.1),
            );
        }
    }
    lanewise!(add(o) = _mm256_add_ps);
    lanewise!(sub(o) = _mm256_sub_ps);
    lanewise!(mul(o) = _mm256_mul_ps);
    lanewise!(div(o) = _mm256_div_ps);
    lanewise!(fma(b, c) = _mm256_fmadd_ps);
    #[inline(always)]
    unsafe fn select_lt(a: Self, b: Self, x: Self, y: Self) -> Self {
        // SAFETY: AVX2 is available, by the trait's contract.
        unsafe {
            Self(
                _mm256_blendv_ps(y.0, x.0, _mm256_cmp_ps::<_CMP_LT_OQ>(a.0, b.0)),
                _mm256_blendv_ps(y.1, x.1, _mm256_cmp_ps::<_CMP_LT_OQ>(a.1, b.1)),
            )
        }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: AVX2 is available, by the trait's contract.
        unsafe { sum_of_eight(_mm256_add_ps(self.0, self.1)) }
    }
    #[inline(always)]
    unsafe fn pow2_of_bits(self) -> Self {
        // SAFETY: AVX2 is available, by the trait's contract.
        unsafe {
            let bias = _mm256_set1_epi32(127);
            let low = _mm256_add_epi32(_mm256_castps_si256(self.0), bias);
            let high = _mm256_add_epi32(_mm256_castps_si256(self.1), bias);
            Self(
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(low)),
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(high)),
            )
        }
    }
}

crate::arch::float::table::float_table!(Halves, "avx2,fma,f16c");
