//! One room for each instruction set, with the same file names in each; `scalar` is the reference for all. Beside them what
//! they share: the shape of a table, the float steps written once for all, and the portable kernels compiled for each.

#[cfg(target_arch = "aarch64")]
pub(crate) mod aarch64;
pub(crate) mod float;
pub(crate) mod isa;
pub(crate) mod parts;
pub(crate) mod portable;
pub(crate) mod prefetch;
pub(crate) mod scalar;
pub(crate) mod table;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;
