//! One room for each instruction set, with the same file names in each; `scalar` is the reference for all.

pub(crate) mod scalar;
