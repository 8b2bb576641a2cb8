//! 8-bit codes with one scale a row: `w = scale[row] * (code - 128)`, code in 1..=255.
//!
//! A tile holds 64 rows by 4 columns in 256 bytes: byte `4 * row + i` is column `i`. Padding columns hold code 128.

use super::strip::{STRIP, strips};

/// Columns of an 8-bit tile.
pub const INT8_TILE_COLS: usize = 4;
/// Bytes of an 8-bit tile.
pub const INT8_TILE_BYTES: usize = 256;

/// Bytes of one strip of `cols` columns.
pub const fn int8_strip_bytes(cols: usize) -> usize {
    cols.div_ceil(INT8_TILE_COLS) * INT8_TILE_BYTES
}

/// Bytes of a matrix.
pub const fn int8_bytes(rows: usize, cols: usize) -> usize {
    strips(rows) * int8_strip_bytes(cols)
}

/// What [`pack_int8_row`] says about the row it rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Int8RowStats {
    /// The row's scale, `max|w| / 127`; 0 for a row of zeros.
    pub scale: f32,
    /// An upper bound, tight to a few parts in 2^24, of the Euclidean norm of `w - scale * (code - 128)`.
    pub error_norm: f32,
}

/// Rounds one row of weights to nearest and writes it into `data`, the bytes of the whole matrix (or of a run of whole
/// strips, with `row` counted from their first). Weights must be finite. Panics when lengths do not fit.
pub fn pack_int8_row(data: &mut [u8], cols: usize, row: usize, weights: &[f32]) -> Int8RowStats {
    assert_eq!(weights.len(), cols, "weights of a row of {cols} columns");
    let strip = &mut data[row / STRIP * int8_strip_bytes(cols)..][..int8_strip_bytes(cols)];
    let j = row % STRIP;
    let largest = weights.iter().fold(0f32, |m, w| m.max(w.abs()));
    let scale = largest / 127.0;
    let mut squares = 0f64;
    for (tile, weights) in weights.chunks(INT8_TILE_COLS).enumerate() {
        let mut codes = [128u8; INT8_TILE_COLS];
        for (code, &w) in codes.iter_mut().zip(weights) {
            // A scale that underflows to 0 leaves the whole weight as error.
            let q = if scale > 0.0 {
                (w / scale).round_ties_even().clamp(-127.0, 127.0)
            } else {
                0.0
            };
            *code = (q as i32 + 128) as u8;
            let error = f64::from(w) - f64::from(scale) * f64::from(q);
            squares += error * error;
        }
        strip[tile * INT8_TILE_BYTES + 4 * j..][..4].copy_from_slice(&codes);
    }
    // Each difference is exact in f64, so only the sum and the root round: far less than the margin taken here.
    let norm = squares.sqrt() * (1.0 + 1e-9);
    let mut error_norm = norm as f32;
    if f64::from(error_norm) < norm {
        error_norm = error_norm.next_up();
    }
    Int8RowStats { scale, error_norm }
}

/// Reads the integers `code - 128` of one row back.
pub fn unpack_int8_row(data: &[u8], cols: usize, row: usize, out: &mut [i8]) {
    assert_eq!(out.len(), cols, "values of a row of {cols} columns");
    let strip = &data[row / STRIP * int8_strip_bytes(cols)..][..int8_strip_bytes(cols)];
    for (c, out) in out.iter_mut().enumerate() {
        let byte =
            strip[c / INT8_TILE_COLS * INT8_TILE_BYTES + 4 * (row % STRIP) + c % INT8_TILE_COLS];
        *out = (i16::from(byte) - 128) as i8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_errors_are_bounded_by_what_is_said() {
        let (rows, cols) = (66, 45);
        let mut data = vec![0; int8_bytes(rows, cols)];
        for r in 0..rows {
            let size = if r == 7 { 0.0 } else { 0.01 * (r + 1) as f32 };
            let weights: Vec<f32> = (0..cols)
                .map(|c| ((r * 37 + c * 11) as f32).sin() * size)
                .collect();
            let stats = pack_int8_row(&mut data, cols, r, &weights);
            let mut codes = vec![0; cols];
            unpack_int8_row(&data, cols, r, &mut codes);
            let mut squares = 0.0;
            for (&w, &q) in weights.iter().zip(&codes) {
                let error = f64::from(w) - f64::from(stats.scale) * f64::from(q);
                assert!(error.abs() <= f64::from(stats.scale) * 0.500001, "row {r}");
                squares += error * error;
            }
            assert!(squares.sqrt() <= f64::from(stats.error_norm), "row {r}");
            assert!(
                f64::from(stats.error_norm) <= squares.sqrt() * 1.000001,
                "row {r}"
            );
        }
    }

    #[test]
    fn tiny_rows_keep_an_honest_error() {
        let mut data = vec![0; int8_bytes(1, 4)];
        let w = f32::from_bits(3);
        let stats = pack_int8_row(&mut data, 4, 0, &[w, -w, 0.0, w]);
        assert!(f64::from(stats.error_norm) >= f64::from(w) * 3f64.sqrt() || stats.scale > 0.0);
    }
}
