//! Checkpoints good and hostile, made on the fly, through the public door.

mod hf;
mod maker;
mod mlx;
