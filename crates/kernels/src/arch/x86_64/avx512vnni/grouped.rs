//! Affine strips with 4-bit or 8-bit codes.

use super::vector::{Sums, VECTORS, broadcast, join, load, prefetch};
use crate::data::layout::{STRIP, ScaleFormat};
use crate::data::mat::GroupedStrip;
use crate::data::rows::{BLOCK, Rows, SUM_GROUP};
use std::arch::x86_64::*;

/// Bytes of a tile: 64 rows by 8 columns of 4 bits, or by 4 columns of 8 bits.
const TILE: usize = 256;

/// Sums of `code * q` over one group for `T` rows of activations in `P` planes.
///
/// # Safety
///
/// `count` tiles can be read at `tiles`, their columns at each of `x`; `BITS` is 4 or 8.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn dots<const BITS: usize, const T: usize, const P: usize>(
    tiles: *const u8,
    count: usize,
    x: &[[*const i8; P]; T],
) -> [[Sums; P]; T] {
    let mut sums = [[[_mm512_setzero_si512(); VECTORS]; P]; T];
    for t in 0..count {
        // SAFETY: `t` is below `count`.
        unsafe {
            let tile = tiles.add(t * TILE);
            let words: Sums = [load(tile, 0), load(tile, 1), load(tile, 2), load(tile, 3)];
            for f in 0..8 / BITS {
                for line in 0..BITS / 2 {
                    prefetch(tile, f * BITS / 2 + line);
                }
                let mut codes = words;
                for codes in &mut codes {
                    if f > 0 {
                        *codes = _mm512_srli_epi32::<4>(*codes);
                    }
                    if BITS == 4 {
                        *codes = _mm512_and_si512(*codes, _mm512_set1_epi8(15));
                    }
                }
                for (sums, x) in sums.iter_mut().zip(x) {
                    for (sums, x) in sums.iter_mut().zip(x) {
                        let q = broadcast(x.add((t * (8 / BITS) + f) * 4));
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

/// 16 scales (or biases) of a run; `upper` are the factors of two-level ones.
///
/// # Safety
///
/// The run holds 64 values of `format`, `upper` 64 floats if that has two levels; `v` is below 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn scales(run: *const u8, upper: *const u8, v: usize, format: ScaleFormat) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        match format {
            ScaleFormat::Bf16 => {
                let bits = _mm256_loadu_si256(run.add(32 * v).cast());
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
            }
            ScaleFormat::F32 => _mm512_loadu_ps(run.add(64 * v).cast()),
            ScaleFormat::TwoLevel => {
                let bytes = _mm_loadu_si128(run.add(16 * v).cast());
                let lower = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
                _mm512_mul_ps(_mm512_loadu_ps(upper.add(64 * v).cast()), lower)
            }
        }
    }
}

/// The product for `T` rows of activations in `P` planes.
///
/// # Safety
///
/// As the table asks; `idx` has `T` entries, `x` has `P` planes, and `BITS` is the strip's.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn few<const BITS: usize, const T: usize, const P: usize>(
    w: &GroupedStrip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    let size = w.layout.group;
    let count = size * BITS / 32;
    let scale_bytes = w.layout.scale_bytes();
    let mut acc = [[_mm512_setzero_ps(); VECTORS]; T];
    for (g, group) in w.data.chunks_exact(w.layout.group_bytes()).enumerate() {
        let planes = x.planes::<T, P>(idx, g * size);
        let run = group.as_ptr();
        let upper = w.head[w.layout.head_at(g)..].as_ptr();
        // SAFETY: a group holds two runs of scales, then `count` tiles; activations are padded to whole groups.
        let sums = unsafe { dots::<BITS, T, P>(run.add(2 * scale_bytes), count, &planes) };
        for v in 0..VECTORS {
            // The runs of scales lie in the same stream: 256 or 512 bytes.
            prefetch(run, v);
            if w.layout.scales == ScaleFormat::F32 {
                prefetch(run, VECTORS + v);
            }
            // SAFETY: as above.
            let (scale, bias) = unsafe {
                (
                    scales(run, upper, v, w.layout.scales),
                    scales(
                        run.add(scale_bytes),
                        upper.wrapping_add(4 * STRIP),
                        v,
                        w.layout.scales,
                    ),
                )
            };
            for t in 0..T {
                let r = idx[t] as usize;
                let total: i32 = x.sums(r)[g * size / SUM_GROUP..][..size / SUM_GROUP]
                    .iter()
                    .sum();
                let total = _mm512_set1_ps(total as f32);
                acc[t][v] = if P == 2 {
                    let dots = _mm512_cvtepi32_ps(join(sums[t][0][v], sums[t][P - 1][v]));
                    _mm512_fmadd_ps(bias, total, _mm512_fmadd_ps(scale, dots, acc[t][v]))
                } else {
                    let dots = _mm512_cvtepi32_ps(sums[t][0][v]);
                    let value = _mm512_fmadd_ps(scale, dots, _mm512_mul_ps(bias, total));
                    _mm512_fmadd_ps(
                        value,
                        _mm512_set1_ps(x.scales(r)[g * size / BLOCK]),
                        acc[t][v],
                    )
                };
            }
        }
    }
    for (t, acc) in acc.into_iter().enumerate() {
        for (v, acc) in acc.into_iter().enumerate() {
            let value = if P == 2 {
                _mm512_mul_ps(acc, _mm512_set1_ps(x.scales(idx[t] as usize)[0]))
            } else {
                acc
            };
            // SAFETY: the slice has 16 values.
            unsafe { _mm512_storeu_ps(out[t * STRIP + 16 * v..][..16].as_mut_ptr(), value) };
        }
    }
}

/// # Safety
///
/// As [`few`], for any number of rows of activations.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn any<const P: usize>(w: &GroupedStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    for (idx, out) in idx.chunks(2).zip(out.chunks_mut(2 * STRIP)) {
        // SAFETY: the caller's promise, for a part of the index list.
        unsafe {
            match (w.layout.bits, idx.len()) {
                (4, 1) => few::<4, 1, P>(w, x, idx, out),
                (4, _) => few::<4, 2, P>(w, x, idx, out),
                (_, 1) => few::<8, 1, P>(w, x, idx, out),
                _ => few::<8, 2, P>(w, x, idx, out),
            }
        }
    }
}

/// # Safety
///
/// The CPU has this room's instruction set; lengths as the table asks.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn int16(w: &GroupedStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { any::<2>(w, x, idx, out) }
}

/// # Safety
///
/// The CPU has this room's instruction set; lengths as the table asks.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn int8(w: &GroupedStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { any::<1>(w, x, idx, out) }
}
