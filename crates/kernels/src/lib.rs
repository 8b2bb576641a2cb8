//! Arithmetic on slices for the Maple language model: packed ternary products and the float steps around them.
//!
//! The heart is [`strip_product`]: 64 rows of a weight matrix ([`Mat`], in one of the forms of [`layout`]) times some
//! rows of activations ([`Rows`]). Weights stay packed and are unpacked in registers; activations are quantised to 15
//! bits in two planes of signed bytes (or to 8 bits, or left alone, see [`Precision`]), so that sums are exact integers.
//!
//! Which instructions run is decided by a [`Kernels`] table, chosen once by [`Kernels::detect`] or forced with
//! [`Kernels::for_isa`]. Every table gives the same bits: integer sums are exact, float steps keep one order of
//! operations on all of them.

mod arch;
mod data;
mod dispatch;
mod ops;

pub use data::layout::STRIP;
pub use data::mat::{Dense, DenseData, Grouped, Int8Rows, Mat, ShapeError, Ternary};
pub use data::rows::{
    BLOCK, INT8_MAX, INT16_MAX, MAX_COLS, Precision, Rows, SUM_GROUP, SharedRows,
};
pub use data::{buffer, half, layout};
pub use dispatch::{Isa, Kernels, UnknownIsa};
pub use ops::float;
pub use ops::product::{prefetch_strip, strip_product};
pub use ops::stream::read_stream;
