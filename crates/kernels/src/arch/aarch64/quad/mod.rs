//! 128-bit kernels: 4 rows x 4 columns in a vector, sixteen vectors for a strip. Written once over [`Dot`], the way an
//! instruction set multiplies bytes, and stamped out by [`tables!`].
//!
//! Sums of 16 rows (or of 8, for two rows of activations) are made at a time, over blocks of 256 columns, so that the bytes
//! of the other rows are still in the first-level cache when their turn comes.
//!
//! All functions here are inlined into functions with the target features; that is what makes calling them sound.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over small arrays of registers are clearer by number"
)]

pub(super) mod grouped;
pub(super) mod int8;
pub(super) mod lanes;
pub(super) mod stream;
pub(super) mod table;
pub(super) mod ternary;
pub(super) mod vector;
