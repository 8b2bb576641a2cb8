//! Activations to integers; see [`Rows::quantize`](crate::Rows::quantize) for what is promised.

use crate::data::rows::{BLOCK, INT8_MAX, INT16_MAX, QuantizeRow, SUM_GROUP};

/// Below this largest magnitude (2^-100) a row counts as zero, so that its reciprocal scale stays finite.
const TINY: f32 = f32::from_bits((127 - 100) << 23);

/// The scale of values to integers up to `max`, and its reciprocal; both 0 for tiny values, NaN for non-finite ones.
#[inline(always)]
fn scale(values: &[f32], max: i32) -> (f32, f32) {
    // Magnitudes compare like their bits, and infinities and NaN come out largest.
    let bits = values
        .iter()
        .fold(0u32, |m, v| m.max(v.to_bits() & 0x7fff_ffff));
    let largest = f32::from_bits(bits);
    if bits >= 0x7f80_0000 {
        (f32::NAN, 0.0)
    } else if largest < TINY {
        (0.0, 0.0)
    } else {
        (largest / max as f32, max as f32 / largest)
    }
}

/// Rounds to nearest, ties to even, for magnitudes below 2^22.
#[inline(always)]
fn round(value: f32) -> i32 {
    // Adding 1.5 * 2^23 leaves the integer in the low bits of the float.
    ((value + 12_582_912.0).to_bits() as i32).wrapping_sub(0x4b40_0000)
}

/// # Safety
///
/// None of its own; unsafe to fit the table.
#[inline(always)]
pub(crate) unsafe fn float(row: QuantizeRow<'_>) {
    for (sum, values) in row
        .value_sums
        .iter_mut()
        .zip(row.values.chunks_exact(SUM_GROUP))
    {
        *sum = values.iter().fold(0.0, |sum, v| sum + v);
    }
}

/// # Safety
///
/// None of its own; unsafe to fit the table.
#[inline(always)]
pub(crate) unsafe fn int16(row: QuantizeRow<'_>) {
    let (scale, reciprocal) = scale(row.values, INT16_MAX);
    row.scales[0] = scale;
    let (high, low) = row.planes.split_at_mut(row.plane_stride);
    let (mut high_total, mut total) = (0, 0);
    let groups = row.values.chunks_exact(SUM_GROUP).zip(row.sums);
    let planes = high
        .chunks_exact_mut(SUM_GROUP)
        .zip(low.chunks_exact_mut(SUM_GROUP));
    for ((values, sum), (high, low)) in groups.zip(planes) {
        let (mut high_sum, mut q_sum) = (0, 0);
        for c in 0..SUM_GROUP {
            // A non-finite value may become any integer here; the clamp keeps it in range, the NaN scale makes it known.
            let q = round(values[c] * reciprocal).clamp(-INT16_MAX, INT16_MAX);
            let h = (q + 64) >> 7;
            high[c] = h as i8;
            low[c] = (q - (h << 7)) as i8;
            high_sum += h;
            q_sum += q;
        }
        *sum = q_sum;
        high_total += high_sum;
        total += q_sum;
    }
    row.totals[0] = high_total;
    row.totals[1] = total;
}

/// # Safety
///
/// None of its own; unsafe to fit the table.
#[inline(always)]
pub(crate) unsafe fn int8(row: QuantizeRow<'_>) {
    let (values, planes) = (
        row.values.chunks_exact(BLOCK),
        row.planes.chunks_exact_mut(BLOCK),
    );
    let sums = row.sums.chunks_exact_mut(BLOCK / SUM_GROUP);
    let outs = row.scales.iter_mut().zip(row.totals);
    for (((values, plane), sums), (out, total)) in values.zip(planes).zip(sums).zip(outs) {
        let (scale, reciprocal) = scale(values, INT8_MAX);
        *out = scale;
        for (q, value) in plane.iter_mut().zip(values) {
            *q = round(value * reciprocal).clamp(-INT8_MAX, INT8_MAX) as i8;
        }
        let mut block_total = 0;
        for (sum, plane) in sums.iter_mut().zip(plane.chunks_exact(SUM_GROUP)) {
            *sum = plane.iter().map(|&q| i32::from(q)).sum();
            block_total += *sum;
        }
        *total = block_total;
    }
}
