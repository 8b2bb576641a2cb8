//! AArch64. The 128-bit kernels are written once, in `quad`, and stamped out for plain NEON and for the dot-product
//! instructions.

pub(crate) mod neon;
pub(crate) mod neon_dotprod;
mod quad;
