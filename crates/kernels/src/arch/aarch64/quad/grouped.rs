//! Affine strips with 4-bit or 8-bit codes: group by group, all rows of activations, 16 rows of weights at a time.

use super::vector::{Dot, join, load, load_x, prefetch};
use crate::data::layout::{STRIP, ScaleFormat};
use crate::data::mat::GroupedStrip;
use crate::data::rows::{BLOCK, Rows, SUM_GROUP};
use std::arch::aarch64::*;

/// Bytes of a tile: 64 rows by 8 columns of 4 bits, or by 4 columns of 8 bits.
const TILE: usize = 256;
/// Columns after which 16-bit sums of 4-bit codes are widened: 8 * 15 * 127 = 15240.
const WIDEN: usize = 32;
/// Vectors of 4 rows at a time.
const V: usize = 4;

/// Sums of `code * q` for 16 rows over the `cols` columns of a group, with 4-bit codes.
///
/// # Safety
///
/// The CPU has what `D` needs; a group of `cols` columns can be read from `tiles` on, which points to the first byte of the
/// 16 rows; so can its columns at each of `x`.
#[inline(always)]
unsafe fn nibbles<D: Dot, const P: usize>(
    tiles: *const u8,
    cols: usize,
    x: [*const i8; P],
) -> [[int32x4_t; V]; P] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[vdupq_n_s32(0); V]; P];
        for from in (0..cols).step_by(WIDEN) {
            let mut narrow = [[D::zero(); V]; P];
            // Two tiles are 16 columns.
            for pair in from / 16..(from + WIDEN) / 16 {
                let at = tiles.add(pair * 2 * TILE);
                prefetch(at);
                prefetch(at.wrapping_add(TILE));
                for p in 0..P {
                    let q = load_x(x[p].add(16 * pair));
                    for v in 0..V {
                        let (first, second) = (load(at.add(16 * v)), load(at.add(TILE + 16 * v)));
                        let mut sum = narrow[p][v];
                        sum = D::add::<0>(
                            sum,
                            vreinterpretq_s8_u8(vandq_u8(first, vdupq_n_u8(15))),
                            q,
                        );
                        sum = D::add::<1>(sum, vreinterpretq_s8_u8(vshrq_n_u8::<4>(first)), q);
                        sum = D::add::<2>(
                            sum,
                            vreinterpretq_s8_u8(vandq_u8(second, vdupq_n_u8(15))),
                            q,
                        );
                        narrow[p][v] =
                            D::add::<3>(sum, vreinterpretq_s8_u8(vshrq_n_u8::<4>(second)), q);
                    }
                }
            }
            for p in 0..P {
                for v in 0..V {
                    sums[p][v] = vaddq_s32(sums[p][v], D::widen(narrow[p][v]));
                }
            }
        }
        sums
    }
}

/// Sums of `(code - 128) * q` for 16 rows over `cols` columns (a multiple of 16), with 8-bit codes in tiles of 4 columns.
///
/// # Safety
///
/// As [`nibbles`].
#[inline(always)]
pub(super) unsafe fn bytes<D: Dot, const P: usize>(
    tiles: *const u8,
    cols: usize,
    x: [*const i8; P],
) -> [[int32x4_t; V]; P] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut wide = [[D::zero_wide(); V]; P];
        let flip = vdupq_n_u8(128);
        // Four tiles are 16 columns.
        for four in 0..cols / 16 {
            let at = tiles.add(four * 4 * TILE);
            for tile in 0..4 {
                prefetch(at.wrapping_add(tile * TILE));
            }
            for p in 0..P {
                let q = load_x(x[p].add(16 * four));
                for v in 0..V {
                    let code = |tile: usize| {
                        vreinterpretq_s8_u8(veorq_u8(load(at.add(tile * TILE + 16 * v)), flip))
                    };
                    let mut sum = wide[p][v];
                    sum = D::add_wide::<0>(sum, code(0), q);
                    sum = D::add_wide::<1>(sum, code(1), q);
                    sum = D::add_wide::<2>(sum, code(2), q);
                    wide[p][v] = D::add_wide::<3>(sum, code(3), q);
                }
            }
        }
        let mut sums = [[vdupq_n_s32(0); V]; P];
        for p in 0..P {
            for v in 0..V {
                sums[p][v] = D::finish(wide[p][v]);
            }
        }
        sums
    }
}

/// 4 scales (or biases) of a run, from row `at` on; `upper` are the factors of two-level ones.
///
/// # Safety
///
/// The run holds 64 values of `format`, `upper` 64 floats if that has two levels; `at` is at most 60.
#[inline(always)]
unsafe fn scales(run: *const u8, upper: *const u8, at: usize, format: ScaleFormat) -> float32x4_t {
    // SAFETY: the caller's promise.
    unsafe {
        match format {
            ScaleFormat::Bf16 => {
                let bits = vreinterpret_u16_u8(vld1_u8(run.add(2 * at)));
                vreinterpretq_f32_u32(vshll_n_u16::<16>(bits))
            }
            ScaleFormat::F32 => vreinterpretq_f32_u8(load(run.add(4 * at))),
            ScaleFormat::TwoLevel => {
                let bytes = vcreate_s8(u64::from(run.add(at).cast::<u32>().read_unaligned()));
                let lower = vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
                vmulq_f32(vreinterpretq_f32_u8(load(upper.add(4 * at))), lower)
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
pub(in crate::arch::aarch64) unsafe fn any<D: Dot, const P: usize>(
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
            for at in (0..STRIP).step_by(4 * V) {
                // SAFETY: a group holds two runs of scales, then the tiles, in which 4 rows take 16 bytes; activations are
                // padded to whole groups; `out` holds 64 values.
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
                    for v in 0..V {
                        let mut dots = if P == 2 {
                            join(sums[0][v], sums[P - 1][v])
                        } else {
                            sums[0][v]
                        };
                        if w.layout.bits == 8 {
                            // Those sums are of centred codes.
                            dots = vaddq_s32(dots, vdupq_n_s32(total << 7));
                        }
                        let dots = vcvtq_f32_s32(dots);
                        let total = vdupq_n_f32(total as f32);
                        let weight = scales(run, upper, at + 4 * v, format);
                        let upper_bias = upper.wrapping_add(4 * STRIP);
                        let bias = scales(run.add(scale_bytes), upper_bias, at + 4 * v, format);
                        let to = out.as_mut_ptr().add(at + 4 * v);
                        let before = if g == 0 {
                            vdupq_n_f32(0.0)
                        } else {
                            vld1q_f32(to)
                        };
                        let value = if P == 2 {
                            vfmaq_f32(vfmaq_f32(before, weight, dots), bias, total)
                        } else {
                            let value = vfmaq_f32(vmulq_f32(bias, total), weight, dots);
                            vfmaq_f32(before, value, vdupq_n_f32(scale))
                        };
                        vst1q_f32(to, value);
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
