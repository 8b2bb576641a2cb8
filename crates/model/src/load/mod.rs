//! Checkpoints in, [`Weights`] out. The only rooms that open model files.
//!
//! Each layout is a [`Source`]: opening it checks everything that headers can show, then it hands out the model's matrices one
//! at a time, each in the form in which it will be used. What is done with them (kept in memory, written to the packed file)
//! is the same for all layouts.

mod build;
mod cache;
mod dense;
mod export;
mod file;
mod folder;
mod gguf;
mod hf;
mod inspect;
mod machine;
mod mlx2bit;
mod open;
mod options;
mod packed;
mod parallel;
mod progress;
mod quantization;
pub mod safetensors;
mod screen;
mod source;
mod synthetic;
mod tensors;

use std::path::Path;

use self::cache::Outcome;
pub use self::export::pack;
pub use self::inspect::{Info, inspect};
pub use self::machine::{available_memory, resident_memory};
pub use self::options::LoadOptions;
pub use self::progress::{Phase, Progress, Silent};
use self::source::Source;
pub use self::synthetic::{HeadKind, synthetic, synthetic_with_head};
use crate::bytes::Bytes;
use crate::error::Result;
use crate::weights::Weights;

/// Loads the checkpoint at `path`: a folder, a GGUF file, or a packed file. With a cache folder, a foreign checkpoint is packed
/// into it at the first load and mapped from there at later ones.
///
/// Errors: [`Error::ModelNotFound`], [`Error::Unsupported`], [`Error::Field`], [`Error::Checkpoint`], [`Error::Read`],
/// [`Error::OutOfMemory`], [`Error::Cancelled`].
///
/// [`Error::ModelNotFound`]: crate::error::Error::ModelNotFound
/// [`Error::Unsupported`]: crate::error::Error::Unsupported
/// [`Error::Field`]: crate::error::Error::Field
/// [`Error::Checkpoint`]: crate::error::Error::Checkpoint
/// [`Error::Read`]: crate::error::Error::Read
/// [`Error::OutOfMemory`]: crate::error::Error::OutOfMemory
/// [`Error::Cancelled`]: crate::error::Error::Cancelled
pub fn load(path: &Path, options: &LoadOptions, progress: &dyn Progress) -> Result<Weights> {
    let source = open::open_source(path, options)?;
    if source.is_packed() {
        return map_packed(source.as_ref(), options, progress);
    }
    let mut warning = None;
    if let Some(folder) = &options.cache_folder {
        match cache::packed_copy(source.as_ref(), path, folder, options, progress)? {
            Outcome::Ready(packed, file) => {
                let mut weights = map_packed(packed.as_ref(), options, progress)?;
                weights.summary.packed_file = Some(file);
                weights
                    .summary
                    .warnings
                    .extend(source.warnings().iter().cloned());
                return Ok(weights);
            }
            Outcome::Unavailable(reason) => warning = Some(reason),
        }
    }
    machine::check_memory(build::memory_needed(source.as_ref(), options))?;
    let mut weights = build::in_memory(source.as_ref(), options, progress)?;
    weights.summary.warnings.extend(warning);
    Ok(weights)
}

/// Maps a packed file (or reads it, if the options say so).
fn map_packed(
    source: &dyn Source,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<Weights> {
    if !options.map {
        machine::check_memory(build::memory_needed(source, options))?;
    }
    let mut weights = build::in_memory(source, options, progress)?;
    if options.map {
        match machine::mapped_warning(weights.summary.bytes) {
            Some(warning) => weights.summary.warnings.push(warning),
            None => weights.embedding.parts().take(1).for_each(Bytes::prefault),
        }
    }
    Ok(weights)
}
