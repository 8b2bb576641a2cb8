//! The MLX layout: codes of 2, 4 or 8 bits in 32-bit words, first column in the lowest bits.
//!
//! A matrix is stored in one of three forms: two-bit codes with one `row_alpha` a row (`w = alpha (code - 1)`), codes with
//! `scales` and `biases` for each group of columns (`w = scale code + bias`), or plain floats. A layer's experts are stacked
//! in one tensor, or stored one by one.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use kernels::layout::{self, GroupedLayout, ScaleFormat};
use serde_json::{Map, Value};

use super::dense::{self, FLOAT_NAMES, FLOATS, Packing, Part, TernaryRows};
use super::file::SourceFile;
use super::hf::{EXTRA_HEAD, read_norm, take_norms};
use super::options::LoadOptions;
use super::quantization::{Quantization, Setting};
use super::safetensors::Dtype;
use super::source::{Room, Source};
use super::tensors::{Account, TensorRef, TensorSet};
use crate::config::Config;
use crate::error::{Defect, Error, Result};
use crate::slots::{MatrixSlot, NormSlot, Projection};
use crate::weights::{Format, Matrix};

/// A checkpoint in this layout, with every tensor's presence, dtype and shape checked.
pub(crate) struct MlxSource {
    config: Config,
    set: TensorSet,
    texts: Vec<SourceFile>,
    places: HashMap<MatrixSlot, Place>,
    warnings: Vec<String>,
    options: LoadOptions,
}

/// Where a matrix is in the file.
struct Place {
    /// Its name without ending; that of the stack where it is stacked.
    name: String,
    /// Which of the stack.
    stacked: Option<usize>,
    form: Form,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Plain,
    RowAlpha,
    Grouped(Setting),
}

/// Whether a checkpoint is in this layout: it says so, or holds packed codes.
pub(crate) fn is_mlx(config: &Map<String, Value>, set: &TensorSet) -> bool {
    config
        .get("quantization")
        .is_some_and(|value| !value.is_null())
        || set.any(|name, dtype| dtype == Dtype::U32 && name.ends_with(".weight"))
}

impl MlxSource {
    /// Errors: everything that the headers alone can show.
    pub(crate) fn open(
        config: Config,
        config_file: &Path,
        config_object: &Map<String, Value>,
        set: TensorSet,
        texts: Vec<SourceFile>,
        options: &LoadOptions,
    ) -> Result<Self> {
        let quantization = Quantization::from_config(config_file, config_object)?;
        let one_by_one: BTreeSet<usize> = set
            .iter()
            .filter_map(|tensor| layer_of_single_expert(tensor.name()))
            .collect();
        let mut account = Account::new(&set);
        let mut places: HashMap<MatrixSlot, Place> = HashMap::new();
        for slot in MatrixSlot::all(&config) {
            // What is true of a stack's first expert is true of the others.
            if let MatrixSlot::Expert(l, e, p) = slot
                && let Some(first) = places.get(&MatrixSlot::Expert(l, 0, p))
                && let Place {
                    stacked: Some(_),
                    name,
                    form,
                } = first
            {
                let (name, form) = (name.clone(), *form);
                places.insert(
                    slot,
                    Place {
                        name,
                        stacked: Some(e),
                        form,
                    },
                );
                continue;
            }
            let (name, stacked) = match slot {
                MatrixSlot::Expert(l, e, p) if is_stacked(&set, l, &one_by_one)? => {
                    (stack_name(l, p), Some(e))
                }
                other => (other.to_string(), None),
            };
            let (rows, cols) = slot.shape(&config);
            let stack = stacked.map(|_| config.experts);
            let form = check_form(&name, stack, rows, cols, &mut account, &quantization)?;
            places.insert(
                slot,
                Place {
                    name,
                    stacked,
                    form,
                },
            );
        }
        take_norms(&config, &mut account)?;
        let mut warnings = set.warnings.clone();
        if config.tied {
            let extra = ["weight", "scales", "biases", "row_alpha"]
                .map(|part| account.skip(&format!("lm_head.{part}")));
            if extra.contains(&true) {
                warnings.push(EXTRA_HEAD.to_owned());
            }
        }
        account.finish()?;
        let known = places.values().map(|place| place.name.clone()).collect();
        for name in quantization.unused(&known) {
            warnings.push(format!(
                "{}: `quantization.{name}` names no matrix of the model",
                config_file.display()
            ));
        }
        Ok(MlxSource {
            config,
            set,
            texts,
            places,
            warnings,
            options: options.clone(),
        })
    }

