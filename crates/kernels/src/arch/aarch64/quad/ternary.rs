//! Ternary strips: one or two rows of activations at a time, codes unpacked in registers.

use super::vector::{Dot, join, load, load_x, prefetch};
use crate::data::layout::{STRIP, TERNARY_TILE_BYTES, TERNARY_TILE_COLS};
use crate::data::mat::TernaryStrip;
use crate::data::rows::{BLOCK, Rows};
use std::arch::aarch64::*;

/// Bytes of one block of columns. 16-bit sums of one block stay below 64 * 2 * 127 = 16256.
const BLOCK_BYTES: usize = BLOCK / TERNARY_TILE_COLS * TERNARY_TILE_BYTES;

/// The four fields of a vector of codes, as signed bytes.
///
/// # Safety
///
/// None but the instruction set's.
#[inline(always)]
unsafe fn fields(word: uint8x16_t) -> [int8x16_t; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let three = vdupq_n_u8(3);
        [
            vreinterpretq_s8_u8(vandq_u8(word, three)),
            vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8::<2>(word), three)),
            vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8::<4>(word), three)),
            vreinterpretq_s8_u8(vshrq_n_u8::<6>(word)),
        ]
    }
}

/// Sums of `code * q` for `V` vectors of 4 rows and `T` rows of activations over `count` tiles of a block.
///
/// # Safety
///
/// The CPU has what `D` needs; `count` tiles (at most a block's) can be read from `tiles` on, which points to the first byte
/// of the rows; so can their columns at each of `x`.
#[inline(always)]
unsafe fn dots<D: Dot, const V: usize, const T: usize, const P: usize>(
    tiles: *const u8,
    count: usize,
    x: [[*const i8; P]; T],
) -> [[[int32x4_t; V]; P]; T] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[[D::zero(); V]; P]; T];
        for tile in 0..count {
            let at = tiles.add(tile * TERNARY_TILE_BYTES);
            prefetch(at);
            let mut q = [[vdupq_n_s8(0); P]; T];
            for t in 0..T {
                for p in 0..P {
                    q[t][p] = load_x(x[t][p].add(tile * TERNARY_TILE_COLS));
                }
            }
            for v in 0..V {
                let codes = fields(load(at.add(16 * v)));
                for t in 0..T {
                    for p in 0..P {
                        let mut sum = sums[t][p][v];
                        sum = D::add::<0>(sum, codes[0], q[t][p]);
                        sum = D::add::<1>(sum, codes[1], q[t][p]);
                        sum = D::add::<2>(sum, codes[2], q[t][p]);
                        sums[t][p][v] = D::add::<3>(sum, codes[3], q[t][p]);
                    }
                }
            }
        }
        let mut wide = [[[vdupq_n_s32(0); V]; P]; T];
        for t in 0..T {
            for p in 0..P {
                for v in 0..V {
                    wide[t][p][v] = D::widen(sums[t][p][v]);
                }
            }
        }
        wide
    }
}

/// # Safety
///
/// The CPU has what `D` needs; lengths as the table asks.
#[inline(always)]
pub(in crate::arch::aarch64) unsafe fn int16<D: Dot>(
    w: &TernaryStrip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    // SAFETY: the caller's promise. `out` carries the integer sums from block to block.
    unsafe {
        for (block, tiles) in w.tiles.chunks(BLOCK_BYTES).enumerate() {
            for (idx, out) in idx.chunks(2).zip(out.chunks_mut(2 * STRIP)) {
                match idx.len() {
                    2 => int16_tile::<D, 2, 2>(tiles, block, x, idx, out),
                    _ => int16_tile::<D, 4, 1>(tiles, block, x, idx, out),
                }
            }
        }
        for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
            let total = vdupq_n_s32(x.total(r as usize));
            let scale = x.scales(r as usize)[0];
            for (out, alpha) in out.chunks_exact_mut(4).zip(w.scales.chunks_exact(4)) {
                let dots = vsubq_s32(vld1q_s32(out.as_ptr().cast()), total);
                let value = vmulq_n_f32(vcvtq_f32_s32(dots), scale);
                vst1q_f32(
                    out.as_mut_ptr(),
                    vmulq_f32(value, vld1q_f32(alpha.as_ptr())),
                );
            }
        }
    }
}

/// All rows of a strip for `T` rows of activations and one block, `V` vectors at a time, added to the integers in `out`.
///
/// # Safety
///
/// As [`int16`], with `idx` of `T` entries and the tiles of `block`.
#[inline(always)]
unsafe fn int16_tile<D: Dot, const V: usize, const T: usize>(
    tiles: &[u8],
    block: usize,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    let planes = x.planes::<T, 2>(idx, block * BLOCK);
    let count = tiles.len() / TERNARY_TILE_BYTES;
    for at in (0..STRIP).step_by(4 * V) {
        // SAFETY: the caller's promise; 4 rows take 16 bytes of a tile.
        unsafe {
            let sums = dots::<D, V, T, 2>(tiles.as_ptr().add(4 * at), count, planes);
            for (t, [high, low]) in sums.into_iter().enumerate() {
                for v in 0..V {
                    let to = out[t * STRIP + at + 4 * v..][..4].as_mut_ptr().cast();
                    let mut dots = join(high[v], low[v]);
                    if block > 0 {
                        dots = vaddq_s32(dots, vld1q_s32(to));
                    }
                    vst1q_s32(to, dots);
                }
            }
        }
    }
}

/// # Safety
///
/// The CPU has what `D` needs; lengths as the table asks.
#[inline(always)]
pub(in crate::arch::aarch64) unsafe fn int8<D: Dot>(
    w: &TernaryStrip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    for (block, tiles) in w.tiles.chunks(BLOCK_BYTES).enumerate() {
        for (idx, out) in idx.chunks(2).zip(out.chunks_mut(2 * STRIP)) {
            // SAFETY: the caller's promise. `out` carries the float sums from block to block.
            unsafe {
                match idx.len() {
                    2 => int8_tile::<D, 2>(tiles, block, x, idx, out),
                    _ => int8_tile::<D, 1>(tiles, block, x, idx, out),
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

/// All rows of a strip for `T` rows of activations and one block, 16 rows at a time, scaled and added to `out`.
///
/// # Safety
///
/// As [`int8`], with `idx` of `T` entries and the tiles of `block`.
#[inline(always)]
unsafe fn int8_tile<D: Dot, const T: usize>(
    tiles: &[u8],
    block: usize,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    let planes = x.planes::<T, 1>(idx, block * BLOCK);
    let count = tiles.len() / TERNARY_TILE_BYTES;
    for at in (0..STRIP).step_by(16) {
        // SAFETY: the caller's promise; 4 rows take 16 bytes of a tile.
        unsafe {
            let sums = dots::<D, 4, T, 1>(tiles.as_ptr().add(4 * at), count, planes);
            for (t, [sums]) in sums.into_iter().enumerate() {
                let r = idx[t] as usize;
                let total = x.block_totals(r)[block];
                let total = vdupq_n_s32(total);
                let scale = vdupq_n_f32(x.scales(r)[block]);
                for (v, sums) in sums.into_iter().enumerate() {
                    let to = out[t * STRIP + at + 4 * v..][..4].as_mut_ptr();
                    let before = if block > 0 {
                        vld1q_f32(to)
                    } else {
                        vdupq_n_f32(0.0)
                    };
                    vst1q_f32(
                        to,
                        vfmaq_f32(before, vcvtq_f32_s32(vsubq_s32(sums, total)), scale),
                    );
                }
            }
        }
    }
}
