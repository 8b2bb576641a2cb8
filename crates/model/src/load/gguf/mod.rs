//! GGUF files, the form llama.cpp keeps models in: one file or the parts of a split one.

mod blocks;
mod header;
mod matrix;
mod parts;
mod settings;
mod signs;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use self::blocks::GgmlType;
use self::header::TensorInfo;
use self::parts::Parts;
use self::settings::Trouble;
use super::dense::{self, Packing, Part};
use super::file::SourceFile;
use super::options::LoadOptions;
use super::safetensors::{Dtype, Tensor};
use super::source::{Room, Source};
use super::tensors::TensorRef;
use crate::config::Config;
use crate::error::{Defect, Error, Result};
use crate::slots::{MatrixSlot, NormSlot, Projection};
use crate::weights::{Format, Matrix};

/// Whether a path is to be read as GGUF: by its ending, or by the magic number of the file.
pub(crate) fn is_gguf(path: &Path) -> bool {
    let named = path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
    named || path.is_file() && SourceFile::open(path).is_ok_and(|file| parts::has_magic(&file))
}

/// A checkpoint in this layout, with every tensor's presence, type and shape checked.
pub(crate) struct GgufSource {
    config: Config,
    files: Vec<SourceFile>,
    /// File and place of each tensor.
    tensors: HashMap<String, (usize, TensorInfo)>,
    /// The fused query, key and value matrices of these layers are one tensor.
    fused: Vec<bool>,
    /// Tensors of wider codes that are ternary, to judge by their first rows.
    signs: HashSet<String>,
    options: LoadOptions,
}

impl GgufSource {
    /// Opens a file, and the further parts of a split one.
    ///
    /// Errors: [`Error::ModelNotFound`], [`Error::Read`], [`Error::Unsupported`], and everything that headers can show.
    pub(crate) fn open(path: &Path, options: &LoadOptions) -> Result<Self> {
        let Parts {
            files,
            tensors,
            header,
            head,
        } = parts::open(path)?;
        let tied = !tensors.contains_key("output.weight");
        let config = settings::config(&header, &head, tied).map_err(|trouble| match trouble {
            Trouble::Unsupported(field, expected, found) => Error::Unsupported {
                file: path.to_owned(),
                field,
                expected,
                found,
            },
            Trouble::Broken(problem) => Error::defect(path, Defect::Gguf { problem }),
        })?;
        let fused = (0..config.layers.len())
            .map(|l| tensors.contains_key(&format!("blk.{l}.attn_qkv.weight")))
            .collect();
        let mut source = GgufSource {
            config,
            files,
            tensors,
            fused,
            signs: HashSet::new(),
            options: options.clone(),
        };
        source.check_tensors()?;
        source.find_signs()?;
        Ok(source)
    }

    /// Every tensor the model needs is there, once, with the right shape and a type that fits; none is left over.
    fn check_tensors(&self) -> Result<()> {
        let mut taken = BTreeSet::new();
        for slot in MatrixSlot::all(&self.config) {
            let place = self.place(slot);
            let (file, info) = self.take(&place.tensor)?;
            expect_shape(file, info, &place.dims)?;
            taken.insert(place.tensor);
        }
        for slot in NormSlot::all(&self.config) {
            let name = norm_name(slot);
            let (file, info) = self.take(&name)?;
            expect_shape(file, info, &[slot.len(&self.config) as u64])?;
            if float_type(info.ty).is_none() {
                return Err(Error::defect(
                    file.path(),
                    Defect::Dtype {
                        tensor: name,
                        expected: "F32, F16 or BF16",
                        found: info.ty.name(),
                    },
                ));
            }
            taken.insert(name);
        }
        let left = self
            .tensors
            .keys()
            .filter(|name| !taken.contains(*name))
            .min();
        match left {
            Some(name) => Err(Error::defect(
                self.files[self.tensors[name].0].path(),
                Defect::Unexpected {
                    tensor: name.clone(),
                },
            )),
            None => Ok(()),
        }
    }

