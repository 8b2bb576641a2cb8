//! 8-bit strips: `scale * (sum(code * q) - 128 * sum(q))`.

use crate::data::layout::{INT8_TILE_BYTES, INT8_TILE_COLS, STRIP};
use crate::data::mat::Int8Strip;
use crate::data::rows::{BLOCK, Rows};

/// Sums of `(code - 128) * x` over some tiles, for 64 rows.
fn dots(tiles: &[u8], plane: &[i8]) -> [i32; STRIP] {
    let mut dots = [0; STRIP];
    for (tile, x) in tiles
        .chunks_exact(INT8_TILE_BYTES)
        .zip(plane.chunks_exact(INT8_TILE_COLS))
    {
        for (codes, dot) in tile.chunks_exact(4).zip(&mut dots) {
            for (&code, &x) in codes.iter().zip(x) {
                *dot += (i32::from(code) - 128) * i32::from(x);
            }
        }
    }
    dots
}

/// The two planes are joined in `f32`: together they may pass 32 bits.
///
/// # Safety
///
/// Lengths as the table asks.
pub(crate) unsafe fn int16(w: &Int8Strip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        let r = r as usize;
        let (high, low) = (dots(w.data, x.plane(r, 0)), dots(w.data, x.plane(r, 1)));
        let scale = x.scales(r)[0];
        for j in 0..STRIP {
            let dot = (high[j] as f32).mul_add(128.0, low[j] as f32);
            out[j] = dot * scale * w.scales[j];
        }
    }
}

/// # Safety
///
/// Lengths as the table asks.
pub(crate) unsafe fn int8(w: &Int8Strip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    const TILES: usize = BLOCK / INT8_TILE_COLS * INT8_TILE_BYTES;
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        let r = r as usize;
        let mut acc = [0f32; STRIP];
        for (block, tiles) in w.data.chunks(TILES).enumerate() {
            let dots = dots(tiles, &x.plane(r, 0)[block * BLOCK..][..BLOCK]);
            let scale = x.scales(r)[block];
            for (acc, dot) in acc.iter_mut().zip(dots) {
                *acc = (dot as f32).mul_add(scale, *acc);
            }
        }
        for j in 0..STRIP {
            out[j] = acc[j] * w.scales[j];
        }
    }
}

/// Columns are summed in order, one lane of four for each column modulo 4.
///
/// # Safety
///
/// Lengths as the table asks.
#[inline(always)]
pub(crate) unsafe fn float(w: &Int8Strip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        let mut acc = [[0f32; STRIP]; INT8_TILE_COLS];
        let columns = x.values(r as usize).chunks_exact(INT8_TILE_COLS);
        for (tile, x) in w.data.chunks_exact(INT8_TILE_BYTES).zip(columns) {
            for (i, acc) in acc.iter_mut().enumerate() {
                for (j, acc) in acc.iter_mut().enumerate() {
                    *acc = (f32::from(tile[4 * j + i]) - 128.0).mul_add(x[i], *acc);
                }
            }
        }
        for j in 0..STRIP {
            out[j] = ((acc[0][j] + acc[1][j]) + (acc[2][j] + acc[3][j])) * w.scales[j];
        }
    }
}
