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
mod packed;
mod quantization;
pub mod safetensors;
mod synthetic;
mod tensors;

use std::path::{Path, PathBuf};

use self::cache::Outcome;
pub use self::export::pack;
use self::file::SourceFile;
use self::folder::Folder;
pub use self::inspect::{Info, inspect};
pub use self::machine::{available_memory, resident_memory};
use self::packed::PackedSource;
pub use self::synthetic::{HeadKind, synthetic, synthetic_with_head};
use self::tensors::TensorSet;
use crate::bytes::{Arena, Bytes};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::json;
use crate::slots::{MatrixSlot, NormSlot};
use crate::weights::{Format, HeadScreen, Matrix, Weights};

/// How to load.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Pack matrices that are row-wise ternary to two bits. Off: plain tensors stay as they are.
    pub pack_experts: bool,
    /// Make the attention projections ternary by the rule of training, as the published 2-bit exports do.
    pub ternarize_attention: bool,
    /// Map files instead of reading them, where that saves a copy. Off for files that others may cut or rewrite in place.
    pub map: bool,
    /// Where packed copies are kept; `None`: nowhere, convert in memory at each load.
    pub cache_folder: Option<PathBuf>,
    /// Threads that convert; 0: as many as the process may use.
    pub threads: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            pack_experts: true,
            ternarize_attention: false,
            map: true,
            cache_folder: None,
            threads: 0,
        }
    }
}

/// What loading is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Writing the packed copy.
    Convert,
    /// Bringing weights into memory.
    Load,
}

/// Is told how far loading is, and asked whether to go on. Called from several threads, a few hundred times in all.
pub trait Progress: Sync {
    /// `done` of `total` source bytes.
    fn report(&self, phase: Phase, done: u64, total: u64);

    /// Loading ends with [`Error::Cancelled`] soon after this turns true.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Tells nobody.
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _: Phase, _: u64, _: u64) {}
}

/// Where a matrix may live.
pub(crate) struct Room<'a> {
    pub arena: &'a Arena,
    /// Parts that need no change may stay views of the file.
    pub map: bool,
}

/// An opened checkpoint of some layout, its headers checked against the configuration.
pub(crate) trait Source: Sync {
    fn format(&self) -> Format;
    /// It is this program's own packed form, which needs no packed copy.
    fn is_packed(&self) -> bool {
        false
    }
    fn config(&self) -> &Config;
    /// What was noticed beside the configuration's own warnings.
    fn warnings(&self) -> &[String];
    /// Every file that the model is made from.
    fn files(&self) -> Vec<&SourceFile>;
    fn norm(&self, slot: NormSlot) -> Result<Vec<f32>>;
    /// Bytes that [`Source::matrix`] will read, for progress.
    fn source_bytes(&self, slot: MatrixSlot) -> u64;
    /// Bytes the matrix will take in memory, so far as can be told beforehand.
    fn packed_bytes(&self, slot: MatrixSlot) -> u64;
    /// The matrix, its content checked. Called from several threads, in about the order of [`MatrixSlot::all`].
    fn matrix(&self, slot: MatrixSlot, room: &Room<'_>) -> Result<Matrix>;
    /// The screen of a dense head.
    fn screen(&self, head: &Matrix, threads: usize, room: &Room<'_>) -> Result<Option<HeadScreen>> {
        build::screen(head, threads, room.arena)
    }
}

/// Loads the checkpoint at `path`: a folder, a GGUF file, or a packed file. With a cache folder, a foreign checkpoint is packed
/// into it at the first load and mapped from there at later ones.
///
/// Errors: [`Error::ModelNotFound`], [`Error::Unsupported`], [`Error::Field`], [`Error::Checkpoint`], [`Error::Read`],
/// [`Error::OutOfMemory`], [`Error::Cancelled`].
pub fn load(path: &Path, options: &LoadOptions, progress: &dyn Progress) -> Result<Weights> {
    let source = open_source(path, options)?;
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

/// Opens whatever is at `path`: finds its layout and checks its headers.
fn open_source(path: &Path, options: &LoadOptions) -> Result<Box<dyn Source>> {
    if gguf::is_gguf(path) {
        return Ok(Box::new(gguf::GgufSource::open(path, options)?));
    }
    if path.is_file() {
        let set = TensorSet::open_file(SourceFile::open(path)?)?;
        return Ok(Box::new(PackedSource::open(set, None)?));
    }
    let folder = Folder::open(path)?;
    let Some((config_file, config_text)) = folder.read_text("config.json")? else {
        return Err(Error::ModelNotFound {
            path: path.join("config.json"),
            needed: "a model's folder needs this file; download it, or name another folder"
                .to_owned(),
        });
    };
    let config_path = config_file.path().to_owned();
    let object = json::parse_object(&config_path, &config_text, "config.json")?;
    let mut config = Config::from_object(&config_path, &object)?;
    let mut texts = vec![config_file];
    if let Some((file, text)) = folder.read_text("generation_config.json")? {
        config.add_generation_config(file.path(), &text)?;
        texts.push(file);
    }
    let set = TensorSet::open(&folder)?;
    if packed::is_packed(&set.metadata) {
        return Ok(Box::new(PackedSource::open_beside(set, config)?));
    }
    if mlx2bit::is_mlx(&object, &set) {
        return Ok(Box::new(mlx2bit::MlxSource::open(
            config,
            &config_path,
            &object,
            set,
            texts,
            options,
        )?));
    }
    if let Some(found) = object
        .get("quantization_config")
        .filter(|value| !value.is_null())
    {
        return Err(Error::Unsupported {
            file: config_path,
            field: "quantization_config".to_owned(),
            expected: "null, or the packed codes of MLX,".to_owned(),
            found: json::describe(found),
        });
    }
    Ok(Box::new(hf::HfSource::open(config, set, texts, options)?))
}