    fn tensor(&self, name: &str, part: &str) -> TensorRef<'_> {
        self.set
            .get(&format!("{name}.{part}"))
            .expect("taken when the source was opened")
    }
}

fn stack_name(layer: usize, projection: Projection) -> String {
    format!("model.layers.{layer}.mlp.switch_mlp.{}", projection.name())
}

/// The layer of a tensor of an expert that is stored on its own.
fn layer_of_single_expert(name: &str) -> Option<usize> {
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    rest.starts_with("mlp.experts.")
        .then(|| layer.parse().ok())
        .flatten()
}

/// A layer's experts are stacked; an error where some are and some are not.
fn is_stacked(set: &TensorSet, layer: usize, one_by_one: &BTreeSet<usize>) -> Result<bool> {
    let stack = Projection::ALL
        .map(|p| format!("{}.weight", stack_name(layer, p)))
        .into_iter()
        .find(|name| set.contains(name));
    match (stack, one_by_one.contains(&layer)) {
        (Some(first), true) => {
            let second = format!("model.layers.{layer}.mlp.experts.*");
            Err(Error::defect(
                set.path(),
                Defect::BothForms { first, second },
            ))
        }
        (stack, single) => Ok(stack.is_some() || !single),
    }
}

/// Takes the tensors of a matrix (or of a stack of them) and checks that they fit its shape and each other.
fn check_form(
    name: &str,
    stack: Option<usize>,
    rows: usize,
    cols: usize,
    account: &mut Account<'_>,
    quantization: &Quantization,
) -> Result<Form> {
    let part = |part: &str| format!("{name}.{part}");
    let shape = |cols: Option<usize>| -> Vec<u64> {
        stack
            .into_iter()
            .chain([rows])
            .chain(cols)
            .map(|size| size as u64)
            .collect()
    };
    let weight = account.take(&part("weight"))?;
    if FLOATS.contains(&weight.dtype()) {
        weight.expect_shape(&shape(Some(cols)))?;
        return Ok(Form::Plain);
    }
    weight.expect_dtype(&[Dtype::U32], "U32 (packed codes), BF16, F16 or F32")?;
    let setting = quantization.setting(name)?;
    let [row_alpha, scales, biases] =
        ["row_alpha", "scales", "biases"].map(|ending| account.contains(&part(ending)));
    if row_alpha {
        if scales || biases {
            let other = if scales { "scales" } else { "biases" };
            return Err(weight.error(Defect::BothForms {
                first: part("row_alpha"),
                second: part(other),
            }));
        }
        if setting.bits != 2 {
            return Err(quantization.error(
                name,
                "bits",
                "2, as the tensor has a `row_alpha`",
                setting.bits,
            ));
        }
        weight.expect_shape(&shape(Some(cols.div_ceil(16))))?;
        let alpha = account.take(&part("row_alpha"))?;
        alpha.expect_dtype(&FLOATS, FLOAT_NAMES)?;
        alpha.expect_shape(&shape(None))?;
        return Ok(Form::RowAlpha);
    }
    if !cols.is_multiple_of(setting.group) {
        let expected = format!("a divisor of the matrix's {cols} columns");
        return Err(quantization.error(name, "group_size", expected, setting.group));
    }
    weight.expect_shape(&shape(Some(cols * setting.bits / 32)))?;
    for ending in ["scales", "biases"] {
        let hint = if scales || biases {
            ""
        } else {
            ", and so is `row_alpha`"
        };
        let tensor = account.take_or(&part(ending), hint)?;
        tensor.expect_dtype(&FLOATS, FLOAT_NAMES)?;
        tensor.expect_shape(&shape(Some(cols / setting.group)))?;
    }
    Ok(Form::Grouped(setting))
}

