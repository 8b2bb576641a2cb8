//! The packed file: this program's own safetensors file, in which every matrix lies as the kernels read it.
//!
//! One tensor a matrix. The ending of its name says the form: `.ternary` (tiles, then `f32` row scales), `.q4g64.bf16` and its
//! like (affine codes; bits, group and scale format), `.weight` (plain numbers). Beside a dense head lies its `.screen` (8-bit
//! tiles, `f32` row scales, `f32` error norms). Norms are F32. All data begins at multiples of 64 bytes; where a tensor
//! does not end at one, a `padding.N` tensor follows, as the format allows no holes.

mod forms;
mod write;

use std::collections::{BTreeMap, HashMap};

use kernels::layout;

pub(crate) use self::forms::LAYOUT_VERSION;
use self::forms::{FORMAT, Form, grouped_forms};
pub(crate) use self::write::{config_json, write};
use super::dense;
use super::file::SourceFile;
use super::safetensors::Dtype;
use super::source::{Room, Source};
use super::tensors::{Account, TensorSet};
use crate::bytes::ALIGNMENT;
use crate::config::Config;
use crate::error::{Defect, Error, Result};
use crate::json;
use crate::slots::{MatrixSlot, NormSlot};
use crate::weights::{DenseType, Format, HeadScreen, Matrix};

/// A packed file opened for loading.
pub(crate) struct PackedSource {
    config: Config,
    set: TensorSet,
    format: Format,
    /// Whether scales and plain numbers are checked, as the file may not be of this program's making.
    verify: bool,
    forms: HashMap<MatrixSlot, (String, Form)>,
    has_screen: bool,
}

/// What a packed file must have been made from.
pub(crate) struct Origin<'a> {
    pub identity: &'a str,
    pub config: &'a Config,
}

/// The metadata is that of a packed file.
pub(crate) fn is_packed(metadata: &BTreeMap<String, String>) -> bool {
    metadata
        .get("format")
        .is_some_and(|format| format == FORMAT)
}

impl PackedSource {
    /// Opens a packed file that lies in a folder with a config.json, with which it must agree.
    ///
    /// Errors: as [`PackedSource::open`].
    pub(crate) fn open_beside(set: TensorSet, config: Config) -> Result<Self> {
        let path = set.path().to_owned();
        let mut packed = Self::open(set, None)?;
        if let Some((expected, found)) = first_difference(&config, &packed.config) {
            return Err(Error::defect(
                &path,
                Defect::PackedMismatch {
                    field: "config",
                    expected,
                    found,
                },
            ));
        }
        packed.config = config;
        Ok(packed)
    }

