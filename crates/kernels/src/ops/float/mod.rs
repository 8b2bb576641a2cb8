//! The float steps between the matrix products, with their lengths checked.

pub mod activation;
pub mod attention;
pub mod norm;
pub mod rope;
#[cfg(test)]
mod tests;

pub use crate::dispatch::FloatFns;
