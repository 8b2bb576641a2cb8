//! A loaded model: every matrix in a form the kernels read as it lies.

use std::sync::Arc;

use kernels::layout::GroupedLayout;
use kernels::{Dense, DenseData, Grouped, Int8Rows, Mat, Ternary};

use crate::bytes::Bytes;
use crate::config::Config;
use crate::head_order::HeadOrder;

/// Element type of a matrix that is kept as plain numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenseType {
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
}

impl DenseType {
    /// Bytes an element takes.
    pub const fn size(self) -> usize {
        match self {
            DenseType::Bf16 | DenseType::F16 => 2,
            DenseType::F32 => 4,
        }
    }
}

/// A weight matrix `[rows, cols]`, `out = W x`; layouts as in [`kernels::layout`].
#[derive(Debug, Clone)]
pub enum Matrix {
    /// `w = scale[row] * (code - 1)`, two bits a weight.
    Ternary {
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
        /// Codes in tiles.
        tiles: Bytes,
        /// `f32` for each row, padded to whole strips.
        scales: Bytes,
    },
    /// `w = code * scale + bias`, four or eight bits a weight.
    Grouped {
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
        /// Bits, group size and scale format.
        layout: GroupedLayout,
        /// Scales, biases and codes, group by group.
        data: Bytes,
    },
    /// `w = scale[row] * code`, eight bits a weight.
    Int8 {
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
        /// Codes in tiles.
        data: Bytes,
        /// `f32` for each row, padded to whole strips.
        scales: Bytes,
    },
    /// Plain numbers, row after row.
    Dense {
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
        /// Element type.
        dtype: DenseType,
        /// `rows * cols` elements, aligned for their type.
        data: Bytes,
    },
}

impl Matrix {
    /// What the kernels take.
    pub fn view(&self) -> Mat<'_> {
        let (rows, cols) = (self.rows(), self.cols());
        match self {
            Matrix::Ternary { tiles, scales, .. } => Mat::Ternary(Ternary {
                rows,
                cols,
                tiles,
                scales: scales.as_f32(),
            }),
            Matrix::Grouped { layout, data, .. } => Mat::Grouped(Grouped {
                rows,
                cols,
                layout: *layout,
                data,
            }),
            Matrix::Int8 { data, scales, .. } => Mat::Int8(Int8Rows {
                rows,
                cols,
                data,
                scales: scales.as_f32(),
            }),
            Matrix::Dense { dtype, data, .. } => {
                let data = match dtype {
                    DenseType::Bf16 => DenseData::Bf16(data.as_u16()),
                    DenseType::F16 => DenseData::F16(data.as_u16()),
                    DenseType::F32 => DenseData::F32(data.as_f32()),
                };
                Mat::Dense(Dense { rows, cols, data })
            }
        }
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        match *self {
            Matrix::Ternary { rows, .. }
            | Matrix::Grouped { rows, .. }
            | Matrix::Int8 { rows, .. }
            | Matrix::Dense { rows, .. } => rows,
        }
    }

    /// Inputs.
    pub fn cols(&self) -> usize {
        match *self {
            Matrix::Ternary { cols, .. }
            | Matrix::Grouped { cols, .. }
            | Matrix::Int8 { cols, .. }
            | Matrix::Dense { cols, .. } => cols,
        }
    }

    /// The parts that hold its numbers.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Bytes> {
        let (first, second) = match self {
            Matrix::Ternary { tiles, scales, .. } => (tiles, Some(scales)),
            Matrix::Int8 { data, scales, .. } => (data, Some(scales)),
            Matrix::Grouped { data, .. } | Matrix::Dense { data, .. } => (data, None),
        };
        [first].into_iter().chain(second)
    }

    /// Bytes it takes.
    pub fn byte_len(&self) -> u64 {
        self.parts().map(|part| part.len() as u64).sum()
    }

    /// It is two bits a weight.
    pub fn is_ternary(&self) -> bool {
        matches!(self, Matrix::Ternary { .. })
    }
}

/// An expert's feed-forward block.
#[derive(Debug, Clone)]
pub struct Expert {
    /// `[expert_hidden, hidden]`.
    pub gate: Matrix,
    /// `[expert_hidden, hidden]`.
    pub up: Matrix,
    /// `[hidden, expert_hidden]`.
    pub down: Matrix,
}

/// One layer.
#[derive(Debug, Clone)]
pub struct Layer {
    /// `[hidden]`.
    pub input_norm: Vec<f32>,
    /// `[heads * head_dim, hidden]`.
    pub q: Matrix,
    /// `[kv_heads * head_dim, hidden]`.
    pub k: Matrix,
    /// `[kv_heads * head_dim, hidden]`.
    pub v: Matrix,
    /// `[hidden, heads * head_dim]`.
    pub o: Matrix,
    /// `[head_dim]`.
    pub q_norm: Vec<f32>,
    /// `[head_dim]`.
    pub k_norm: Vec<f32>,
    /// `[hidden]`.
    pub post_norm: Vec<f32>,
    /// `[experts, hidden]`.
    pub router: Matrix,
    /// As many as the configuration says.
    pub experts: Vec<Expert>,
}