    /// Opens a packed file; with an `origin`, one that was made from just that, which is then trusted not to hold NaN.
    ///
    /// Errors: [`Defect::PackedMismatch`] where it is of another version, source or configuration, and everything else that the
    /// header can show.
    pub(crate) fn open(set: TensorSet, origin: Option<Origin<'_>>) -> Result<Self> {
        let path = set.path().to_owned();
        let expect = |field: &'static str, expected: &str, found: &str| {
            if expected == found {
                return Ok(());
            }
            let (expected, found) = (shorten(expected), shorten(found));
            Err(Error::defect(
                &path,
                Defect::PackedMismatch {
                    field,
                    expected,
                    found,
                },
            ))
        };
        let metadata = |field: &str| set.metadata.get(field).map_or("nothing", String::as_str);
        expect("format", FORMAT, metadata("format"))?;
        expect("layout", LAYOUT_VERSION, metadata("layout"))?;
        let config = Config::from_json(&path, metadata("config").as_bytes())?;
        if let Some(origin) = &origin {
            expect("source", origin.identity, metadata("source"))?;
            if let Some((expected, found)) = first_difference(origin.config, &config) {
                return Err(Error::defect(
                    &path,
                    Defect::PackedMismatch {
                        field: "config",
                        expected,
                        found,
                    },
                ));
            }
        }
        let formats = [
            Format::HuggingFace,
            Format::Mlx,
            Format::Gguf,
            Format::Synthetic,
        ];
        let format = formats
            .into_iter()
            .find(|format| format.name() == metadata("source_format"))
            .unwrap_or(Format::Packed);
        let mut account = Account::new(&set);
        let found = forms_by_name(&set);
        let forms = MatrixSlot::all(&config)
            .map(|slot| {
                let matrix = take_matrix(slot, slot.shape(&config), &found, &mut account)?;
                Ok((slot, matrix))
            })
            .collect::<Result<HashMap<_, _>>>()?;
        for slot in NormSlot::all(&config) {
            let tensor = account.take(&format!("{slot}.weight"))?;
            tensor.expect_dtype(&[Dtype::F32], "F32")?;
            tensor.expect_shape(&[slot.len(&config) as u64])?;
        }
        let head = if config.tied {
            MatrixSlot::Embedding
        } else {
            MatrixSlot::Head
        };
        let has_screen = matches!(forms[&head].1, Form::Dense(_));
        if has_screen {
            let (rows, cols) = head.shape(&config);
            let tensor = account.take(&format!("{head}.screen"))?;
            tensor.expect_dtype(&[Dtype::U8], "U8")?;
            tensor.expect_shape(&[
                (layout::int8_bytes(rows, cols) + 8 * layout::padded_rows(rows)) as u64,
            ])?;
        }
        for n in 0.. {
            if !account.skip(&format!("padding.{n}")) {
                break;
            }
        }
        account.finish()?;
        let config = origin
            .as_ref()
            .map_or(config, |origin| origin.config.clone());
        Ok(PackedSource {
            config,
            set,
            format,
            verify: origin.is_none(),
            forms,
            has_screen,
        })
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(160) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// The forms in which the file holds each matrix, by the matrix' name: one, in a sound file.
fn forms_by_name(set: &TensorSet) -> HashMap<&str, Vec<(&str, Form)>> {
    // The dtype of plain numbers is looked up later.
    let mut endings = vec![
        (".ternary".to_owned(), Form::Ternary),
        (".weight".to_owned(), Form::Dense(DenseType::F32)),
    ];
    endings.extend(
        grouped_forms().map(|(ending, layout)| (format!(".{ending}"), Form::Grouped(layout))),
    );
    let mut found: HashMap<&str, Vec<(&str, Form)>> = HashMap::new();
    for tensor in set.iter() {
        let name = tensor.name();
        for (ending, form) in &endings {
            if let Some(matrix) = name.strip_suffix(ending.as_str()) {
                found.entry(matrix).or_default().push((name, *form));
            }
        }
    }
    found
}

/// Takes the one tensor that holds the matrix and checks its size.
fn take_matrix(
    slot: MatrixSlot,
    shape: (usize, usize),
    found: &HashMap<&str, Vec<(&str, Form)>>,
    account: &mut Account<'_>,
) -> Result<(String, Form)> {
    let (rows, cols) = shape;
    let (name, form) = match found.get(slot.to_string().as_str()).map(Vec::as_slice) {
        None | Some([]) => {
            return Err(account.error(Defect::Missing {
                tensor: format!("{slot}.*"),
                hint: String::new(),
            }));
        }
        Some(&[(name, form)]) => (name, form),
        Some(several) => {
            let mut names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
            names.sort_unstable();
            return Err(account.error(Defect::BothForms {
                first: names[0].to_owned(),
                second: names[1].to_owned(),
            }));
        }
    };
    let tensor = account.take(name)?;
    let bytes = |bytes: usize| {
        tensor.expect_dtype(&[Dtype::U8], "U8")?;
        tensor.expect_shape(&[bytes as u64])
    };
    let form = match form {
        Form::Ternary => {
            bytes(layout::ternary_bytes(rows, cols) + 4 * layout::padded_rows(rows))?;
            form
        }
        Form::Grouped(layout) => {
            bytes(layout.bytes(rows, cols))?;
            form
        }
        Form::Dense(_) => {
            tensor.expect_shape(&[rows as u64, cols as u64])?;
            Form::Dense(dense::dense_type(&tensor)?)
        }
    };
    Ok((name.to_owned(), form))
}

impl Source for PackedSource {
    fn format(&self) -> Format {
        self.format
    }

