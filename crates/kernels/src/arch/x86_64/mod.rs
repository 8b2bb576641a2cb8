//! x86-64. The 256-bit kernels are written once, in `ymm`, and stamped out for AVX2 and AVX-VNNI.

pub(crate) mod avx2;
pub(crate) mod avx512vnni;
pub(crate) mod avxvnni;
mod ymm;
