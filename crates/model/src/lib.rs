//! The Maple language model on a CPU: checkpoints, forward pass, KV cache, sampling, scheduling.

pub mod backend;
pub mod bench;
pub mod bytes;
pub mod config;
pub mod engine;
pub mod error;
#[cfg(test)]
mod fake;
pub mod forward;
pub mod generation;
pub mod head_order;
mod json;
pub mod kv_cache;
pub mod load;
pub mod pool;
mod prefix;
pub mod sampler;
pub mod scheduler;
mod session;
pub mod slots;
pub mod weights;

pub use kernels::{Isa, Kernels, Precision};
