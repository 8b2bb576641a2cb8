//! Random weights of any shape, made in memory: what a model of that shape costs, without its 40 GB file.

use kernels::half::f32_to_bf16;
use kernels::layout::{GroupedLayout, STRIP, ScaleFormat};

use super::dense::{self, TernaryRows};
use super::file::SourceFile;
use super::options::LoadOptions;
use super::progress::{Progress, Silent};
use super::source::{Room, Source, packed_size};
use super::{build, machine};
use crate::config::Config;
use crate::error::Result;
use crate::slots::{MatrixSlot, NormSlot};
use crate::weights::{DenseType, Format, Matrix, Weights};

/// How embedding and head are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// Four-bit codes in groups of 64, as in the MLX checkpoint.
    Affine4,
    /// Four-bit codes in groups of 32 whose scales have two levels, as in the Q4_K tensors of GGUF files.
    Q4K,
    /// bfloat16, as in the original checkpoint.
    Bf16,
}

impl HeadKind {
    /// The layout of codes in groups.
    fn layout(self) -> Option<GroupedLayout> {
        let (group, scales) = match self {
            HeadKind::Affine4 => (64, ScaleFormat::Bf16),
            HeadKind::Q4K => (32, ScaleFormat::TwoLevel),
            HeadKind::Bf16 => return None,
        };
        Some(GroupedLayout {
            bits: 4,
            group,
            scales,
        })
    }
}

