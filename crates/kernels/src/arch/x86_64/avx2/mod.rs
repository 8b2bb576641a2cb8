//! AVX2 with FMA and F16C.

use super::ymm::table::tables;
use super::ymm::vector::Dot;
use crate::arch::isa::Isa;
use std::arch::x86_64::*;

/// Whether the CPU and the operating system support what the kernels of this room use.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

/// Pairs of products in 16 bits.
struct Maddubs;

// SAFETY: AVX2 instructions only; the trait's callers are compiled for it.
unsafe impl Dot for Maddubs {
    const CENTRED: bool = true;

    #[inline(always)]
    unsafe fn add(sums: __m256i, codes: __m256i, q: __m256i) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe { _mm256_add_epi16(sums, _mm256_maddubs_epi16(codes, q)) }
    }

    #[inline(always)]
    unsafe fn widen(sums: __m256i) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe { _mm256_madd_epi16(sums, _mm256_set1_epi16(1)) }
    }

    #[inline(always)]
    unsafe fn add_bytes(sums: __m256i, codes: __m256i, q: __m256i) -> __m256i {
        // Codes up to 255 would pass 16 bits. Centred, their magnitude is at most 128 and q at most 127, so a pair stays
        // below 32513; the sign of the code moves to q.
        // SAFETY: the trait's contract.
        unsafe {
            let centred = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
            let pairs =
                _mm256_maddubs_epi16(_mm256_abs_epi8(centred), _mm256_sign_epi8(q, centred));
            _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    }
}

tables!(
    Maddubs,
    Isa::Avx2,
    super::ymm::lanes::FLOAT,
    "avx2,fma,f16c"
);
