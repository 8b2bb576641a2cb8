//! Float strips: 32 partial sums over the columns modulo 32, fused multiply-adds in order, then a fixed tree.

use crate::half::{bf16_to_f32, f16_to_f32};
use crate::layout::STRIP;
use crate::mat::{DenseData, DenseStrip};
use crate::rows::Rows;

/// Partial sums of a row.
const LANES: usize = 32;

/// # Safety
///
/// Lengths as the table asks.
#[inline(always)]
pub(crate) unsafe fn float(w: &DenseStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    match w.data {
        DenseData::Bf16(values) => products(w, values, bf16_to_f32, x, idx, out),
        DenseData::F16(values) => products(w, values, f16_to_f32, x, idx, out),
        DenseData::F32(values) => products(w, values, |w| w, x, idx, out),
    }
}

#[inline(always)]
fn products<T: Copy>(
    w: &DenseStrip<'_>,
    values: &[T],
    widen: impl Fn(T) -> f32 + Copy,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        for (j, out) in out.iter_mut().enumerate() {
            let row = if j < w.rows {
                &values[j * w.cols..][..w.cols]
            } else {
                &[]
            };
            *out = dot(row, widen, x.row(r as usize));
        }
    }
}

#[inline(always)]
fn dot<T: Copy>(w: &[T], widen: impl Fn(T) -> f32 + Copy, x: &[f32]) -> f32 {
    let mut acc = [0f32; LANES];
    let (whole, rest) = w.split_at(w.len() / LANES * LANES);
    for (w, x) in whole.chunks_exact(LANES).zip(x.chunks_exact(LANES)) {
        for l in 0..LANES {
            acc[l] = widen(w[l]).mul_add(x[l], acc[l]);
        }
    }
    for ((&w, &x), acc) in rest.iter().zip(&x[whole.len()..]).zip(&mut acc) {
        *acc = widen(w).mul_add(x, *acc);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            acc[l] += acc[l + width];
        }
        width /= 2;
    }
    acc[0]
}
