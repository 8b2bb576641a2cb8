//! From a [`Source`] to [`Weights`] in memory, matrices in parallel.

use super::options::LoadOptions;
use super::parallel::in_parallel;
use super::progress::{Meter, Phase, Progress};
use super::source::{Room, Source, packed_size};
use crate::bytes::Arena;
use crate::error::Result;
use crate::slots::{MatrixSlot, NormSlot};
use crate::weights::{Expert, Layer, Matrix, Summary, Weights};

/// Loads every matrix into memory (or maps it), on as many threads as the options say.
pub(crate) fn in_memory(
    source: &dyn Source,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<Weights> {
    let arena = Arena::default();
    let room = Room {
        arena: &arena,
        map: options.map,
    };
    let slots: Vec<MatrixSlot> = MatrixSlot::all(source.config()).collect();
    let meter = Meter::new(
        progress,
        Phase::Load,
        slots.iter().map(|&slot| source.source_bytes(slot)).sum(),
    );
    let matrices = in_parallel(options.thread_count(), &slots, |&slot| {
        let matrix = source.matrix(slot, &room)?;
        meter.add(source.source_bytes(slot))?;
        Ok(matrix)
    })?;
    let norms = NormSlot::all(source.config())
        .map(|slot| source.norm(slot))
        .collect::<Result<Vec<_>>>()?;
    let mut weights = assemble(source, matrices, norms);
    weights.screen = source.screen(weights.head_matrix(), options.thread_count(), &room)?;
    for file in source.files() {
        file.check_unchanged()?;
    }
    weights.summary = summarize(source, &weights);
    meter.finish();
    Ok(weights)
}

/// Bytes that [`in_memory`] will hold beside mapped files, about.
pub(crate) fn memory_needed(source: &dyn Source, options: &LoadOptions) -> u64 {
    // What keeps its size is kept as it is, and so stays mapped.
    let stays =
        |slot: MatrixSlot| options.map && source.packed_bytes(slot) == source.source_bytes(slot);
    let mapped: u64 = MatrixSlot::all(source.config())
        .filter(|&slot| stays(slot))
        .map(|slot| source.packed_bytes(slot))
        .sum();
    packed_size(source).saturating_sub(mapped)
}

/// Puts the matrices, in the order of [`MatrixSlot::all`], and the norms, in that of [`NormSlot::all`], in their places.
pub(crate) fn assemble(
    source: &dyn Source,
    matrices: Vec<Matrix>,
    norms: Vec<Vec<f32>>,
) -> Weights {
    let config = source.config().clone();
    let (mut matrices, mut norms) = (matrices.into_iter(), norms.into_iter());
    let mut matrix = || matrices.next().expect("a matrix for every place");
    let mut vector = || norms.next().expect("a vector for every norm");
    let embedding = matrix();
    let head = (!config.tied).then(&mut matrix);
    let norm = vector();
    let layers = (0..config.layers.len())
        .map(|_| {
            let [q, k, v, o, router] = std::array::from_fn(|_| matrix());
            let experts = (0..config.experts)
                .map(|_| {
                    let [gate, up, down] = std::array::from_fn(|_| matrix());
                    Expert { gate, up, down }
                })
                .collect();
            let [input_norm, q_norm, k_norm, post_norm] = std::array::from_fn(|_| vector());
            Layer {
                input_norm,
                q,
                k,
                v,
                o,
                q_norm,
                k_norm,
                post_norm,
                router,
                experts,
            }
        })
        .collect();
    let summary = Summary {
        format: source.format(),
        weights: 0,
        ternary_weights: 0,
        packed_experts: 0,
        bytes: 0,
        mapped_bytes: 0,
        packed_file: None,
        warnings: Vec::new(),
    };
    Weights {
        config,
        embedding,
        layers,
        norm,
        head,
        head_order: None,
        flash: None,
        screen: None,
        summary,
    }
}

/// Adds up what the weights are.
pub(crate) fn summarize(source: &dyn Source, weights: &Weights) -> Summary {
    let mut summary = Summary {
        format: source.format(),
        weights: 0,
        ternary_weights: 0,
        packed_experts: 0,
        bytes: 0,
        mapped_bytes: 0,
        packed_file: None,
        warnings: source
            .config()
            .warnings
            .iter()
            .chain(source.warnings())
            .cloned()
            .collect(),
    };
    let mut count = |matrix: &Matrix| {
        let size = matrix.rows() as u64 * matrix.cols() as u64;
        summary.weights += size;
        summary.ternary_weights += if matrix.is_ternary() { size } else { 0 };
        for part in matrix.parts() {
            summary.bytes += part.len() as u64;
            summary.mapped_bytes += if part.is_mapped() {
                part.len() as u64
            } else {
                0
            };
        }
        matrix.is_ternary()
    };
    count(&weights.embedding);
    weights.head.as_ref().map(&mut count);
    let mut packed_experts = 0;
    for layer in &weights.layers {
        for matrix in [&layer.q, &layer.k, &layer.v, &layer.o, &layer.router] {
            count(matrix);
        }
        for expert in &layer.experts {
            let ternary = [&expert.gate, &expert.up, &expert.down].map(&mut count);
            packed_experts += usize::from(ternary == [true; 3]);
        }
    }
    if let Some(screen) = &weights.screen {
        let parts = screen.rows.parts().chain([&screen.error_norms]);
        for part in parts {
            summary.bytes += part.len() as u64;
            summary.mapped_bytes += if part.is_mapped() {
                part.len() as u64
            } else {
                0
            };
        }
    }
    summary.packed_experts = packed_experts;
    summary
}
