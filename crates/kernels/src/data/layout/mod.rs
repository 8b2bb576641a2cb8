//! The forms weights have at rest: the same bytes on every CPU.
//!
//! A matrix is a list of *strips* of 64 rows (the last one padded), a strip is one stream of *tiles* that run along its
//! columns. Inside a tile, byte `4 * row + i` belongs to that row, so that a vector holds 4 columns of several rows and
//! nothing is ever summed across a vector. The widest vector takes 16 rows, others take 8 or 4 of the same bytes.

mod grouped;
mod int8;
mod strip;
mod ternary;

pub use grouped::{
    GroupedLayout, SUPER, ScaleFormat, pack_grouped_row, pack_two_level_row, unpack_grouped_row,
};
pub use int8::{
    INT8_TILE_BYTES, INT8_TILE_COLS, Int8RowStats, int8_bytes, int8_strip_bytes, pack_int8_row,
    unpack_int8_row,
};
pub use strip::{STRIP, padded_rows, strips};
pub use ternary::{
    TERNARY_TILE_BYTES, TERNARY_TILE_COLS, pack_ternary_row, pack_ternary_words, ternary_bytes,
    ternary_strip_bytes, unpack_ternary_row,
};
