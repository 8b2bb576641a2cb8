//! What kernels work on: plain structs over bytes and numbers. Nothing here knows of an instruction set.

pub mod buffer;
pub mod half;
pub(crate) mod kv_chunk;
pub mod layout;
pub(crate) mod mat;
pub(crate) mod rows;
