//! Reading memory.

use super::vector::{load, prefetch};
use crate::arch::scalar;
use std::arch::x86_64::*;

/// # Safety
///
/// The CPU has this room's instruction set.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn read(bytes: &[u8]) -> u64 {
    let mut lanes = [_mm512_setzero_si512(); 4];
    let blocks = bytes.chunks_exact(256);
    // SAFETY: no further demands.
    let rest = unsafe { scalar::stream::read(blocks.remainder()) };
    for block in blocks {
        for (v, lane) in lanes.iter_mut().enumerate() {
            prefetch(block.as_ptr(), v);
            // SAFETY: a block has 256 bytes.
            *lane = _mm512_xor_si512(*lane, unsafe { load(block.as_ptr(), v) });
        }
    }
    let lanes = _mm512_xor_si512(
        _mm512_xor_si512(lanes[0], lanes[1]),
        _mm512_xor_si512(lanes[2], lanes[3]),
    );
    let mut words = [0u64; 8];
    // SAFETY: 64 bytes.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), lanes) };
    words.iter().fold(rest, |x, word| x ^ word)
}