/// Random weights of `config`'s shape: experts and attention ternary, router bfloat16. The same seed gives the same weights.
/// Scales are such that activations keep about their size from layer to layer.
///
/// Errors: [`crate::error::Error::OutOfMemory`], [`crate::error::Error::Cancelled`].
pub fn synthetic(
    config: Config,
    seed: u64,
    head: HeadKind,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<Weights> {
    let source = Synthetic { config, seed, head };
    machine::check_memory(packed_size(&source))?;
    build::in_memory(&source, options, progress)
}

/// `weights`, which [`synthetic`] made from the same seed, with another kind of embedding and head. The rest is shared with them.
///
/// Errors: as [`synthetic`].
pub fn synthetic_with_head(
    weights: &Weights,
    seed: u64,
    head: HeadKind,
    options: &LoadOptions,
) -> Result<Weights> {
    let config = Config {
        layers: Vec::new(),
        swiglu_limit: Vec::new(),
        ..weights.config.clone()
    };
    let outer = synthetic(config, seed, head, options, &Silent)?;
    Ok(Weights {
        embedding: outer.embedding,
        head: outer.head,
        head_order: outer.head_order,
        flash: outer.flash,
        screen: outer.screen,
        ..weights.clone()
    })
}

struct Synthetic {
    config: Config,
    seed: u64,
    head: HeadKind,
}

impl Source for Synthetic {
    fn format(&self) -> Format {
        Format::Synthetic
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn warnings(&self) -> &[String] {
        &[]
    }

    fn files(&self) -> Vec<&SourceFile> {
        Vec::new()
    }

    fn norm(&self, slot: NormSlot) -> Result<Vec<f32>> {
        Ok(vec![1.0; slot.len(&self.config)])
    }

    fn source_bytes(&self, slot: MatrixSlot) -> u64 {
        self.packed_bytes(slot)
    }

    fn packed_bytes(&self, slot: MatrixSlot) -> u64 {
        let (rows, cols) = slot.shape(&self.config);
        match (slot, self.head.layout()) {
            (MatrixSlot::Embedding | MatrixSlot::Head, Some(layout)) => {
                layout.bytes(rows, cols) as u64
            }
            (MatrixSlot::Embedding | MatrixSlot::Head | MatrixSlot::Router(_), _) => {
                2 * (rows * cols) as u64
            }
            _ => dense::ternary_len(rows, cols),
        }
    }

    fn matrix(&self, slot: MatrixSlot, room: &Room<'_>) -> Result<Matrix> {
        let (rows, cols) = slot.shape(&self.config);
        let mut random = Random::new(self.seed, slot);
        match (slot, self.head.layout()) {
            (MatrixSlot::Embedding | MatrixSlot::Head, Some(layout)) => {
                affine(layout, rows, cols, &mut random, room)
            }
            (MatrixSlot::Embedding | MatrixSlot::Head | MatrixSlot::Router(_), _) => {
                bf16(rows, cols, &mut random, room)
            }
            _ => ternary(rows, cols, &mut random, room),
        }
    }
}

/// Half of the codes are 1 (zero), a quarter each 0 and 2.
fn ternary(rows: usize, cols: usize, random: &mut Random, room: &Room<'_>) -> Result<Matrix> {
    let mut matrix = TernaryRows::new(rows, cols, room)?;
    matrix.fill_tiles(|bytes| {
        random.fill(bytes, |word| {
            let threes = word & word >> 1 & 0x5555_5555_5555_5555;
            word ^ threes << 1
        });
    });
    let scale = (2.0 / cols as f32).sqrt();
    matrix.fill_scales(|_| scale * random.around_one());
    Ok(matrix.finish())
}

/// Codes 0 to 15 around their mean; rows of padding are zero.
fn affine(
    layout: GroupedLayout,
    rows: usize,
    cols: usize,
    random: &mut Random,
    room: &Room<'_>,
) -> Result<Matrix> {
    let mut data = room.arena.take(layout.bytes(rows, cols))?;
    random.fill(&mut data, |word| word);
    let size = 1.0 / (4.6 * (cols as f32).sqrt());
    for (s, strip) in data.chunks_mut(layout.strip_bytes(cols)).enumerate() {
        let size_of = |j: usize| if s * STRIP + j < rows { size } else { 0.0 };
        let (head, groups) = strip.split_at_mut(layout.head_bytes(cols));
        // Bytes of two-level scales are around 48, those of biases four times the upper level around 90.
        for run in head.chunks_mut(8 * STRIP) {
            for j in 0..STRIP {
                let upper = size_of(j) * random.around_one() / 48.0;
                run[4 * j..][..4].copy_from_slice(&upper.to_le_bytes());
                run[4 * (STRIP + j)..][..4].copy_from_slice(&(-4.0 * upper).to_le_bytes());
            }
        }
        for group in groups.chunks_mut(layout.group_bytes()) {
            let (scales, rest) = group.split_at_mut(layout.scale_bytes());
            let biases = &mut rest[..layout.scale_bytes()];
            for j in 0..STRIP {
                if layout.scales == ScaleFormat::TwoLevel {
                    scales[j] = (48.0 * random.around_one()) as u8;
                    biases[j] = (7.5 / 4.0 * f32::from(scales[j])) as u8;
                } else {
                    let scale = size_of(j) * random.around_one();
                    scales[2 * j..][..2].copy_from_slice(&f32_to_bf16(scale).to_le_bytes());
                    biases[2 * j..][..2].copy_from_slice(&f32_to_bf16(-7.5 * scale).to_le_bytes());
                }
            }
        }
    }
    Ok(Matrix::Grouped {
        rows,
        cols,
        layout,
        data: data.freeze(),
    })
}

/// Values of both signs, in size from `s` to `2 s` with s about `0.7 / sqrt(cols)`.
fn bf16(rows: usize, cols: usize, random: &mut Random, room: &Room<'_>) -> Result<Matrix> {
    let mut data = room.arena.take(2 * rows * cols)?;
    let exponent = 126 - u64::from(cols.ilog2() / 2);
    let exponents = (exponent << 7) * 0x0001_0001_0001_0001;
    random.fill(&mut data, |word| word & 0x807f_807f_807f_807f | exponents);
    Ok(Matrix::Dense {
        rows,
        cols,
        dtype: DenseType::Bf16,
        data: data.freeze(),
    })
}

/// A small fast generator (SplitMix64); each matrix has its own stream.
struct Random(u64);

impl Random {
    fn new(seed: u64, slot: MatrixSlot) -> Self {
        let name = slot.to_string();
        Random(name.bytes().fold(seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// From 0.75 to 1.25.
    fn around_one(&mut self) -> f32 {
        0.75 + (self.next() >> 40) as f32 / (1 << 25) as f32
    }

    fn fill(&mut self, bytes: &mut [u8], shape: impl Fn(u64) -> u64) {
        let (words, rest) = bytes.as_chunks_mut::<8>();
        for word in words {
            *word = shape(self.next()).to_le_bytes();
        }
        let last = shape(self.next()).to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LayerKind;

    fn small(head: HeadKind, threads: usize) -> Weights {
        let config = Config {
            vocab: 200,
            layers: vec![LayerKind::Sliding, LayerKind::Full],
            swiglu_limit: vec![7.0; 2],
            experts: 4,
            experts_per_token: 2,
            ..Config::maple_preview()
        };
        let options = LoadOptions {
            threads,
            ..Default::default()
        };
        synthetic(config, 5, head, &options, &Silent).unwrap()
    }

    #[test]
    fn weights_are_sane_and_the_same_on_any_number_of_threads() {
        for head in [HeadKind::Affine4, HeadKind::Q4K, HeadKind::Bf16] {
            let (one, two) = (small(head, 1), small(head, 2));
            let view = one.layers[1].experts[3].gate.view();
            view.check().unwrap();
            let (mut row, mut other) = (vec![0.0; 2048], vec![0.0; 2048]);
            view.row_to_f32(100, &mut row);
            two.layers[1].experts[3]
                .gate
                .view()
                .row_to_f32(100, &mut other);
            assert_eq!(row, other);
            let squares: f32 = row.iter().map(|w| w * w).sum();
            assert!(squares > 0.4 && squares < 1.7, "{squares}");
            for matrix in [
                &one.embedding,
                one.head.as_ref().unwrap(),
                &one.layers[0].router,
            ] {
                matrix.view().check().unwrap();
                matrix.view().row_to_f32(3, &mut row);
                let (sum, squares) = row.iter().fold((0.0, 0.0), |(s, q), w| (s + w, q + w * w));
                assert!(
                    squares > 0.3 && squares < 3.0 && sum.abs() < 4.0,
                    "{sum} {squares}"
                );
            }
            assert_eq!(one.screen.is_some(), head == HeadKind::Bf16);
            assert_eq!(one.summary.packed_experts, 8);
        }
    }

    #[test]
    fn another_head_leaves_the_layers_as_they_are() {
        let (base, wanted) = (small(HeadKind::Bf16, 1), small(HeadKind::Q4K, 1));
        let made = synthetic_with_head(&base, 5, HeadKind::Q4K, &LoadOptions::default()).unwrap();
        assert_eq!(made.layers.len(), 2);
        assert!(made.screen.is_none());
        let row = |matrix: &Matrix| {
            let mut row = vec![0.0; 2048];
            matrix.view().row_to_f32(3, &mut row);
            row
        };
        assert_eq!(row(&made.embedding), row(&wanted.embedding));
        assert_eq!(row(made.head_matrix()), row(wanted.head_matrix()));
        assert_eq!(
            made.head_matrix().byte_len(),
            wanted.head_matrix().byte_len()
        );
        let tiles = |weights: &Weights| match &weights.layers[1].experts[0].up {
            Matrix::Ternary { tiles, .. } => tiles.as_ptr(),
            _ => panic!("not ternary"),
        };
        assert_eq!(tiles(&made), tiles(&base), "memory is shared");
    }

    #[test]
    fn no_code_is_three() {
        let weights = small(HeadKind::Affine4, 1);
        let Matrix::Ternary { tiles, .. } = &weights.layers[0].q else {
            panic!("not ternary")
        };
        assert!(tiles.iter().all(|byte| byte & byte >> 1 & 0x55 == 0));
    }
}
