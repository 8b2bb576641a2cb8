//! What a checkpoint is, without loading it: for `info`.

use std::path::Path;

use super::open::open_source;
use super::options::LoadOptions;
use super::parallel::in_parallel;
use super::source::{Room, packed_size};
use crate::bytes::Arena;
use crate::config::{Config, LayerKind};
use crate::error::Result;
use crate::slots::MatrixSlot;
use crate::weights::Format;

/// Checkpoints up to this many bytes are looked at in full.
const SMALL: u64 = 128 << 20;

/// A checkpoint's description.
#[derive(Debug, Clone)]
pub struct Info {
    /// Its layout.
    pub format: Format,
    /// It is in this program's own packed form.
    pub packed: bool,
    /// Sizes and constants.
    pub config: Config,
    /// Its files, with their lengths in bytes.
    pub files: Vec<(String, u64)>,
    /// Weights in all, without the norms.
    pub weights: u64,
    /// Weights that are or will be kept at two bits.
    pub ternary_weights: u64,
    /// That number comes from a sample of the layers and experts.
    pub estimated: bool,
    /// Bytes of the weights in memory.
    pub weight_bytes: u64,
    /// Bytes of KV cache in 16 bits for each token of a conversation (full layers).
    pub kv_bytes_per_token: u64,
    /// Bytes of KV cache in 16 bits that a conversation takes at most beside that (sliding layers).
    pub kv_bytes_fixed: u64,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Looks at the checkpoint at `path`: at all of it where it is small, else at its headers and a sample of its matrices.
///
/// Errors: as [`super::load`].
pub fn inspect(path: &Path, options: &LoadOptions) -> Result<Info> {
    let source = open_source(path, options)?;
    let source = source.as_ref();
    let config = source.config();
    let slots: Vec<MatrixSlot> = MatrixSlot::all(config).collect();
    let estimated = !source.is_packed()
        && slots
            .iter()
            .map(|&slot| source.source_bytes(slot))
            .sum::<u64>()
            > SMALL;
    let sample: Vec<MatrixSlot> = slots
        .iter()
        .copied()
        .filter(|&slot| !estimated || in_sample(slot, config))
        .collect();
    let arena = Arena::default();
    let room = Room {
        arena: &arena,
        map: true,
    };
    let ternary = in_parallel(options.thread_count(), &sample, |&slot| {
        Ok(source.matrix(slot, &room)?.is_ternary())
    })?;
    let weights = |slot: MatrixSlot| slot.shape(config).0 as u64 * slot.shape(config).1 as u64;
    let total = |kind: fn(MatrixSlot) -> bool| {
        slots
            .iter()
            .filter(|&&slot| kind(slot))
            .map(|&slot| weights(slot))
            .sum::<u64>()
    };
    // Attention and experts each in proportion to their sample; what is neither is never ternary in a sample.
    let share = |kind: fn(MatrixSlot) -> bool| {
        let of_kind = || sample.iter().zip(&ternary).filter(|(slot, _)| kind(**slot));
        let seen: u64 = of_kind().map(|(&slot, _)| weights(slot)).sum();
        let packed: u64 = of_kind()
            .filter(|(_, ternary)| **ternary)
            .map(|(&slot, _)| weights(slot))
            .sum();
        (u128::from(total(kind)) * u128::from(packed) / u128::from(seen.max(1))) as u64
    };
    let (attention, experts) = (
        MatrixSlot::is_attention as fn(MatrixSlot) -> bool,
        MatrixSlot::is_expert as fn(MatrixSlot) -> bool,
    );
    let full = config
        .layers
        .iter()
        .filter(|&&kind| kind == LayerKind::Full)
        .count();
    let key_and_value = (4 * config.kv_rows()) as u64;
    Ok(Info {
        format: source.format(),
        packed: source.is_packed(),
        files: source
            .files()
            .iter()
            .map(|file| {
                (
                    file.path()
                        .file_name()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned(),
                    file.len(),
                )
            })
            .collect(),
        weights: total(|_| true),
        ternary_weights: share(attention) + share(experts),
        estimated,
        weight_bytes: packed_size(source),
        kv_bytes_per_token: full as u64 * key_and_value,
        kv_bytes_fixed: (config.layers.len() - full) as u64
            * config.window.min(config.max_positions) as u64
            * key_and_value,
        warnings: config
            .warnings
            .iter()
            .chain(source.warnings())
            .cloned()
            .collect(),
        config: config.clone(),
    })
}

/// First, middle and last layer; in them attention, and the first, middle and last expert.
fn in_sample(slot: MatrixSlot, config: &Config) -> bool {
    let picked = |at: usize, of: usize| at == 0 || at == of / 2 || at == of - 1;
    let layers = config.layers.len();
    match slot {
        MatrixSlot::Query(l)
        | MatrixSlot::Key(l)
        | MatrixSlot::Value(l)
        | MatrixSlot::Output(l) => picked(l, layers),
        MatrixSlot::Expert(l, e, _) => picked(l, layers) && picked(e, config.experts),
        MatrixSlot::Embedding | MatrixSlot::Head | MatrixSlot::Router(_) => false,
    }
}
