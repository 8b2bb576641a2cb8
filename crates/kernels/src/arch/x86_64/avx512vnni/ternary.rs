//! Ternary strips. Codes are unpacked in registers and used at once, for as many rows of activations as there is room for.

use super::vector::{Sums, VECTORS, broadcast, join, load, prefetch};
use crate::arch::parts::even_parts;
use crate::data::layout::{STRIP, TERNARY_TILE_BYTES, TERNARY_TILE_COLS};
use crate::data::mat::TernaryStrip;
use crate::data::rows::{BLOCK, Rows};
use std::arch::x86_64::*;

/// Tiles of one block of columns.
const BLOCK_TILES: usize = BLOCK / TERNARY_TILE_COLS;

/// Field `f` (columns `4 f ..`) of a vector of codes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn field(word: __m512i, f: usize) -> __m512i {
    let three = _mm512_set1_epi8(3);
    match f {
        0 => _mm512_and_si512(word, three),
        1 => _mm512_and_si512(_mm512_srli_epi32::<2>(word), three),
        2 => _mm512_and_si512(_mm512_srli_epi32::<4>(word), three),
        _ => _mm512_and_si512(_mm512_srli_epi32::<6>(word), three),
    }
}

/// The same address, of which the compiler does not know that.
#[inline(always)]
fn forget(mut at: *const u8) -> *const u8 {
    // SAFETY: there are no instructions.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) at, options(readonly, nostack, preserves_flags));
    }
    at
}

/// Sums of `code * q` over `count` tiles for `T` rows of activations in `P` planes; those of the last plane start at `from`.
///
/// # Safety
///
/// `count` tiles can be read at `tiles`, their columns at each of `x`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn dots<const T: usize, const P: usize>(
    tiles: *const u8,
    count: usize,
    x: [[*const i8; P]; T],
    from: [i32; T],
) -> [[Sums; P]; T] {
    let mut sums = [[[_mm512_setzero_si512(); VECTORS]; P]; T];
    for (sums, from) in sums.iter_mut().zip(from) {
        sums[P - 1] = [_mm512_set1_epi32(from); VECTORS];
    }
    for t in 0..count {
        // SAFETY: `t` is below `count`.
        unsafe {
            let tile = tiles.add(t * TERNARY_TILE_BYTES);
            let words: Sums = [load(tile, 0), load(tile, 1), load(tile, 2), load(tile, 3)];
            for f in 0..4 {
                prefetch(tile, f);
                let mut codes = words;
                if T * P > 5 {
                    // With six rows of sums there are no registers left to keep the words in, and the compiler would
                    // store them elsewhere: have it read them again. The multiplier hides that, and the unpacking.
                    let again = forget(tile);
                    codes = [
                        load(again, 0),
                        load(again, 1),
                        load(again, 2),
                        load(again, 3),
                    ];
                }
                for codes in &mut codes {
                    *codes = field(*codes, f);
                }
                for (sums, x) in sums.iter_mut().zip(&x) {
                    for (sums, x) in sums.iter_mut().zip(x) {
                        let q = broadcast(x.add(t * TERNARY_TILE_COLS + 4 * f));
                        for (sum, codes) in sums.iter_mut().zip(codes) {
                            *sum = _mm512_dpbusd_epi32(*sum, codes, q);
                        }
                    }
                }
            }
        }
    }
    sums
}

/// # Safety
///
/// The CPU has this room's instruction set; lengths as the table asks.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn int16(w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    for part in even_parts(idx.len(), 3) {
        let (idx, out) = (
            &idx[part.clone()],
            &mut out[STRIP * part.start..STRIP * part.end],
        );
        // SAFETY: the caller's promises, for a part of the same list.
        unsafe {
            match idx.len() {
                1 => int16_part::<1>(w, x, idx, out),
                2 => int16_part::<2>(w, x, idx, out),
                _ => int16_part::<3>(w, x, idx, out),
            }
        }
    }
}

