//! From a [`Source`] to [`Weights`] in memory, matrices in parallel.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kernels::layout;

use super::{LoadOptions, Phase, Progress, Room, Source, cache};
use crate::bytes::Arena;
use crate::error::{Error, Result};
use crate::slots::{MatrixSlot, NormSlot};
use crate::weights::{Expert, HeadScreen, Layer, Matrix, Summary, Weights};

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
    let matrices = in_parallel(threads(options), &slots, |&slot| {
        let matrix = source.matrix(slot, &room)?;
        meter.add(source.source_bytes(slot))?;
        Ok(matrix)
    })?;
    let norms = NormSlot::all(source.config())
        .map(|slot| source.norm(slot))
        .collect::<Result<Vec<_>>>()?;
    let mut weights = assemble(source, matrices, norms);
    weights.screen = source.screen(weights.head_matrix(), threads(options), &room)?;
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
    cache::packed_size(source).saturating_sub(mapped)
}

/// The number of threads that convert.
pub(crate) fn threads(options: &LoadOptions) -> usize {
    match options.threads {
        0 => thread::available_parallelism().map_or(1, |n| n.get()),
        n => n,
    }
}

/// Does `work` for every item on several threads; results keep the items' order. The first error ends it; of several, that of
/// the earliest item is returned.
pub(crate) fn in_parallel<I: Sync, T: Send>(
    threads: usize,
    items: &[I],
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter().map(work).collect();
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let run = || {
        let mut done = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            match work(item) {
                Ok(result) => done.push((at, result)),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    if failure.as_ref().is_none_or(|(earlier, _)| at < *earlier) {
                        *failure = Some((at, error));
                    }
                }
            }
        }
        done
    };
    let mut results: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (1..threads.min(items.len()))
            .map(|_| scope.spawn(run))
            .collect();
        let mut results = run();
        for worker in workers {
            match worker.join() {
                Ok(done) => results.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    if let Some((_, error)) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    results.sort_unstable_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Counts bytes for the progress, and asks it whether to go on.
pub(crate) struct Meter<'a> {
    progress: &'a dyn Progress,
    phase: Phase,
    total: u64,
    done: AtomicU64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(progress: &'a dyn Progress, phase: Phase, total: u64) -> Self {
        progress.report(phase, 0, total);
        Meter {
            progress,
            phase,
            total,
            done: AtomicU64::new(0),
        }
    }

    /// Reports about 200 times in all.
    pub(crate) fn add(&self, bytes: u64) -> Result<()> {
        if self.progress.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let before = self.done.fetch_add(bytes, Ordering::Relaxed);
        let step = (self.total / 200).max(1);
        let after = before + bytes;
        if before / step != after / step && after < self.total {
            self.progress.report(self.phase, after, self.total);
        }
        Ok(())
    }

    /// Reports that all is done.
    pub(crate) fn finish(self) {
        self.progress.report(self.phase, self.total, self.total);
    }
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

/// Rounds a dense head to eight bits; `None` for a head that is small already.
pub(crate) fn screen(head: &Matrix, threads: usize, arena: &Arena) -> Result<Option<HeadScreen>> {
    let Matrix::Dense { rows, cols, .. } = *head else {
        return Ok(None);
    };
    let strip_bytes = layout::int8_strip_bytes(cols);
    let mut data = arena.take(layout::int8_bytes(rows, cols))?;
    let mut scales = arena.take(4 * layout::padded_rows(rows))?;
    let mut error_norms = arena.take(4 * layout::padded_rows(rows))?;
    let view = head.view();
    let strips: Vec<_> = data
        .chunks_mut(strip_bytes)
        .zip(scales.as_f32_mut().chunks_mut(layout::STRIP))
        .zip(error_norms.as_f32_mut().chunks_mut(layout::STRIP))
        .enumerate()
        .map(|(s, ((data, scales), errors))| (s, Mutex::new((data, scales, errors))))
        .collect();
    in_parallel(threads, &strips, |(s, parts)| {
        let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
        let (data, scales, errors) = &mut *parts;
        let mut weights = vec![0.0; cols];
        for j in 0..layout::STRIP.min(rows - s * layout::STRIP) {
            view.row_to_f32(s * layout::STRIP + j, &mut weights);
            let stats = layout::pack_int8_row(data, cols, j, &weights);
            (scales[j], errors[j]) = (stats.scale, stats.error_norm);
        }
        Ok(())
    })?;
    drop(strips);
    let rows = Matrix::Int8 {
        rows,
        cols,
        data: data.freeze(),
        scales: scales.freeze(),
    };
    Ok(Some(HeadScreen {
        rows,
        error_norms: error_norms.freeze(),
    }))
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