impl Source for MlxSource {
    fn format(&self) -> Format {
        Format::Mlx
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn files(&self) -> Vec<&SourceFile> {
        self.texts.iter().chain(self.set.files()).collect()
    }

    fn norm(&self, slot: NormSlot) -> Result<Vec<f32>> {
        read_norm(&self.set, slot)
    }

    fn source_bytes(&self, slot: MatrixSlot) -> u64 {
        let place = &self.places[&slot];
        let stack = if place.stacked.is_some() {
            self.config.experts as u64
        } else {
            1
        };
        self.tensor(&place.name, "weight").byte_len() / stack
    }

    fn packed_bytes(&self, slot: MatrixSlot) -> u64 {
        let (rows, cols) = slot.shape(&self.config);
        match self.places[&slot].form {
            Form::RowAlpha | Form::Grouped(Setting { bits: 2, .. }) => {
                dense::ternary_len(rows, cols)
            }
            Form::Plain if Packing::of(slot, &self.options).is_ternary() => {
                dense::ternary_len(rows, cols)
            }
            Form::Plain => self.source_bytes(slot),
            Form::Grouped(Setting { bits, group }) => GroupedLayout {
                bits,
                group,
                scales: ScaleFormat::Bf16,
            }
            .bytes(rows, cols) as u64,
        }
    }

    fn matrix(&self, slot: MatrixSlot, room: &Room<'_>) -> Result<Matrix> {
        let place = &self.places[&slot];
        let (rows, cols) = slot.shape(&self.config);
        let part = |ending: &str| Part {
            tensor: self.tensor(&place.name, ending),
            stacked: place.stacked,
            rows,
        };
        match place.form {
            Form::Plain => dense::matrix(
                &part("weight"),
                cols,
                Packing::of(slot, &self.options),
                room,
            ),
            Form::RowAlpha => {
                let weight = read_codes(&part("weight"), cols, 2)?;
                let alphas = dense::floats(&part("row_alpha"))?;
                if let Some((row, col)) = weight.find_code_three() {
                    let index = part("weight").index_of(row, col);
                    let tensor = part("weight").tensor;
                    return Err(tensor.error(Defect::Code {
                        tensor: tensor.name().to_owned(),
                        index,
                    }));
                }
                weight.ternary(&alphas, room)
            }
            Form::Grouped(setting) => {
                let weight = read_codes(&part("weight"), cols, setting.bits)?;
                let scales = dense::floats(&part("scales"))?;
                let biases = dense::floats(&part("biases"))?;
                if setting.bits == 2
                    && let Some(alphas) = row_alphas(&scales, &biases, rows)
                    && weight.find_code_three().is_none()
                {
                    return weight.ternary(&alphas, room);
                }
                check_range(&part("scales"), &scales, &biases, setting.bits)?;
                let both_bf16 = ["scales", "biases"]
                    .iter()
                    .all(|e| part(e).tensor.dtype() == Dtype::Bf16);
                weight.grouped(setting, &scales, &biases, both_bf16, room)
            }
        }
    }
}

/// One scale a row, where all groups of each row have the same one and the bias is its negative.
fn row_alphas(scales: &[f32], biases: &[f32], rows: usize) -> Option<Vec<f32>> {
    let groups = scales.len() / rows;
    if scales
        .iter()
        .zip(biases)
        .any(|(scale, bias)| *bias != -*scale)
    {
        return None;
    }
    scales
        .chunks(groups)
        .map(|row| row.iter().all(|scale| *scale == row[0]).then_some(row[0]))
        .collect()
}

/// No code can become infinite.
fn check_range(part: &Part<'_>, scales: &[f32], biases: &[f32], bits: usize) -> Result<()> {
    let largest = ((1u32 << bits) - 1) as f32;
    match scales
        .iter()
        .zip(biases)
        .position(|(scale, bias)| !(scale * largest + bias).is_finite())
    {
        Some(at) => Err(dense::not_finite(
            &part.tensor,
            f32::INFINITY.copysign(scales[at]),
            part.index(at),
        )),
        None => Ok(()),
    }
}

/// The codes of a matrix, as words along its rows.
struct Codes {
    words: Vec<u8>,
    rows: usize,
    cols: usize,
    bits: usize,
}

fn read_codes(part: &Part<'_>, cols: usize, bits: usize) -> Result<Codes> {
    let mut words = Vec::new();
    part.read(&mut words)?;
    Ok(Codes {
        words,
        rows: part.rows,
        cols,
        bits,
    })
}

impl Codes {
    fn row_words(&self) -> usize {
        (self.cols * self.bits).div_ceil(32)
    }

