//! 8-bit strips with one scale a row: block by block, 16 rows of weights at a time.

use super::vector::{Dot, broadcasts, load, prefetch};
use crate::data::layout::{INT8_TILE_BYTES, INT8_TILE_COLS, STRIP};
use crate::data::mat::Int8Strip;
use crate::data::rows::{BLOCK, Rows};
use std::arch::x86_64::*;

/// Bytes of one block of columns.
const BLOCK_BYTES: usize = BLOCK / INT8_TILE_COLS * INT8_TILE_BYTES;

/// Sums of `code * q` (centred if `D` centres) for 16 rows over `count` tiles.
///
/// # Safety
///
/// The CPU has what `D` needs; `count` tiles can be read from `tiles` on, which points to the first byte of the 16 rows;
/// so can their columns at each of `x`.
#[inline(always)]
unsafe fn dots<D: Dot, const P: usize>(
    tiles: *const u8,
    count: usize,
    x: [*const i8; P],
) -> [[__m256i; 2]; P] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[_mm256_setzero_si256(); 2]; P];
        for t in 0..count {
            let tile = tiles.add(t * INT8_TILE_BYTES);
            prefetch(tile);
            let q = broadcasts(x, t * INT8_TILE_COLS);
            for v in 0..2 {
                let codes = load(tile.add(32 * v));
                for p in 0..P {
                    sums[p][v] = D::add_bytes(sums[p][v], codes, q[p]);
                }
            }
        }
        sums
    }
}

/// 128 times the sum of activations, where the sums need it.
#[inline(always)]
fn correction<D: Dot>(total: i32) -> i32 {
    if D::CENTRED { 0 } else { total << 7 }
}

/// # Safety
///
/// The CPU has what `D` needs; lengths as the table asks.
#[inline(always)]
pub(in crate::arch::x86_64) unsafe fn int16<D: Dot>(
    w: &Int8Strip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        let r = r as usize;
        let mut sums = [[0i32; STRIP]; 2];
        for (block, tiles) in w.data.chunks(BLOCK_BYTES).enumerate() {
            let [planes] = x.planes::<1, 2>(&[r as u32], block * BLOCK);
            for at in (0..STRIP).step_by(16) {
                // SAFETY: 16 rows take 64 bytes of a tile; `sums` holds 64 values a plane.
                unsafe {
                    let more = dots::<D, 2>(
                        tiles.as_ptr().add(4 * at),
                        tiles.len() / INT8_TILE_BYTES,
                        planes,
                    );
                    for (sums, more) in sums.iter_mut().zip(more) {
                        for (v, more) in more.into_iter().enumerate() {
                            let to = sums.as_mut_ptr().add(at + 8 * v).cast();
                            _mm256_storeu_si256(to, _mm256_add_epi32(more, _mm256_loadu_si256(to)));
                        }
                    }
                }
            }
        }
        let high_total = correction::<D>(x.high_total(r));
        let low_total = correction::<D>(x.total(r)).wrapping_sub(high_total << 7);
        let scale = x.scales(r)[0];
        for j in 0..STRIP {
            let high = sums[0][j].wrapping_sub(high_total) as f32;
            let low = sums[1][j].wrapping_sub(low_total) as f32;
            out[j] = high.mul_add(128.0, low) * scale * w.scales[j];
        }
    }
}

/// # Safety
///
/// The CPU has what `D` needs; lengths as the table asks.
#[inline(always)]
pub(in crate::arch::x86_64) unsafe fn int8<D: Dot>(
    w: &Int8Strip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    for (block, tiles) in w.data.chunks(BLOCK_BYTES).enumerate() {
        for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
            let r = r as usize;
            let total = x.block_totals(r)[block];
            let scale = x.scales(r)[block];
            let plane = x.plane(r, 0)[block * BLOCK..].as_ptr();
            for at in (0..STRIP).step_by(16) {
                // SAFETY: 16 rows take 64 bytes of a tile; `out` holds 64 values.
                unsafe {
                    let [sums] = dots::<D, 1>(
                        tiles.as_ptr().add(4 * at),
                        tiles.len() / INT8_TILE_BYTES,
                        [plane],
                    );
                    let total = _mm256_set1_epi32(correction::<D>(total));
                    for (v, sums) in sums.into_iter().enumerate() {
                        let to = out.as_mut_ptr().add(at + 8 * v);
                        let value = _mm256_cvtepi32_ps(_mm256_sub_epi32(sums, total));
                        let before = if block == 0 {
                            _mm256_setzero_ps()
                        } else {
                            _mm256_loadu_ps(to)
                        };
                        _mm256_storeu_ps(to, _mm256_fmadd_ps(value, _mm256_set1_ps(scale), before));
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
