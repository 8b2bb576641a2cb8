//! The portable code, compiled for this instruction set.

use crate::arch::scalar;
use crate::mat::DenseStrip;
use crate::rows::Rows;

/// # Safety
///
/// The CPU has this room's instruction set; lengths as the table asks.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
pub(super) unsafe fn float(w: &DenseStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { scalar::dense::float(w, x, idx, out) }
}