    /// Looks at the first row of each tensor that may be packed.
    fn find_signs(&mut self) -> Result<()> {
        let mut found = HashSet::new();
        for slot in MatrixSlot::all(&self.config) {
            let name = self.place(slot).tensor;
            let first = !matches!(slot, MatrixSlot::Expert(_, expert, _) if expert > 0);
            if first && Packing::of(slot, &self.options).is_ternary() {
                let (file, info) = self.take(&name)?;
                if signs::begins_ternary(file, info, slot.shape(&self.config).1)? {
                    found.insert(name);
                }
            }
        }
        self.signs = found;
        Ok(())
    }

    fn take(&self, name: &str) -> Result<(&SourceFile, &TensorInfo)> {
        match self.tensors.get(name) {
            Some((file, info)) => Ok((&self.files[*file], info)),
            None => Err(Error::defect(
                self.files[0].path(),
                Defect::Missing {
                    tensor: name.to_owned(),
                    hint: String::new(),
                },
            )),
        }
    }

    /// Where a matrix lies: its tensor, that tensor's sizes in the file's order, and its first row in it.
    fn place(&self, slot: MatrixSlot) -> Place {
        let c = &self.config;
        let (rows, cols) = slot.shape(c);
        let whole = |tensor: String| Place {
            tensor,
            dims: vec![cols as u64, rows as u64],
            stacked: None,
            first_row: 0,
        };
        let layer = |l: usize, name: &str| whole(format!("blk.{l}.{name}.weight"));
        let attention = |l: usize, name: &str, first_row: usize| {
            if self.fused[l] {
                let all = c.query_rows() + 2 * c.kv_rows();
                Place {
                    dims: vec![cols as u64, all as u64],
                    first_row,
                    ..layer(l, "attn_qkv")
                }
            } else {
                layer(l, name)
            }
        };
        match slot {
            MatrixSlot::Embedding => whole("token_embd.weight".to_owned()),
            MatrixSlot::Head => whole("output.weight".to_owned()),
            MatrixSlot::Query(l) => attention(l, "attn_q", 0),
            MatrixSlot::Key(l) => attention(l, "attn_k", c.query_rows()),
            MatrixSlot::Value(l) => attention(l, "attn_v", c.query_rows() + c.kv_rows()),
            MatrixSlot::Output(l) => layer(l, "attn_output"),
            MatrixSlot::Router(l) => layer(l, "ffn_gate_inp"),
            MatrixSlot::Expert(l, e, projection) => {
                let name = match projection {
                    Projection::Gate => "ffn_gate_exps",
                    Projection::Up => "ffn_up_exps",
                    Projection::Down => "ffn_down_exps",
                };
                Place {
                    dims: vec![cols as u64, rows as u64, c.experts as u64],
                    stacked: Some(e),
                    first_row: e * rows,
                    ..layer(l, name)
                }
            }
        }
    }
}

/// Where a matrix lies.
struct Place {
    tensor: String,
    dims: Vec<u64>,
    /// Which of the stacked matrices.
    stacked: Option<usize>,
    first_row: usize,
}

/// Sizes compared, outermost first as the other layouts show them. A last size of 1 may be left out.
fn expect_shape(file: &SourceFile, info: &TensorInfo, expected: &[u64]) -> Result<()> {
    let trimmed = |dims: &[u64]| -> Vec<u64> {
        let ones = dims.iter().rev().take_while(|d| **d == 1).count();
        dims[..dims.len() - ones.min(dims.len() - 1)].to_vec()
    };
    if trimmed(&info.dims) == trimmed(expected) {
        return Ok(());
    }
    let outermost_first = |dims: &[u64]| dims.iter().rev().copied().collect();
    Err(Error::defect(
        file.path(),
        Defect::Shape {
            tensor: info.name.clone(),
            expected: outermost_first(expected),
            found: outermost_first(&info.dims),
        },
    ))
}

