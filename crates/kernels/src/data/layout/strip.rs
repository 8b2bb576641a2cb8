//! Strips: how many rows go together.

/// Rows of a strip. The rows of every matrix are handled in strips of 64; the last one is padded.
pub const STRIP: usize = 64;

/// Strips that hold `rows` rows.
pub const fn strips(rows: usize) -> usize {
    rows.div_ceil(STRIP)
}

/// Scales kept for `rows` rows: one a row, the last strip padded with zeros.
pub const fn padded_rows(rows: usize) -> usize {
    strips(rows) * STRIP
}
