//! Sixteen lanes in one 512-bit register.

use crate::arch::float::lanes::Lanes;
use crate::arch::x86_64::ymm::lanes::sum_of_eight;
use std::arch::x86_64::*;

/// The register.
#[derive(Clone, Copy)]
pub(crate) struct Whole(__m512);

macro_rules! lanewise {
    ($name:ident($($arg:ident),*) = $intrinsic:ident) => {
        #[inline(always)]
        unsafe fn $name(self $(, $arg: Self)*) -> Self {
            // SAFETY: AVX-512F is available, by the trait's contract.
            unsafe { Self($intrinsic(self.0 $(, $arg.0)*)) }
        }
    };
}

impl Lanes for Whole {
    const WIDE: bool = true;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: AVX-512F is available, by the trait's contract.
        Self(unsafe { _mm512_set1_ps(x) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: AVX-512F is available and sixteen values are readable, by the trait's contract.
        Self(unsafe { _mm512_loadu_ps(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: AVX-512F is available and sixteen values are writable, by the trait's contract.
        unsafe { _mm512_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: AVX-512F is available and sixteen values are readable, by the trait's contract.
        Self(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) })
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: AVX-512F is available and sixteen values are readable, by the trait's contract.
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits)))
        }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        // SAFETY: AVX-512F is available and sixteen values are writable, by the trait's contract.
        unsafe {
            _mm256_storeu_si256(
                p.cast(),
                _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0),
            )
        }
    }
    lanewise!(add(o) = _mm512_add_ps);
    lanewise!(sub(o) = _mm512_sub_ps);
    lanewise!(mul(o) = _mm512_mul_ps);
    lanewise!(div(o) = _mm512_div_ps);
    lanewise!(fma(b, c) = _mm512_fmadd_ps);
    #[inline(always)]
    unsafe fn select_lt(a: Self, b: Self, x: Self, y: Self) -> Self {
        // SAFETY: AVX-512F is available, by the trait's contract.
        unsafe {
            Self(_mm512_mask_blend_ps(
                _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a.0, b.0),
                y.0,
                x.0,
            ))
        }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: AVX-512DQ is available, by the trait's contract.
        unsafe {
            let (low, high) = (
                _mm512_castps512_ps256(self.0),
                _mm512_extractf32x8_ps::<1>(self.0),
            );
            sum_of_eight(_mm256_add_ps(low, high))
        }
    }
    #[inline(always)]
    unsafe fn pow2_of_bits(self) -> Self {
        // SAFETY: AVX-512F is available, by the trait's contract.
        unsafe {
            let biased = _mm512_add_epi32(_mm512_castps_si512(self.0), _mm512_set1_epi32(127));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased)))
        }
    }
}

crate::arch::float::table::float_table!(Whole, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
