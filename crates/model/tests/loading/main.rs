//! Checkpoints good and hostile, made on the fly, through the public door.

mod allocations;
#[cfg(unix)]
mod changing;
mod gguf;
mod gguf_hostile;
mod gguf_maker;
mod gguf_signs;
mod hf;
mod hostile_config;
mod hostile_files;
mod hostile_layouts;
mod hostile_packed;
mod hostile_shards;
mod hostile_tensors;
mod maker;
mod mlx;
mod mutations;
mod packed;
mod processes;