fn norm_name(slot: NormSlot) -> String {
    match slot {
        NormSlot::Input(l) => format!("blk.{l}.attn_norm.weight"),
        NormSlot::Query(l) => format!("blk.{l}.attn_q_norm.weight"),
        NormSlot::Key(l) => format!("blk.{l}.attn_k_norm.weight"),
        NormSlot::PostAttention(l) => format!("blk.{l}.ffn_norm.weight"),
        NormSlot::Final => "output_norm.weight".to_owned(),
    }
}

/// The dtype of a plain float type.
fn float_type(ty: GgmlType) -> Option<Dtype> {
    Some(match ty {
        GgmlType::F32 => Dtype::F32,
        GgmlType::F16 => Dtype::F16,
        GgmlType::Bf16 => Dtype::Bf16,
        _ => return None,
    })
}

impl Source for GgufSource {
    fn format(&self) -> Format {
        Format::Gguf
    }

    fn recipe(&self) -> &'static str {
        "gguf, ternary rows of wider codes packed"
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn warnings(&self) -> &[String] {
        &[]
    }

    fn files(&self) -> Vec<&SourceFile> {
        self.files.iter().collect()
    }

    fn norm(&self, slot: NormSlot) -> Result<Vec<f32>> {
        let (file, info) = self.take(&norm_name(slot))?;
        let dtype = float_type(info.ty).expect("checked when the source was opened");
        let tensor = Tensor {
            name: info.name.clone(),
            dtype,
            shape: vec![slot.len(&self.config) as u64],
            begin: info.bytes.start as u64,
            end: info.bytes.end as u64,
        };
        dense::vector(&TensorRef::new(file, &tensor))
    }

    fn source_bytes(&self, slot: MatrixSlot) -> u64 {
        let (rows, cols) = slot.shape(&self.config);
        let ty = self.tensors[&self.place(slot).tensor].1.ty;
        (rows * cols / ty.block() * ty.block_bytes()) as u64
    }

    fn packed_bytes(&self, slot: MatrixSlot) -> u64 {
        let (rows, cols) = slot.shape(&self.config);
        let name = self.place(slot).tensor;
        let ty = self.tensors[&name].1.ty;
        let packed = match float_type(ty) {
            Some(_) => Packing::of(slot, &self.options).is_ternary(),
            None => ty.is_ternary() || self.signs.contains(&name),
        };
        match (packed, blocks::affine_layout(ty)) {
            (true, _) => dense::ternary_len(rows, cols),
            (false, Some(layout)) => layout.bytes(rows, cols) as u64,
            (false, None) => self.source_bytes(slot),
        }
    }

    fn matrix(&self, slot: MatrixSlot, room: &Room<'_>) -> Result<Matrix> {
        let place = self.place(slot);
        let (file, info) = self.take(&place.tensor)?;
        let (rows, cols) = slot.shape(&self.config);
        let row_bytes = cols / info.ty.block() * info.ty.block_bytes();
        let begin = (info.bytes.start + place.first_row * row_bytes) as u64;
        if let Some(dtype) = float_type(info.ty) {
            // Seen from the part's own first row; a stacked one keeps its number for messages.
            let tensor = Tensor {
                name: info.name.clone(),
                dtype,
                shape: vec![rows as u64, cols as u64],
                begin,
                end: begin + (rows * row_bytes) as u64,
            };
            let part = Part {
                tensor: TensorRef::new(file, &tensor),
                stacked: None,
                rows,
            };
            return dense::matrix(&part, cols, Packing::of(slot, &self.options), room);
        }
        let blocks = matrix::Blocks {
            file,
            info,
            stacked: place.stacked,
            begin,
            rows,
            cols,
        };
        blocks.load(Packing::of(slot, &self.options), room)
    }
}
