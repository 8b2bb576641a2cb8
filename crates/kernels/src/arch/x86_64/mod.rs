//! x86-64.

pub(crate) mod avx512vnni;
