//! One room for each instruction set, with the same file names in each; `scalar` is the reference for all.

pub(crate) mod portable;
pub(crate) mod scalar;

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;
