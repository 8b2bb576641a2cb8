//! Products with plain float weights.
//!
//! 32 partial sums over the columns modulo 32, fused multiply-adds in order, then a fixed tree: lanes 16 apart, 8, 4, 2, 1.
//! A last part of fewer than 32 columns is padded with zeros. Rows of weights and of activations are tiled in registers,
//! which changes nothing in that order.

use super::lanes::{LANES, Lanes};
use crate::arch::parts::even_parts;
use crate::arch::prefetch::prefetch;
use crate::data::layout::STRIP;
use crate::data::mat::{DenseData, DenseStrip};
use crate::data::rows::Rows;

/// Columns of one step: two vectors.
const STEP: usize = 2 * LANES;

/// How a format of weights gets into lanes.
trait Element: Copy {
    const ZERO: Self;

    /// # Safety
    /// The instruction set of `L` must be available; `p` readable for sixteen values.
    unsafe fn load<L: Lanes>(p: *const Self) -> L;
}

#[derive(Clone, Copy)]
#[repr(transparent)]
struct Bf16(u16);

#[derive(Clone, Copy)]
#[repr(transparent)]
struct F16(u16);

impl Element for Bf16 {
    const ZERO: Self = Bf16(0);

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const Self) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load_bf16(p.cast()) }
    }
}

impl Element for F16 {
    const ZERO: Self = F16(0);

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const Self) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load_f16(p.cast()) }
    }
}

impl Element for f32 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const Self) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load(p) }
    }
}

/// The product of a strip of float weights; see [`strip_product`](crate::strip_product).
///
/// # Safety
/// The instruction set of `L` must be available; `out` holds 64 values for each entry of `idx`, whose entries are rows of `x`,
/// and those have `w.cols` columns.
#[inline(always)]
pub(crate) unsafe fn dense<L: Lanes>(w: &DenseStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    // SAFETY: the caller's promise; the formats are transparent over their bits.
    unsafe {
        match w.data {
            DenseData::Bf16(values) => products::<L, Bf16>(values.as_ptr().cast(), w, x, idx, out),
            DenseData::F16(values) => products::<L, F16>(values.as_ptr().cast(), w, x, idx, out),
            DenseData::F32(values) => products::<L, f32>(values.as_ptr(), w, x, idx, out),
        }
    }
}

/// # Safety
/// As [`dense`]; `values` are those of `w`.
#[inline(always)]
unsafe fn products<L: Lanes, E: Element>(
    values: *const E,
    w: &DenseStrip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    for part in even_parts(idx.len(), 3) {
        let out = &mut out[STRIP * part.start..STRIP * part.end];
        let idx = &idx[part];
        // SAFETY: the caller's promise, for a part of the index list.
        unsafe {
            match (L::WIDE, idx.len()) {
                (true, 3) => tiles::<L, E, 4, 3>(values, w, x, idx, out),
                (true, 2) => tiles::<L, E, 4, 2>(values, w, x, idx, out),
                (true, _) => tiles::<L, E, 4, 1>(values, w, x, idx, out),
                (false, 3) => tiles::<L, E, 1, 3>(values, w, x, idx, out),
                (false, 2) => tiles::<L, E, 1, 2>(values, w, x, idx, out),
                (false, _) => tiles::<L, E, 2, 1>(values, w, x, idx, out),
            }
        }
        for out in out.chunks_exact_mut(STRIP) {
            out[w.rows..].fill(0.0);
        }
    }
}

/// All rows of the strip for `T` rows of activations, `R` at a time.
///
/// # Safety
/// As [`products`], and `idx` has `T` entries.
#[inline(always)]
unsafe fn tiles<L: Lanes, E: Element, const R: usize, const T: usize>(
    values: *const E,
    w: &DenseStrip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    let x: [*const f32; T] = std::array::from_fn(|t| x.values(idx[t] as usize).as_ptr());
    let whole = w.rows / R * R;
    let mut j = 0;
    while j < w.rows {
        // SAFETY: rows `j` and the `R - 1` after it (or row `j` alone) are in the strip.
        unsafe {
            if j < whole {
                let sums = tile::<L, E, R, T>(values.add(j * w.cols), w.cols, x);
                for (r, sums) in sums.into_iter().enumerate() {
                    for (t, sum) in sums.into_iter().enumerate() {
                        out[t * STRIP + j + r] = sum;
                    }
                }
                j += R;
            } else {
                let [sums] = tile::<L, E, 1, T>(values.add(j * w.cols), w.cols, x);
                for (t, sum) in sums.into_iter().enumerate() {
                    out[t * STRIP + j] = sum;
                }
                j += 1;
            }
        }
    }
}

/// `R` consecutive rows of weights times `T` rows of activations.
///
/// # Safety
/// As [`products`]: `R` rows of `cols` weights at `w`; `cols` values, padded with zeros to a whole step, at each of `x`.
#[inline(always)]
unsafe fn tile<L: Lanes, E: Element, const R: usize, const T: usize>(
    w: *const E,
    cols: usize,
    x: [*const f32; T],
) -> [[f32; T]; R] {
    // SAFETY: every load is a whole step within the row, or from the padded copy of its last part.
    unsafe {
        let mut sums = [[[L::splat(0.0); 2]; T]; R];
        let whole = cols / STEP * STEP;
        let mut from = 0;
        while from < whole {
            for (r, sums) in sums.iter_mut().enumerate() {
                let at = w.add(r * cols + from);
                // The rows that come next, into the second-level cache.
                prefetch(at.wrapping_add(R * cols).cast());
                step::<L, E, T>(at, x, from, sums);
            }
            from += STEP;
        }
        if whole < cols {
            for (r, sums) in sums.iter_mut().enumerate() {
                let mut last = [E::ZERO; STEP];
                std::ptr::copy_nonoverlapping(
                    w.add(r * cols + whole),
                    last.as_mut_ptr(),
                    cols - whole,
                );
                step::<L, E, T>(last.as_ptr(), x, whole, sums);
            }
        }
        // Loops, not `map`: closures are compiled apart, without the instruction set.
        let mut out = [[0.0; T]; R];
        for (out, sums) in out.iter_mut().zip(&sums) {
            for (out, [a, b]) in out.iter_mut().zip(sums) {
                *out = a.add(*b).sum();
            }
        }
        out
    }
}

/// 32 columns of one row of weights.
///
/// # Safety
/// As [`tile`]: 32 weights at `w`, and 32 values from `from` on at each of `x`.
#[inline(always)]
unsafe fn step<L: Lanes, E: Element, const T: usize>(
    w: *const E,
    x: [*const f32; T],
    from: usize,
    sums: &mut [[L; 2]; T],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let weights: [L; 2] = [E::load(w), E::load(w.add(LANES))];
        for (sums, x) in sums.iter_mut().zip(x) {
            for (half, sum) in sums.iter_mut().enumerate() {
                *sum = weights[half].fma(L::load(x.add(from + LANES * half)), *sum);
            }
        }
    }
}