/// A dense head rounded to eight bits, to find the few rows that can win before those are read in full.
#[derive(Debug, Clone)]
pub struct HeadScreen {
    /// [`Matrix::Int8`] of the head's shape.
    pub rows: Matrix,
    /// `f32` for each row (padded to whole strips): an upper bound of the Euclidean norm of `source row - rounded row`.
    pub error_norms: Bytes,
}

/// FlashHead: clusters of the head's rows, each with a centroid, so that a token can be proposed from a few of them. Tokens
/// proposed are verified with the full head unless somebody asked for approximate answers.
///
/// Cluster `c` is rows `c * cluster_size ..` of the head **as it is stored**: with a FlashHead the head's rows are kept cluster by
/// cluster, in the order that [`Weights::head_order`] tells, so that a cluster is read in
/// one run.
#[derive(Debug, Clone)]
pub struct FlashHead {
    /// `[clusters, hidden]`: the unit centroid of each cluster times the largest row norm in it.
    pub centroids: Matrix,
    /// Rows of the head in a cluster; `clusters * cluster_size` is the vocabulary's size.
    pub cluster_size: usize,
    /// Clusters whose rows are looked at: those with the largest scores, of equal ones the lower number.
    pub probes: usize,
    /// Tokens that are looked at always, distinct.
    pub force_tokens: Vec<u32>,
}

impl FlashHead {
    /// What does not fit a head of `vocab` rows and `hidden` columns stored in the order `order`, in words.
    ///
    /// # Errors
    /// The defect: what was expected, and what was found.
    pub fn check(
        &self,
        vocab: usize,
        hidden: usize,
        order: Option<&HeadOrder>,
    ) -> Result<(), String> {
        let clusters = self.centroids.rows();
        if clusters.checked_mul(self.cluster_size) != Some(vocab) || clusters == 0 {
            return Err(format!(
                "expected clusters that hold {vocab} tokens in all, found {clusters} of {}",
                self.cluster_size
            ));
        }
        if self.centroids.cols() != hidden {
            return Err(format!(
                "expected centroids of {hidden} columns, found {}",
                self.centroids.cols()
            ));
        }
        if !(1..=clusters).contains(&self.probes) {
            return Err(format!(
                "expected 1 to {clusters} probes, found {}",
                self.probes
            ));
        }
        if order.is_some_and(|order| order.token_of_row().len() != vocab) {
            return Err(format!("expected an order of {vocab} rows"));
        }
        let mut forced = self.force_tokens.clone();
        forced.sort_unstable();
        if forced.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("expected distinct tokens to force, found one twice".to_owned());
        }
        match forced.last() {
            Some(&id) if id as usize >= vocab => Err(format!(
                "expected tokens to force below {vocab}, found {id}"
            )),
            _ => Ok(()),
        }
    }
}

/// All weights of a model.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Sizes and constants.
    pub config: Config,
    /// `[vocab, hidden]`.
    pub embedding: Matrix,
    /// As many as the configuration says.
    pub layers: Vec<Layer>,
    /// `[hidden]`.
    pub norm: Vec<f32>,
    /// `[vocab, hidden]`; `None` when the embedding serves as head.
    pub head: Option<Matrix>,
    /// Which token each row of `head` and of its screen is; `None`: row `r` is token `r`, as always where there is no `head`.
    pub head_order: Option<Arc<HeadOrder>>,
    /// Clusters of the head's rows; only beside a `head`.
    pub flash: Option<Arc<FlashHead>>,
    /// Beside a dense head.
    pub screen: Option<HeadScreen>,
    /// What was loaded, for people and programs.
    pub summary: Summary,
}

impl Weights {
    /// The head's matrix at source precision: its own, or the embedding.
    pub fn head_matrix(&self) -> &Matrix {
        self.head.as_ref().unwrap_or(&self.embedding)
    }
}

/// The layouts of checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Hugging Face safetensors with plain floats.
    HuggingFace,
    /// MLX safetensors with packed codes.
    Mlx,
    /// A GGUF file.
    Gguf,
    /// This program's own packed form.
    Packed,
    /// Made in memory, without a file.
    Synthetic,
}

impl Format {
    /// A short stable name.
    pub fn name(self) -> &'static str {
        match self {
            Format::HuggingFace => "hf",
            Format::Mlx => "mlx",
            Format::Gguf => "gguf",
            Format::Packed => "packed",
            Format::Synthetic => "synthetic",
        }
    }
}

/// What was loaded.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The checkpoint's own layout (of the source, where a packed copy of it was used).
    pub format: Format,
    /// Weights in all, without the norms.
    pub weights: u64,
    /// Of those, weights kept at two bits.
    pub ternary_weights: u64,
    /// Experts whose three matrices are all kept at two bits.
    pub packed_experts: usize,
    /// Bytes of all matrices and of the head's screen.
    pub bytes: u64,
    /// Of those, bytes that are views of a file.
    pub mapped_bytes: u64,
    /// The packed file that was used or made, if any.
    pub packed_file: Option<std::path::PathBuf>,
    /// What the user should know, in whole sentences.
    pub warnings: Vec<String>,
}
