//! 8-bit strips with one scale a row.

use super::vector::{Sums, VECTORS, broadcast, load, prefetch};
use crate::data::layout::{INT8_TILE_BYTES, INT8_TILE_COLS, STRIP};
use crate::data::mat::Int8Strip;
use crate::data::rows::{BLOCK, Rows};
use std::arch::x86_64::*;

/// Sums of `code * q` over `count` tiles for `T` rows of activations in `P` planes.
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
) -> [[Sums; P]; T] {
    let mut sums = [[[_mm512_setzero_si512(); VECTORS]; P]; T];
    for t in 0..count {
        // SAFETY: `t` is below `count`.
        unsafe {
            let tile = tiles.add(t * INT8_TILE_BYTES);
            let mut q = [[_mm512_setzero_si512(); P]; T];
            for (q, x) in q.iter_mut().zip(&x) {
                for (q, x) in q.iter_mut().zip(x) {
                    *q = broadcast(x.add(t * INT8_TILE_COLS));
                }
            }
            for v in 0..VECTORS {
                prefetch(tile, v);
                let codes = load(tile, v);
                for (sums, q) in sums.iter_mut().zip(q) {
                    for (sums, q) in sums.iter_mut().zip(q) {
                        sums[v] = _mm512_dpbusd_epi32(sums[v], codes, q);
                    }
                }
            }
        }
    }
    sums
}

/// `sum(code * q) - 128 * sum(q)`, as floats.
#[inline]
#[target_feature(enable = "avx512f")]
fn centred(sums: __m512i, total: i32) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_sub_epi32(sums, _mm512_set1_epi32(total << 7)))
}

/// # Safety
///
/// As the table asks, and `idx` has `T` entries.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn int16_few<const T: usize>(w: &Int8Strip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    let count = w.data.len() / INT8_TILE_BYTES;
    // SAFETY: the strip holds `count` tiles, and the planes are padded to more than their columns.
    let sums = unsafe { dots::<T, 2>(w.data.as_ptr(), count, x.planes(idx, 0)) };
    for (t, [high, low]) in sums.into_iter().enumerate() {
        let r = idx[t] as usize;
        let high_total = x.high_total(r);
        let low_total = x.total(r) - (high_total << 7);
        for v in 0..VECTORS {
            let (high, low) = (centred(high[v], high_total), centred(low[v], low_total));
            let dot = _mm512_fmadd_ps(high, _mm512_set1_ps(128.0), low);
            let value = _mm512_mul_ps(dot, _mm512_set1_ps(x.scales(r)[0]));
            // SAFETY: 64 row scales, and a slice of 16 values.
            unsafe {
                let alpha = _mm512_loadu_ps(w.scales.as_ptr().add(16 * v));
                _mm512_storeu_ps(
                    out[t * STRIP + 16 * v..][..16].as_mut_ptr(),
                    _mm512_mul_ps(value, alpha),
                );
            }
        }
    }
}

/// # Safety
///
/// The CPU has this room's instruction set; lengths as the table asks.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn int16(w: &Int8Strip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    for (idx, out) in idx.chunks(3).zip(out.chunks_mut(3 * STRIP)) {
        // SAFETY: the caller's promise, for a part of the index list.
        unsafe {
            match idx.len() {
                1 => int16_few::<1>(w, x, idx, out),
                2 => int16_few::<2>(w, x, idx, out),
                _ => int16_few::<3>(w, x, idx, out),
            }
        }
    }
}

/// # Safety
///
/// As the table asks, and `idx` has `T` entries.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn int8_few<const T: usize>(w: &Int8Strip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    let mut acc = [[_mm512_setzero_ps(); VECTORS]; T];
    for (block, tiles) in w
        .data
        .chunks(BLOCK / INT8_TILE_COLS * INT8_TILE_BYTES)
        .enumerate()
    {
        let count = tiles.len() / INT8_TILE_BYTES;
        // SAFETY: `count` tiles are there, and the planes hold whole blocks.
        let sums = unsafe { dots::<T, 1>(tiles.as_ptr(), count, x.planes(idx, block * BLOCK)) };
        for t in 0..T {
            let r = idx[t] as usize;
            let total = x.block_totals(r)[block];
            let scale = _mm512_set1_ps(x.scales(r)[block]);
            for v in 0..VECTORS {
                acc[t][v] = _mm512_fmadd_ps(centred(sums[t][0][v], total), scale, acc[t][v]);
            }
        }
    }
    for (t, acc) in acc.into_iter().enumerate() {
        for (v, acc) in acc.into_iter().enumerate() {
            // SAFETY: 64 row scales, and a slice of 16 values.
            unsafe {
                let alpha = _mm512_loadu_ps(w.scales.as_ptr().add(16 * v));
                _mm512_storeu_ps(
                    out[t * STRIP + 16 * v..][..16].as_mut_ptr(),
                    _mm512_mul_ps(acc, alpha),
                );
            }
        }
    }
}

/// # Safety
///
/// The CPU has this room's instruction set; lengths as the table asks.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn int8(w: &Int8Strip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    for (idx, out) in idx.chunks(3).zip(out.chunks_mut(3 * STRIP)) {
        // SAFETY: the caller's promise, for a part of the index list.
        unsafe {
            match idx.len() {
                1 => int8_few::<1>(w, x, idx, out),
                2 => int8_few::<2>(w, x, idx, out),
                _ => int8_few::<3>(w, x, idx, out),
            }
        }
    }
}
