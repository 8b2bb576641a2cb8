//! AVX2 with AVX-VNNI.

use super::ymm::table::tables;
use super::ymm::vector::Dot;
use crate::arch::isa::Isa;
use std::arch::x86_64::*;

/// Whether the CPU and the operating system support what the kernels of this room use.
pub(crate) fn is_available() -> bool {
    super::avx2::is_available() && is_x86_feature_detected!("avxvnni")
}

/// Four products at once in 32 bits.
struct Dpbusd;

// SAFETY: AVX2 and AVX-VNNI instructions only; the trait's callers are compiled for them.
unsafe impl Dot for Dpbusd {
    const CENTRED: bool = false;

    #[inline(always)]
    unsafe fn add(sums: __m256i, codes: __m256i, q: __m256i) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe { _mm256_dpbusd_avx_epi32(sums, codes, q) }
    }

    #[inline(always)]
    unsafe fn widen(sums: __m256i) -> __m256i {
        sums
    }

    #[inline(always)]
    unsafe fn add_bytes(sums: __m256i, codes: __m256i, q: __m256i) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe { _mm256_dpbusd_avx_epi32(sums, codes, q) }
    }
}

tables!(
    Dpbusd,
    Isa::AvxVnni,
    super::ymm::lanes::FLOAT,
    "avx2,fma,f16c,avxvnni"
);
