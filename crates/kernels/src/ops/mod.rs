//! What a model calls: lengths are checked here, then the functions of a table run.

pub mod float;
pub(crate) mod product;
pub(crate) mod quantize;
pub(crate) mod stream;
