//! Ternary strips: `scale * (sum(code * q) - sum(q))`.

use crate::data::layout::{STRIP, TERNARY_TILE_BYTES, TERNARY_TILE_COLS};
use crate::data::mat::TernaryStrip;
use crate::data::rows::{BLOCK, Rows};

/// Word `row` of a tile: 16 codes of that row.
#[inline(always)]
fn word(tile: &[u8], row: usize) -> u32 {
    u32::from_le_bytes([
        tile[4 * row],
        tile[4 * row + 1],
        tile[4 * row + 2],
        tile[4 * row + 3],
    ])
}

/// Where the code of column `c` lies in a word.
#[inline(always)]
const fn shift(c: usize) -> u32 {
    (8 * (c % 4) + 2 * (c / 4)) as u32
}

/// Sums of `code * x` over some tiles, for 64 rows.
fn dots(tiles: &[u8], plane: &[i8]) -> [i32; STRIP] {
    let mut dots = [0; STRIP];
    for (tile, x) in tiles
        .chunks_exact(TERNARY_TILE_BYTES)
        .zip(plane.chunks_exact(TERNARY_TILE_COLS))
    {
        for (row, dot) in dots.iter_mut().enumerate() {
            let word = word(tile, row);
            for (c, &x) in x.iter().enumerate() {
                *dot += (word >> shift(c) & 3) as i32 * i32::from(x);
            }
        }
    }
    dots
}

/// # Safety
///
/// Lengths as the table asks.
pub(crate) unsafe fn int16(w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        let r = r as usize;
        let (high, low) = (dots(w.tiles, x.plane(r, 0)), dots(w.tiles, x.plane(r, 1)));
        let (total, scale) = (x.total(r), x.scales(r)[0]);
        for j in 0..STRIP {
            // The combined sum may pass 32 bits, the difference with the total never does (see MAX_COLS).
            let dot = (high[j] << 7).wrapping_add(low[j]).wrapping_sub(total);
            out[j] = dot as f32 * scale * w.scales[j];
        }
    }
}

/// # Safety
///
/// Lengths as the table asks.
pub(crate) unsafe fn int8(w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    const TILES: usize = BLOCK / TERNARY_TILE_COLS * TERNARY_TILE_BYTES;
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        let r = r as usize;
        let mut acc = [0.0; STRIP];
        for (block, tiles) in w.tiles.chunks(TILES).enumerate() {
            let dots = dots(tiles, &x.plane(r, 0)[block * BLOCK..][..BLOCK]);
            let (total, scale) = (x.block_totals(r)[block], x.scales(r)[block]);
            for (acc, dot) in acc.iter_mut().zip(dots) {
                *acc = ((dot - total) as f32).mul_add(scale, *acc);
            }
        }
        for j in 0..STRIP {
            out[j] = acc[j] * w.scales[j];
        }
    }
}

/// Even and odd columns are summed apart, in order, and added at the end.
///
/// # Safety
///
/// Lengths as the table asks.
#[inline(always)]
pub(crate) unsafe fn float(w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        let mut acc = [[0f32; STRIP]; 2];
        let columns = x.values(r as usize).chunks_exact(TERNARY_TILE_COLS);
        for (tile, x) in w.tiles.chunks_exact(TERNARY_TILE_BYTES).zip(columns) {
            let words: [u32; STRIP] = std::array::from_fn(|row| word(tile, row));
            for (c, &x) in x.iter().enumerate() {
                for (acc, word) in acc[c % 2].iter_mut().zip(words) {
                    // The product is exact, so fused or not it adds the same.
                    *acc += ((word >> shift(c) & 3) as i32 - 1) as f32 * x;
                }
            }
        }
        for j in 0..STRIP {
            out[j] = (acc[0][j] + acc[1][j]) * w.scales[j];
        }
    }
}
