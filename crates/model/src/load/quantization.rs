//! The `quantization` object of an MLX checkpoint's config.json: bits and group size, with overrides by tensor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::json::describe;

/// How one matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Bits of a code: 2, 4 or 8.
    pub bits: usize,
    /// Columns that share a scale and a bias: 32, 64 or 128.
    pub group: usize,
}

/// The settings of all matrices.
#[derive(Debug)]
pub(crate) struct Quantization {
    file: PathBuf,
    default: Setting,
    /// `None`: not quantised.
    overrides: BTreeMap<String, Option<Setting>>,
}

/// Members that say nothing about how matrices are stored.
const NOTES: [&str; 3] = ["quant_method", "linear_class", "quantization_mode"];

impl Quantization {
    /// Reads `quantization` from config.json's object.
    ///
    /// Errors: [`Error::Field`], [`Error::Unsupported`] for a mode that is not affine.
    pub(crate) fn from_config(file: &Path, config: &Map<String, Value>) -> Result<Self> {
        let expected = "an object with `bits` and `group_size`, as the weights are packed codes";
        let object = match config.get("quantization") {
            Some(Value::Object(object)) => object,
            other => {
                let found = other.map_or("nothing".to_owned(), describe);
                return Err(Error::field(file, "quantization", expected, found));
            }
        };
        let default = read_setting(file, "quantization", object, None)?;
        let mut overrides = BTreeMap::new();
        for (name, value) in object {
            let field = format!("quantization.{name}");
            let setting = match value {
                _ if ["bits", "group_size", "mode"].contains(&name.as_str()) => continue,
                Value::String(_) if NOTES.contains(&name.as_str()) => continue,
                Value::Object(inner) => Some(read_setting(file, &field, inner, Some(default))?),
                Value::Bool(true) => Some(default),
                Value::Bool(false) => None,
                other => {
                    let expected = "an object with `bits` or `group_size`, or true or false";
                    return Err(Error::field(file, field, expected, describe(other)));
                }
            };
            overrides.insert(name.clone(), setting);
        }
        Ok(Quantization {
            file: file.to_owned(),
            default,
            overrides,
        })
    }

    /// How the matrix of that name is stored, which the file shows to be codes.
    ///
    /// Errors: [`Error::Field`] where the configuration says that it is not quantised.
    pub(crate) fn setting(&self, name: &str) -> Result<Setting> {
        match self.overrides.get(name) {
            None => Ok(self.default),
            Some(Some(setting)) => Ok(*setting),
            Some(None) => {
                let expected = "an object, as the tensor holds packed codes";
                Err(Error::field(
                    &self.file,
                    format!("quantization.{name}"),
                    expected,
                    "false",
                ))
            }
        }
    }

    /// A member of the setting of that matrix does not fit the file.
    pub(crate) fn error(
        &self,
        name: &str,
        member: &str,
        expected: impl Into<String>,
        found: usize,
    ) -> Error {
        let field = match self.overrides.contains_key(name) {
            true => format!("quantization.{name}.{member}"),
            false => format!("quantization.{member}"),
        };
        Error::field(
            &self.file,
            field,
            expected,
            format!("{found} (for `{name}`)"),
        )
    }

    /// Overrides for matrices that are not in `known`.
    pub(crate) fn unused(&self, known: &BTreeSet<String>) -> impl Iterator<Item = &str> {
        self.overrides
            .keys()
            .map(String::as_str)
            .filter(|name| !known.contains(*name))
    }
}

fn read_setting(
    file: &Path,
    field: &str,
    object: &Map<String, Value>,
    default: Option<Setting>,
) -> Result<Setting> {
    match object.get("mode") {
        None | Some(Value::Null) => {}
        Some(mode) if mode == "affine" => {}
        Some(mode) => {
            return Err(Error::Unsupported {
                file: file.to_owned(),
                field: format!("{field}.mode"),
                expected: "\"affine\"".to_owned(),
                found: describe(mode),
            });
        }
    }
    let one_of = |member: &str, fits: [u64; 3], default: Option<usize>| match (
        object.get(member),
        default,
    ) {
        (Some(value), _) if value.as_u64().is_some_and(|n| fits.contains(&n)) => {
            Ok(value.as_u64().unwrap_or(0) as usize)
        }
        (None, Some(default)) => Ok(default),
        (value, _) => {
            let expected = format!("{}, {} or {}", fits[0], fits[1], fits[2]);
            let found = value.map_or("nothing".to_owned(), describe);
            Err(Error::field(
                file,
                format!("{field}.{member}"),
                expected,
                found,
            ))
        }
    };
    Ok(Setting {
        bits: one_of("bits", [2, 4, 8], default.map(|setting| setting.bits))?,
        group: one_of(
            "group_size",
            [32, 64, 128],
            default.map(|setting| setting.group),
        )?,
    })
}