/// # Safety
///
/// As [`int16`], and `idx` has `T` entries.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn int16_part<const T: usize>(w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    let count = w.tiles.len() / TERNARY_TILE_BYTES;
    // SAFETY: the strip holds `count` tiles, and the planes are padded to more than their columns.
    let sums = unsafe {
        let totals = std::array::from_fn(|t| -x.total(idx[t] as usize));
        dots::<T, 2>(w.tiles.as_ptr(), count, x.planes(idx, 0), totals)
    };
    for (t, [high, low]) in sums.into_iter().enumerate() {
        let scale = _mm512_set1_ps(x.scales(idx[t] as usize)[0]);
        let out = &mut out[t * STRIP..][..STRIP];
        for v in 0..VECTORS {
            let value = _mm512_mul_ps(_mm512_cvtepi32_ps(join(high[v], low[v])), scale);
            // SAFETY: 64 row scales and 64 results.
            unsafe {
                let alpha = _mm512_loadu_ps(w.scales.as_ptr().add(16 * v));
                _mm512_storeu_ps(out.as_mut_ptr().add(16 * v), _mm512_mul_ps(value, alpha));
            }
        }
    }
}

/// # Safety
///
/// The CPU has this room's instruction set; lengths as the table asks.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn int8(w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    for part in even_parts(idx.len(), 6) {
        let (idx, out) = (
            &idx[part.clone()],
            &mut out[STRIP * part.start..STRIP * part.end],
        );
        // SAFETY: the caller's promises, for a part of the same list.
        unsafe {
            match idx.len() {
                1 => int8_part::<1>(w, x, idx, out),
                2 => int8_part::<2>(w, x, idx, out),
                3 => int8_part::<3>(w, x, idx, out),
                4 => int8_part::<4>(w, x, idx, out),
                5 => int8_part::<5>(w, x, idx, out),
                _ => int8_part::<6>(w, x, idx, out),
            }
        }
    }
}

/// # Safety
///
/// As [`int8`], and `idx` has `T` entries.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn int8_part<const T: usize>(w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    let planes = x.planes::<T, 1>(idx, 0);
    let out = &mut out[..T * STRIP];
    out.fill(0.0);
    for (block, tiles) in w.tiles.chunks(BLOCK_TILES * TERNARY_TILE_BYTES).enumerate() {
        let (mut x_of_block, mut totals, mut scales) = (planes, [0; T], [0.0; T]);
        for t in 0..T {
            let r = idx[t] as usize;
            x_of_block[t][0] = planes[t][0].wrapping_add(block * BLOCK);
            (totals[t], scales[t]) = (x.block_totals(r)[block], x.scales(r)[block]);
        }
        // SAFETY: the planes hold whole blocks, and `out` 64 values for each of the `T` rows.
        unsafe { int8_block(tiles, x_of_block, totals, scales, out.as_mut_ptr()) };
    }
    for out in out.chunks_exact_mut(STRIP) {
        for (out, alpha) in out.iter_mut().zip(w.scales) {
            *out *= alpha;
        }
    }
}

/// Adds one block's scaled sums to `out`, which stays in memory: the registers are all needed for the integers.
///
/// # Safety
///
/// The CPU has this room's instruction set, `x` reaches over all columns of `tiles`, and `out` holds 64 values for each of the
/// `T` rows.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn int8_block<const T: usize>(
    tiles: &[u8],
    x: [[*const i8; 1]; T],
    totals: [i32; T],
    scales: [f32; T],
    out: *mut f32,
) {
    // SAFETY: the caller's promises.
    unsafe {
        let count = tiles.len() / TERNARY_TILE_BYTES;
        let sums = dots::<T, 1>(tiles.as_ptr(), count, x, totals.map(|total| -total));
        for (t, [sums]) in sums.into_iter().enumerate() {
            let scale = _mm512_set1_ps(scales[t]);
            for (v, sum) in sums.into_iter().enumerate() {
                let at = out.add(t * STRIP + 16 * v);
                let value = _mm512_cvtepi32_ps(sum);
                _mm512_storeu_ps(at, _mm512_fmadd_ps(value, scale, _mm512_loadu_ps(at)));
            }
        }
    }
}
