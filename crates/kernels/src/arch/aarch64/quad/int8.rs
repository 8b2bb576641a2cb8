//! 8-bit strips with one scale a row: block by block, 16 rows of weights at a time.

use super::grouped::bytes;
use super::vector::Dot;
use crate::data::layout::{INT8_TILE_BYTES, INT8_TILE_COLS, STRIP};
use crate::data::mat::Int8Strip;
use crate::data::rows::{BLOCK, Rows};
use std::arch::aarch64::*;

/// Bytes of one block of columns.
const BLOCK_BYTES: usize = BLOCK / INT8_TILE_COLS * INT8_TILE_BYTES;

/// Sums of `(code - 128) * q` for the 16 rows from `at` on, over one block's tiles.
///
/// # Safety
///
/// The CPU has what `D` needs; activations of a whole block can be read at each of `x`.
#[inline(always)]
unsafe fn dots<D: Dot, const P: usize>(
    tiles: &[u8],
    at: usize,
    x: [*const i8; P],
) -> [[int32x4_t; 4]; P] {
    let cols = tiles.len() / INT8_TILE_BYTES * INT8_TILE_COLS;
    let whole = cols / 16 * 16;
    // SAFETY: the caller's promise; 4 rows take 16 bytes of a tile, and `last` holds the tiles of 16 columns.
    unsafe {
        let mut sums = bytes::<D, P>(tiles.as_ptr().add(4 * at), whole, x);
        if whole < cols {
            // A part of 16 columns, padded with code 128, which counts as zero.
            let mut last = [128u8; 4 * INT8_TILE_BYTES];
            let rest = &tiles[whole / INT8_TILE_COLS * INT8_TILE_BYTES..];
            last[..rest.len()].copy_from_slice(rest);
            let mut from = x;
            for x in &mut from {
                *x = x.add(whole);
            }
            let more = bytes::<D, P>(last.as_ptr().add(4 * at), 16, from);
            for p in 0..P {
                for v in 0..4 {
                    sums[p][v] = vaddq_s32(sums[p][v], more[p][v]);
                }
            }
        }
        sums
    }
}

/// # Safety
///
/// The CPU has what `D` needs; lengths as the table asks.
#[inline(always)]
pub(in crate::arch::aarch64) unsafe fn int16<D: Dot>(
    w: &Int8Strip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        let mut sums = [[0i32; STRIP]; 2];
        for (block, tiles) in w.data.chunks(BLOCK_BYTES).enumerate() {
            let [planes] = x.planes::<1, 2>(&[r], block * BLOCK);
            for at in (0..STRIP).step_by(16) {
                // SAFETY: the caller's promise; planes hold whole blocks; `sums` holds 64 values a plane.
                unsafe {
                    let more = dots::<D, 2>(tiles, at, planes);
                    for (sums, more) in sums.iter_mut().zip(more) {
                        for (v, more) in more.into_iter().enumerate() {
                            let to = sums.as_mut_ptr().add(at + 4 * v);
                            vst1q_s32(to, vaddq_s32(more, vld1q_s32(to)));
                        }
                    }
                }
            }
        }
        let scale = x.scales(r as usize)[0];
        for j in 0..STRIP {
            out[j] = (sums[0][j] as f32).mul_add(128.0, sums[1][j] as f32) * scale * w.scales[j];
        }
    }
}

/// # Safety
///
/// The CPU has what `D` needs; lengths as the table asks.
#[inline(always)]
pub(in crate::arch::aarch64) unsafe fn int8<D: Dot>(
    w: &Int8Strip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    for (block, tiles) in w.data.chunks(BLOCK_BYTES).enumerate() {
        for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
            let [planes] = x.planes::<1, 1>(&[r], block * BLOCK);
            let scale = x.scales(r as usize)[block];
            for at in (0..STRIP).step_by(16) {
                // SAFETY: the caller's promise; planes hold whole blocks; `out` holds 64 values.
                unsafe {
                    let [sums] = dots::<D, 1>(tiles, at, planes);
                    for (v, sums) in sums.into_iter().enumerate() {
                        let to = out.as_mut_ptr().add(at + 4 * v);
                        let before = if block == 0 {
                            vdupq_n_f32(0.0)
                        } else {
                            vld1q_f32(to)
                        };
                        vst1q_f32(
                            to,
                            vfmaq_f32(before, vcvtq_f32_s32(sums), vdupq_n_f32(scale)),
                        );
                    }
                }
            }
        }
    }
    for out in out.chunks_exact_mut(STRIP) {
        for (out, alpha) in out.iter_mut().zip(w.scales) {
            *out *= alpha;
        }
    }
}
