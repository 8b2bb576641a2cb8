//! The Maple language model on a CPU: checkpoints, forward pass, KV cache, sampling, scheduling.
