//! Ternary codes, 2 bits each: `w = scale[row] * (code - 1)`, code in {0, 1, 2}.
//!
//! A tile holds 64 rows by 16 columns in 256 bytes; bits `2f, 2f + 1` of byte `4 * row + i` hold column `4 f + i`.

use super::strip::{STRIP, strips};

/// Columns of a ternary tile.
pub const TERNARY_TILE_COLS: usize = 16;
/// Bytes of a ternary tile.
pub const TERNARY_TILE_BYTES: usize = 256;

/// Bytes of one strip of `cols` columns.
pub const fn ternary_strip_bytes(cols: usize) -> usize {
    cols.div_ceil(TERNARY_TILE_COLS) * TERNARY_TILE_BYTES
}

/// Bytes of a matrix.
pub const fn ternary_bytes(rows: usize, cols: usize) -> usize {
    strips(rows) * ternary_strip_bytes(cols)
}

/// Swaps the roles of byte and field: bits `2 (4 f + i)` go to bits `8 i + 2 f` (a transposed 4 x 4 matrix of codes).
/// It is its own inverse.
#[inline(always)]
fn transpose(word: u32) -> u32 {
    let swap = |word: u32, mask: u32, shift: u32| {
        let moved = (word ^ word >> shift) & mask;
        word ^ moved ^ moved << shift
    };
    // Exchange the off-diagonal codes of every 2 x 2 block, then the off-diagonal 2 x 2 blocks.
    let word = swap(word, 0x00cc_00cc, 6);
    swap(word, 0x0000_f0f0, 12)
}

#[inline(always)]
fn word_at(row: usize, cols: usize, tile: usize) -> usize {
    row / STRIP * ternary_strip_bytes(cols) + tile * TERNARY_TILE_BYTES + row % STRIP * 4
}

/// Writes the codes of one row into `tiles`, the bytes of the whole matrix (or of a run of whole strips, with `row`
/// counted from their first). Padding columns get code 0. Panics when lengths do not fit.
pub fn pack_ternary_row(tiles: &mut [u8], cols: usize, row: usize, codes: &[u8]) {
    assert_eq!(codes.len(), cols, "codes of a row of {cols} columns");
    debug_assert!(
        codes.iter().all(|&code| code < 3),
        "ternary codes are 0, 1 and 2"
    );
    for (tile, codes) in codes.chunks(TERNARY_TILE_COLS).enumerate() {
        let mut padded = [0u8; TERNARY_TILE_COLS];
        padded[..codes.len()].copy_from_slice(codes);
        let mut word = 0u32;
        for f in 0..4 {
            let four = [
                padded[4 * f],
                padded[4 * f + 1],
                padded[4 * f + 2],
                padded[4 * f + 3],
            ];
            word |= u32::from_le_bytes(four) << (2 * f);
        }
        tiles[word_at(row, cols, tile)..][..4].copy_from_slice(&word.to_le_bytes());
    }
}

/// Writes one row from words of 16 codes along the columns, the first in the lowest bits (the order of MLX). Codes of
/// padding columns are kept, and never matter. Panics when lengths do not fit.
pub fn pack_ternary_words(
    tiles: &mut [u8],
    cols: usize,
    row: usize,
    words: impl ExactSizeIterator<Item = u32>,
) {
    assert_eq!(
        words.len(),
        cols.div_ceil(TERNARY_TILE_COLS),
        "words of a row of {cols} columns"
    );
    for (tile, word) in words.enumerate() {
        tiles[word_at(row, cols, tile)..][..4].copy_from_slice(&transpose(word).to_le_bytes());
    }
}

/// Reads the codes of one row back; see [`pack_ternary_row`].
pub fn unpack_ternary_row(tiles: &[u8], cols: usize, row: usize, codes: &mut [u8]) {
    assert_eq!(codes.len(), cols, "codes of a row of {cols} columns");
    for (tile, codes) in codes.chunks_mut(TERNARY_TILE_COLS).enumerate() {
        let at = word_at(row, cols, tile);
        let word = transpose(u32::from_le_bytes([
            tiles[at],
            tiles[at + 1],
            tiles[at + 2],
            tiles[at + 3],
        ]));
        for (c, code) in codes.iter_mut().enumerate() {
            *code = (word >> (2 * c) & 3) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_lies_where_the_layout_says() {
        let (rows, cols) = (130, 37);
        let mut tiles = vec![0; ternary_bytes(rows, cols)];
        assert_eq!(tiles.len(), 3 * 3 * 256);
        let mut codes = vec![0; cols];
        codes[16 + 4 * 2 + 3] = 2;
        pack_ternary_row(&mut tiles, cols, 64 + 5, &codes);
        // Second strip, second tile, row 5, byte 3, field 2.
        let expected = 3 * 256 + 256 + 4 * 5 + 3;
        for (at, &byte) in tiles.iter().enumerate() {
            assert_eq!(byte, if at == expected { 2 << 4 } else { 0 }, "byte {at}");
        }
    }

    #[test]
    fn rows_come_back_and_words_give_the_same_tiles() {
        let (rows, cols) = (70, 53);
        let (mut by_codes, mut by_words) = (
            vec![0; ternary_bytes(rows, cols)],
            vec![0; ternary_bytes(rows, cols)],
        );
        let code = |r: usize, c: usize| ((r * 31 + c * 7 + r * c) % 3) as u8;
        for r in 0..rows {
            let codes: Vec<u8> = (0..cols).map(|c| code(r, c)).collect();
            pack_ternary_row(&mut by_codes, cols, r, &codes);
            let words: Vec<u32> = codes
                .chunks(16)
                .map(|codes| {
                    codes
                        .iter()
                        .enumerate()
                        .map(|(c, &code)| u32::from(code) << (2 * c))
                        .sum()
                })
                .collect();
            pack_ternary_words(&mut by_words, cols, r, words.into_iter());
        }
        assert_eq!(by_codes, by_words);
        for r in 0..rows {
            let mut codes = vec![9; cols];
            unpack_ternary_row(&by_codes, cols, r, &mut codes);
            assert!(
                codes
                    .iter()
                    .enumerate()
                    .all(|(c, &found)| found == code(r, c)),
                "row {r}"
            );
        }
    }
}