    fn row(&self, row: usize) -> impl ExactSizeIterator<Item = u32> {
        let bytes = &self.words[row * self.row_words() * 4..][..self.row_words() * 4];
        bytes
            .as_chunks()
            .0
            .iter()
            .map(|&word| u32::from_le_bytes(word))
    }

    /// Row and column of the first two-bit code 3; what lies behind the last column does not count.
    fn find_code_three(&self) -> Option<(usize, usize)> {
        let last = match self.cols % 16 {
            0 => !0,
            n => (1u32 << (2 * n)) - 1,
        };
        let words = self.row_words();
        for row in 0..self.rows {
            for (at, word) in self.row(row).enumerate() {
                let word = if at + 1 == words { word & last } else { word };
                let threes = word & word >> 1 & 0x5555_5555;
                if threes != 0 {
                    return Some((row, at * 16 + threes.trailing_zeros() as usize / 2));
                }
            }
        }
        None
    }

    /// `w = alpha (code - 1)`.
    fn ternary(&self, alphas: &[f32], room: &Room<'_>) -> Result<Matrix> {
        let mut ternary = TernaryRows::new(self.rows, self.cols, room)?;
        for (row, &alpha) in alphas.iter().enumerate() {
            ternary.set_words(row, self.row(row), alpha);
        }
        Ok(ternary.finish())
    }

    /// `w = scale code + bias`.
    fn grouped(
        &self,
        setting: Setting,
        scales: &[f32],
        biases: &[f32],
        bf16: bool,
        room: &Room<'_>,
    ) -> Result<Matrix> {
        // Two-bit codes that are not ternary are rare: the four-bit form serves them.
        let layout = GroupedLayout {
            bits: setting.bits.max(4),
            group: setting.group,
            scales: if bf16 {
                ScaleFormat::Bf16
            } else {
                ScaleFormat::F32
            },
        };
        let (rows, cols, groups) = (self.rows, self.cols, self.cols / setting.group);
        let mut data = room.arena.take(layout.bytes(rows, cols))?;
        let mut codes = vec![0u8; cols];
        let mask = ((1u32 << setting.bits) - 1) as u8;
        for row in 0..rows {
            for (codes, word) in codes.chunks_mut(32 / setting.bits).zip(self.row(row)) {
                for (i, code) in codes.iter_mut().enumerate() {
                    *code = (word >> (setting.bits * i)) as u8 & mask;
                }
            }
            let of_row = row * groups..(row + 1) * groups;
            layout::pack_grouped_row(
                &mut data,
                layout,
                cols,
                row,
                &codes,
                &scales[of_row.clone()],
                &biases[of_row],
            );
        }
        Ok(Matrix::Grouped {
            rows,
            cols,
            layout,
            data: data.freeze(),
        })
    }
}