    fn is_packed(&self) -> bool {
        true
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn warnings(&self) -> &[String] {
        &self.set.warnings
    }

    fn files(&self) -> Vec<&SourceFile> {
        self.set.files().collect()
    }

    fn norm(&self, slot: NormSlot) -> Result<Vec<f32>> {
        dense::vector(
            &self
                .set
                .get(&format!("{slot}.weight"))
                .expect("taken when the file was opened"),
        )
    }

    fn source_bytes(&self, slot: MatrixSlot) -> u64 {
        self.set
            .get(&self.forms[&slot].0)
            .map_or(0, |tensor| tensor.byte_len())
    }

    fn packed_bytes(&self, slot: MatrixSlot) -> u64 {
        self.source_bytes(slot)
    }

    fn matrix(&self, slot: MatrixSlot, room: &Room<'_>) -> Result<Matrix> {
        let (name, form) = &self.forms[&slot];
        let (rows, cols) = slot.shape(&self.config);
        let tensor = self.set.get(name).expect("taken when the file was opened");
        let data = tensor.bytes_aligned(0, tensor.byte_len() as usize, ALIGNMENT, room)?;
        let matrix = match *form {
            Form::Ternary => {
                let tiles = layout::ternary_bytes(rows, cols);
                let scales = data.slice(tiles, data.len() - tiles);
                Matrix::Ternary {
                    rows,
                    cols,
                    tiles: data.slice(0, tiles),
                    scales,
                }
            }
            Form::Grouped(layout) => Matrix::Grouped {
                rows,
                cols,
                layout,
                data,
            },
            Form::Dense(dtype) => Matrix::Dense {
                rows,
                cols,
                dtype,
                data,
            },
        };
        if self.verify {
            check_finite(&matrix, |value, row| {
                dense::not_finite(&tensor, value, vec![row as u64])
            })?;
        }
        Ok(matrix)
    }

    fn screen(&self, _: &Matrix, _: usize, room: &Room<'_>) -> Result<Option<HeadScreen>> {
        if !self.has_screen {
            return Ok(None);
        }
        let slot = if self.config.tied {
            MatrixSlot::Embedding
        } else {
            MatrixSlot::Head
        };
        let (rows, cols) = slot.shape(&self.config);
        let tensor = self
            .set
            .get(&format!("{slot}.screen"))
            .expect("taken when the file was opened");
        let all = tensor.bytes_aligned(0, tensor.byte_len() as usize, ALIGNMENT, room)?;
        let (data, floats) = (
            layout::int8_bytes(rows, cols),
            4 * layout::padded_rows(rows),
        );
        let rows = Matrix::Int8 {
            rows,
            cols,
            data: all.slice(0, data),
            scales: all.slice(data, floats),
        };
        let screen = HeadScreen {
            rows,
            error_norms: all.slice(data + floats, floats),
        };
        if self.verify {
            // A negative or absent bound would make the head's search miss the best token.
            let bad = |value: f32| !(value.is_finite() && value >= 0.0);
            let scales = all.slice(data, 2 * floats);
            if let Some(at) = scales.as_f32().iter().position(|&value| bad(value)) {
                let found = scales.as_f32()[at].to_string();
                let what = format!("tensor `{}`, number {at} after the codes", tensor.name());
                return Err(tensor.error(Defect::Format {
                    what,
                    expected: "a finite number, not negative".into(),
                    found,
                }));
            }
        }
        Ok(Some(screen))
    }
}

/// Looks at scales, biases and plain numbers; codes cannot be wrong.
fn check_finite(matrix: &Matrix, error: impl Fn(f32, usize) -> Error) -> Result<()> {
    let (view, cols) = (matrix.view(), matrix.cols());
    match matrix {
        Matrix::Ternary { scales, .. } => {
            match scales.as_f32().iter().position(|scale| !scale.is_finite()) {
                Some(row) => Err(error(scales.as_f32()[row], row)),
                None => Ok(()),
            }
        }
        _ => {
            let mut values = vec![0.0; cols];
            for row in 0..matrix.rows() {
                view.row_to_f32(row, &mut values);
                if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                    return Err(error(*value, row));
                }
            }
            Ok(())
        }
    }
}

/// The first member in which two configurations differ. End tokens are no part of the weights, and may.
fn first_difference(expected: &Config, found: &Config) -> Option<(String, String)> {
    let (expected, found) = (expected.to_json(), found.to_json());
    let members = expected.as_object().into_iter().flatten();
    let differs = |name: &&String| !name.ends_with("_token_id") && expected[*name] != found[*name];
    let name = members.map(|(name, _)| name).find(differs)?;
    Some((
        format!("{name} {}", json::describe(&expected[name])),
        json::describe(&found[name]),
    ))
}
