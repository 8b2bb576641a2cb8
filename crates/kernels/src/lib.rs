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
pub mod buffer;
mod dispatch;
pub mod float;
pub mod half;
pub mod layout;
mod mat;
mod product;
mod rows;
mod stream;

pub use dispatch::{Isa, Kernels, UnknownIsa};
pub use layout::STRIP;
pub use mat::{Dense, DenseData, Grouped, Int8Rows, Mat, ShapeError, Ternary};
pub use product::{prefetch_strip, strip_product};
pub use rows::{BLOCK, INT8_MAX, INT16_MAX, MAX_COLS, Precision, Rows, SUM_GROUP, SharedRows};
pub use stream::read_stream;
