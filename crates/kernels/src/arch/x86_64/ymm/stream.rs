//! Reading memory.

use super::vector::{load, prefetch};
use crate::arch::scalar;
use std::arch::x86_64::*;

/// # Safety
///
/// The CPU has AVX2.
#[inline(always)]
pub(in crate::arch::x86_64) unsafe fn read(bytes: &[u8]) -> u64 {
    let blocks = bytes.chunks_exact(256);
    // SAFETY: a block has 256 bytes; the rest has no demands.
    unsafe {
        let rest = scalar::stream::read(blocks.remainder());
        let mut lanes = [_mm256_setzero_si256(); 8];
        for block in blocks {
            for (v, lane) in lanes.iter_mut().enumerate() {
                let at = block.as_ptr().add(32 * v);
                if v % 2 == 0 {
                    prefetch(at);
                }
                *lane = _mm256_xor_si256(*lane, load(at));
            }
        }
        let lanes = lanes
            .into_iter()
            .fold(_mm256_setzero_si256(), |x, lane| _mm256_xor_si256(x, lane));
        let mut words = [0u64; 4];
        _mm256_storeu_si256(words.as_mut_ptr().cast(), lanes);
        words.iter().fold(rest, |x, word| x ^ word)
    }
}
