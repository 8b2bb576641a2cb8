//! The portable code, compiled for this instruction set.

use crate::arch::scalar;
use crate::rows::QuantizeRow;

/// # Safety
///
/// The CPU has this room's instruction set.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn float(row: QuantizeRow<'_>) {
    // SAFETY: no further demands.
    unsafe { scalar::quantize::float(row) }
}

/// # Safety
///
/// The CPU has this room's instruction set.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn int16(row: QuantizeRow<'_>) {
    // SAFETY: no further demands.
    unsafe { scalar::quantize::int16(row) }
}

/// # Safety
///
/// The CPU has this room's instruction set.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn int8(row: QuantizeRow<'_>) {
    // SAFETY: no further demands.
    unsafe { scalar::quantize::int8(row) }
}
