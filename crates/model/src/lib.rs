//! The Maple language model on a CPU: checkpoints, forward pass, KV cache, sampling, scheduling.

pub mod config;
pub mod error;
mod json;
