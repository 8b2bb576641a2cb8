//! Reading the members of `config.json`.

use std::path::Path;

use serde_json::{Map, Value};

use super::layer::{LayerKind, SWIGLU_LIMIT};
use crate::error::{Error, Result};
use crate::json;

/// The members of one JSON object, read with errors that name them.
pub(super) struct Fields<'a> {
    pub(super) file: &'a Path,
    pub(super) object: &'a Map<String, Value>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Fields<'a> {
    /// The member, where it is there and not null.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn error(
        &self,
        name: &str,
        expected: impl Into<String>,
        found: impl std::fmt::Display,
    ) -> Error {
        Error::field(self.file, name, expected, found)
    }

    pub(super) fn unsupported(&self, name: &str, expected: &str, found: &Value) -> Error {
        Error::Unsupported {
            file: self.file.to_owned(),
            field: name.to_owned(),
            expected: expected.to_owned(),
            found: json::describe(found),
        }
    }

    /// A whole number from 1 to `most`; required.
    pub(super) fn size(&self, name: &str, most: u64) -> Result<usize> {
        let expected = || format!("a whole number from 1 to {most}");
        let value = self
            .get(name)
            .ok_or_else(|| self.error(name, expected(), "nothing"))?;
        match value.as_u64() {
            Some(size) if (1..=most).contains(&size) => Ok(size as usize),
            _ => Err(self.error(name, expected(), json::describe(value))),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        value
            .as_f64()
            .map(Some)
            .ok_or_else(|| self.error(name, "a number", json::describe(value)))
    }

    /// `value`, or maple-preview's with a warning.
    pub(super) fn or_default(&mut self, name: &str, value: Option<f64>, default: f64) -> f64 {
        value.unwrap_or_else(|| {
            self.warnings.push(format!(
                "{}: `{name}` is missing; {default} is assumed",
                self.file.display()
            ));
            default
        })
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        let Some(value) = self.get(name) else {
            return Ok(default);
        };
        value
            .as_bool()
            .ok_or_else(|| self.error(name, "true or false", json::describe(value)))
    }

    /// Both names of the architecture, where both are there, must be Maple's; one must be.
    pub(super) fn check_architecture(&self) -> Result<()> {
        let (architectures, model_type) = (self.get("architectures"), self.get("model_type"));
        if let Some(value) = architectures {
            let fits = value.as_array().is_some_and(|names| {
                !names.is_empty() && names.iter().all(|n| n == "MapleForCausalLM")
            });
            if !fits {
                return Err(self.unsupported("architectures", "MapleForCausalLM", value));
            }
        }
        match model_type {
            Some(value) if value != "maple" => Err(self.unsupported("model_type", "maple", value)),
            None if architectures.is_none() => Err(self.unsupported(
                "architectures",
                "MapleForCausalLM",
                &Value::String("missing".into()),
            )),
            _ => Ok(()),
        }
    }

    /// Settings with one value that this program runs; absent means that value.
    pub(super) fn check_settings(&self) -> Result<()> {
        let fixed: [(&str, Value); 7] = [
            ("norm_topk_prob", true.into()),
            ("nope_on_global_attention", true.into()),
            ("use_qk_norm", true.into()),
            ("use_bias", false.into()),
            ("hidden_act", "silu".into()),
            ("num_shared_experts", 0.into()),
            ("first_k_dense_replace", 0.into()),
        ];
        for (name, only) in fixed {
            match self.get(name) {
                Some(value) if *value != only => {
                    return Err(self.unsupported(name, &only.to_string(), value));
                }
                _ => {}
            }
        }
        match self.get("rope_scaling") {
            Some(value) => Err(self.unsupported("rope_scaling", "null", value)),
            None => Ok(()),
        }
    }

    pub(super) fn layer_kinds(&self, count: usize) -> Result<Vec<LayerKind>> {
        let expected =
            || format!("a list of {count} layer types, one for each of num_hidden_layers");
        let value = self
            .get("layer_types")
            .ok_or_else(|| self.error("layer_types", expected(), "nothing"))?;
        let list = value
            .as_array()
            .ok_or_else(|| self.error("layer_types", expected(), json::describe(value)))?;
        if list.len() != count {
            return Err(self.error(
                "layer_types",
                expected(),
                format!("a list of {}", list.len()),
            ));
        }
        list.iter()
            .enumerate()
            .map(|(l, kind)| match kind.as_str() {
                Some("sliding_attention") => Ok(LayerKind::Sliding),
                Some("full_attention") => Ok(LayerKind::Full),
                _ => Err(self.unsupported(
                    &format!("layer_types[{l}]"),
                    "\"sliding_attention\" or \"full_attention\"",
                    kind,
                )),
            })
            .collect()
    }

    /// A bound for each layer, as packed files keep them; [`SWIGLU_LIMIT`] where none is given.
    pub(super) fn swiglu_limit(&self, count: usize) -> Result<Vec<f32>> {
        let Some(value) = self.get("swiglu_limit") else {
            return Ok(vec![SWIGLU_LIMIT; count]);
        };
        let list = value.as_array().filter(|list| list.len() == count);
        let limits = list.and_then(|list| {
            let limit = |value: &Value| {
                value
                    .as_f64()
                    .map(|limit| limit as f32)
                    .filter(|&limit| limit > 0.0 && limit.is_finite())
            };
            list.iter().map(limit).collect()
        });
        limits.ok_or_else(|| {
            let expected = format!("a list of {count} positive numbers, one for each layer");
            self.error("swiglu_limit", expected, json::describe(value))
        })
    }

    /// Rotary base and factor, from the top level or from `rope_parameters` (flat, or by layer type), which must agree.
    pub(super) fn rope(&mut self) -> Result<(f64, f64)> {
        let nested = self.rope_parameters()?;
        let mut read = |name: &str, default: f64| -> Result<f64> {
            let top = self.number(name)?;
            let inner = match &nested {
                Some((prefix, object)) => Fields {
                    file: self.file,
                    object,
                    warnings: Vec::new(),
                }
                .number(name)
                .map_err(|_| {
                    self.error(
                        &format!("{prefix}.{name}"),
                        "a number",
                        json::describe(&object[name]),
                    )
                })?
                .map(|value| (format!("{prefix}.{name}"), value)),
                None => None,
            };
            match (top, inner) {
                (Some(top), Some((inner_name, inner))) if top != inner => {
                    Err(self.error(&inner_name, format!("the same as `{name}`, {top}"), inner))
                }
                (top, inner) => {
                    Ok(self.or_default(name, top.or(inner.map(|(_, value)| value)), default))
                }
            }
        };
        let theta = read("rope_theta", 10_000.0)?;
        let factor = read("partial_rotary_factor", 0.5)?;
        if !(theta.is_finite() && theta > 0.0 && theta <= 1e12) {
            return Err(self.error("rope_theta", "a positive number up to 1e12", theta));
        }
        if !(0.0..=1.0).contains(&factor) {
            return Err(self.error("partial_rotary_factor", "a number from 0 to 1", factor));
        }
        Ok((theta, factor))
    }

    /// The object that holds the sliding layers' rotary settings, and its name.
    pub(super) fn rope_parameters(&self) -> Result<Option<(String, &'a Map<String, Value>)>> {
        let Some(value) = self.get("rope_parameters") else {
            return Ok(None);
        };
        let object = value
            .as_object()
            .ok_or_else(|| self.error("rope_parameters", "an object", json::describe(value)))?;
        let (name, object) = match object.get("sliding_attention") {
            Some(Value::Object(inner)) => ("rope_parameters.sliding_attention", inner),
            Some(other) if !other.is_null() => {
                return Err(self.error(
                    "rope_parameters.sliding_attention",
                    "an object",
                    json::describe(other),
                ));
            }
            _ => ("rope_parameters", object),
        };
        match object.get("rope_type").filter(|kind| !kind.is_null()) {
            Some(kind) if kind != "default" => {
                Err(self.unsupported(&format!("{name}.rope_type"), "\"default\"", kind))
            }
            _ => Ok(Some((name.to_owned(), object))),
        }
    }

    /// One token id, a list of them, or none. Ids that the vocabulary does not reach are dropped with a warning.
    pub(super) fn token_ids(&mut self, name: &str, vocab: usize) -> Result<Vec<u32>> {
        let Some(value) = self.get(name) else {
            return Ok(Vec::new());
        };
        let list = match value {
            Value::Array(list) => list.as_slice(),
            single => std::slice::from_ref(single),
        };
        let mut ids = Vec::new();
        for item in list {
            let id = item.as_u64().ok_or_else(|| {
                self.error(
                    name,
                    "a token id or a list of token ids",
                    json::describe(value),
                )
            })?;
            if id >= vocab as u64 {
                self.warnings.push(format!(
                    "{}: `{name}` names token {id}, beyond the vocabulary of {vocab}; it is ignored",
                    self.file.display()
                ));
            } else if !ids.contains(&(id as u32)) {
                ids.push(id as u32);
            }
        }
        Ok(ids)
    }
}
