//! Reading memory.

use super::vector::{load, prefetch};
use crate::arch::scalar;
use std::arch::aarch64::*;

/// # Safety
///
/// None of its own; unsafe to fit the table.
pub(in crate::arch::aarch64) unsafe fn read(bytes: &[u8]) -> u64 {
    let blocks = bytes.chunks_exact(256);
    // SAFETY: a block has 256 bytes; the rest has no demands; NEON is part of AArch64.
    unsafe {
        let rest = scalar::stream::read(blocks.remainder());
        let mut lanes = [vdupq_n_u8(0); 16];
        for block in blocks {
            for (v, lane) in lanes.iter_mut().enumerate() {
                let at = block.as_ptr().add(16 * v);
                if v % 4 == 0 {
                    prefetch(at);
                }
                *lane = veorq_u8(*lane, load(at));
            }
        }
        let mut all = lanes[0];
        for lane in &lanes[1..] {
            all = veorq_u8(all, *lane);
        }
        let words = vreinterpretq_u64_u8(all);
        rest ^ vgetq_lane_u64::<0>(words) ^ vgetq_lane_u64::<1>(words)
    }
}
