//! The one product: a strip of weights with some rows of activations.

use crate::arch::prefetch::prefetch;
use crate::data::layout::STRIP;
use crate::data::mat::Mat;
use crate::data::rows::{Precision, Rows};
use crate::dispatch::Kernels;

/// Multiplies 64 rows of `w` with the rows `idx` of `x`: `out[i * 64 + j]` becomes the dot product of row
/// `64 * strip + j` of `w` with row `idx[i]` of `x`. Beyond the last row of `w` the result is zero.
///
/// One row is the matrix-vector product of decoding, many are the matrix product of prefill; the result for a pair of
/// rows does not depend on which, nor on the instruction set. With `Int16` or `Int8` activations, ternary, affine and
/// 8-bit weights use exact integer sums of the quantised planes; float weights always use the `f32` values.
///
/// The bytes after the strip are prefetched: walk strips in order.
///
/// # Panics
///
/// When the matrix does not fit its shape, columns differ, `strip` or an index is out of range, or `out` does not hold
/// 64 values for each index.
pub fn strip_product(
    kernels: &Kernels,
    w: &Mat<'_>,
    strip: usize,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    if let Err(error) = w.check() {
        panic!("{error}");
    }
    assert_eq!(
        w.cols(),
        x.cols(),
        "columns of the weights and of the activations"
    );
    assert!(strip < w.strips(), "strip {strip} of {}", w.strips());
    assert_eq!(
        out.len(),
        idx.len() * STRIP,
        "64 results for each row of activations"
    );
    assert!(
        idx.iter().all(|&r| (r as usize) < x.len()),
        "a row index beyond the {} rows",
        x.len()
    );
    macro_rules! by_precision {
        ($table:ident, $strip:expr) => {{
            let product = match x.precision() {
                Precision::F32 => kernels.$table.float,
                Precision::Int16 => kernels.$table.int16,
                Precision::Int8 => kernels.$table.int8,
            };
            // SAFETY: a table is only handed out on CPUs that can run it, and the lengths were checked above.
            unsafe { product(&$strip, x, idx, out) }
        }};
    }
    match w {
        Mat::Ternary(m) => by_precision!(ternary, m.strip(strip)),
        Mat::Grouped(m) => by_precision!(grouped, m.strip(strip)),
        Mat::Int8(m) => by_precision!(int8, m.strip(strip)),
        // SAFETY: as above.
        Mat::Dense(m) => unsafe { (kernels.float.dense)(&m.strip(strip), x, idx, out) },
    }
}

/// How much of a strip [`prefetch_strip`] asks for, in bytes: as far as the products prefetch ahead of themselves.
const BEGINNING: usize = 8192;

/// Asks for the beginning of a strip that will soon be multiplied, so that its memory arrives while something else is computed.
/// A strip that `w` does not have is ignored.
pub fn prefetch_strip(w: &Mat<'_>, strip: usize) {
    let bytes = w.strip_bytes(strip);
    for line in bytes[..bytes.len().min(BEGINNING)].chunks(64) {
        prefetch(line.as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::mat::{Dense, DenseData, Ternary};

    #[test]
    fn strips_that_are_not_there_are_no_error() {
        let ternary = Mat::Ternary(Ternary {
            rows: 65,
            cols: 32,
            tiles: &[0x55; 1024],
            scales: &[1.0; 128],
        });
        let dense = Mat::Dense(Dense {
            rows: 65,
            cols: 3,
            data: DenseData::Bf16(&[0; 195]),
        });
        let lengths = |w: &Mat<'_>| [0, 1, 2, usize::MAX].map(|strip| w.strip_bytes(strip).len());
        assert_eq!(lengths(&ternary), [512, 512, 0, 0]);
        assert_eq!(lengths(&dense), [384, 6, 0, 0]);
        prefetch_strip(&ternary, 1);
        prefetch_strip(&ternary, 2);
    }
}
