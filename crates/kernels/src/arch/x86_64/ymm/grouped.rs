//! Affine strips with 4-bit or 8-bit codes: group by group, all rows of activations, 16 rows of weights at a time.

use super::vector::{Dot, broadcasts, join, load, prefetch};
use crate::data::layout::{STRIP, ScaleFormat};
use crate::data::mat::GroupedStrip;
use crate::data::rows::{BLOCK, Rows, SUM_GROUP};
use std::arch::x86_64::*;

/// Bytes of a tile: 64 rows by 8 columns of 4 bits, or by 4 columns of 8 bits.
const TILE: usize = 256;
/// Columns after which 16-bit sums of 4-bit codes are widened: 8 * 2 * 15 * 127 = 30480.
const WIDEN: usize = 32;

/// Sums of `code * q` for 16 rows over the `cols` columns of a group, with 4-bit codes.
///
/// # Safety
///
/// The CPU has what `D` needs; a group of `cols` columns can be read from `tiles` on, which points to the first byte of
/// the 16 rows; so can its columns at each of `x`.
#[inline(always)]
unsafe fn nibbles<D: Dot, const P: usize>(
    tiles: *const u8,
    cols: usize,
    x: [*const i8; P],
) -> [[__m256i; 2]; P] {
    // SAFETY: the caller's promise.
    unsafe {
        let fifteen = _mm256_set1_epi8(15);
        let mut sums = [[_mm256_setzero_si256(); 2]; P];
        for from in (0..cols).step_by(WIDEN) {
            let mut narrow = [[_mm256_setzero_si256(); 2]; P];
            for t in from / 8..(from + WIDEN) / 8 {
                let tile = tiles.add(t * TILE);
                prefetch(tile);
                let words = [load(tile), load(tile.add(32))];
                for f in 0..2 {
                    let q = broadcasts(x, 8 * t + 4 * f);
                    for v in 0..2 {
                        let shifted = if f == 0 {
                            words[v]
                        } else {
                            _mm256_srli_epi16::<4>(words[v])
                        };
                        let codes = _mm256_and_si256(shifted, fifteen);
                        for p in 0..P {
                            narrow[p][v] = D::add(narrow[p][v], codes, q[p]);
                        }
                    }
                }
            }
            for p in 0..P {
                for v in 0..2 {
                    sums[p][v] = _mm256_add_epi32(sums[p][v], D::widen(narrow[p][v]));
                }
            }
        }
        sums
    }
}

/// As [`nibbles`], with 8-bit codes; sums are centred if `D` centres.
///
/// # Safety
///
/// As [`nibbles`].
#[inline(always)]
unsafe fn bytes<D: Dot, const P: usize>(
    tiles: *const u8,
    cols: usize,
    x: [*const i8; P],
) -> [[__m256i; 2]; P] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[_mm256_setzero_si256(); 2]; P];
        for t in 0..cols / 4 {
            let tile = tiles.add(t * TILE);
            prefetch(tile);
            let q = broadcasts(x, 4 * t);
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

/// 8 scales (or biases) of a run, from row `at` on; `upper` are the factors of two-level ones.
///
/// # Safety
///
/// The CPU has AVX2; the run holds 64 values of `format`, `upper` 64 floats if that has two levels; `at` is at most 56.
#[inline(always)]
unsafe fn scales(run: *const u8, upper: *const u8, at: usize, format: ScaleFormat) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe {
        match format {
            ScaleFormat::Bf16 => {
                let bits = _mm_loadu_si128(run.add(2 * at).cast());
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
            }
            ScaleFormat::F32 => _mm256_loadu_ps(run.add(4 * at).cast()),
            ScaleFormat::TwoLevel => {
                let bytes = _mm_loadl_epi64(run.add(at).cast());
                let lower = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
                _mm256_mul_ps(_mm256_loadu_ps(upper.add(4 * at).cast()), lower)
            }
        }
    }
}

/// The product with activations in `P` planes.
///
/// # Safety
///
/// The CPU has what `D` needs; lengths as the table asks; `x` has `P` planes.
#[inline(always)]
pub(in crate::arch::x86_64) unsafe fn any<D: Dot, const P: usize>(
    w: &GroupedStrip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    let size = w.layout.group;
    let (format, scale_bytes) = (w.layout.scales, w.layout.scale_bytes());
    for (g, group) in w.data.chunks_exact(w.layout.group_bytes()).enumerate() {
        let run = group.as_ptr();
        let upper = w.head[w.layout.head_at(g)..].as_ptr();
        for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
            let [planes] = x.planes::<1, P>(&[r], g * size);
            let r = r as usize;
            let total: i32 = x.sums(r)[g * size / SUM_GROUP..][..size / SUM_GROUP]
                .iter()
                .sum();
            let scale = if P == 2 {
                1.0
            } else {
                x.scales(r)[g * size / BLOCK]
            };
            for at in (0..STRIP).step_by(16) {
                // SAFETY: a group holds two runs of scales, then the tiles, in which 16 rows take 64 bytes; activations
                // are padded to whole groups; `out` holds 64 values.
                unsafe {
                    prefetch(run.wrapping_add(4 * at));
                    if format == ScaleFormat::F32 {
                        prefetch(run.wrapping_add(4 * at + 256));
                    }
                    let tiles = run.add(2 * scale_bytes + 4 * at);
                    let sums = if w.layout.bits == 4 {
                        nibbles::<D, P>(tiles, size, planes)
                    } else {
                        bytes::<D, P>(tiles, size, planes)
                    };
                    for v in 0..2 {
                        let mut dots = if P == 2 {
                            join(sums[0][v], sums[P - 1][v])
                        } else {
                            sums[0][v]
                        };
                        if w.layout.bits == 8 && D::CENTRED {
                            dots = _mm256_add_epi32(dots, _mm256_set1_epi32(total << 7));
                        }
                        let dots = _mm256_cvtepi32_ps(dots);
                        let total = _mm256_set1_ps(total as f32);
                        let weight = scales(run, upper, at + 8 * v, format);
                        let upper_bias = upper.wrapping_add(4 * STRIP);
                        let bias = scales(run.add(scale_bytes), upper_bias, at + 8 * v, format);
                        let to = out.as_mut_ptr().add(at + 8 * v);
                        let before = if g == 0 {
                            _mm256_setzero_ps()
                        } else {
                            _mm256_loadu_ps(to)
                        };
                        let value = if P == 2 {
                            _mm256_fmadd_ps(bias, total, _mm256_fmadd_ps(weight, dots, before))
                        } else {
                            let value = _mm256_fmadd_ps(weight, dots, _mm256_mul_ps(bias, total));
                            _mm256_fmadd_ps(value, _mm256_set1_ps(scale), before)
                        };
                        _mm256_storeu_ps(to, value);
                    }
                }
            }
        }
    }
    if P == 2 {
        for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
            let scale = x.scales(r as usize)[0];
            out.iter_mut().for_each(|out| *out *= scale);
        }
    }
}
