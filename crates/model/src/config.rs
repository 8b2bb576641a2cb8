//! What `config.json` says of the model: every size, checked once, so that nothing behind it has to check again.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::json;

/// How a layer's attention sees the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// Rotary positions; the query at position p sees keys p - window + 1 ..= p.
    Sliding,
    /// No positions; the query sees every key up to its own.
    Full,
}

/// The model's sizes and constants. All sizes are at least 1 unless said.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Width H of the residual stream (`hidden_size`).
    pub hidden: usize,
    /// Query heads (`num_attention_heads`); a multiple of `kv_heads`.
    pub heads: usize,
    /// Key and value heads (`num_key_value_heads`).
    pub kv_heads: usize,
    /// Size of one head (`head_dim`); independent of `hidden / heads`.
    pub head_dim: usize,
    /// Leading dimensions of each head that rotate on sliding layers; even, may be 0.
    pub rotated: usize,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// Experts a layer (`num_experts`).
    pub experts: usize,
    /// Experts a token is sent to (`num_experts_per_tok`); at most `experts`.
    pub experts_per_token: usize,
    /// Width of an expert's inner layer (`moe_intermediate_size`).
    pub expert_hidden: usize,
    /// Rows of the embedding and of the head (`vocab_size`); the tokenizer may use fewer.
    pub vocab: usize,
    /// The kind of each layer; its length is the number of layers.
    pub layers: Vec<LayerKind>,
    /// Keys a sliding layer's query sees, its own included; 1 where no layer slides and none is given.
    pub window: usize,
    /// For each layer the bound of the clamped SwiGLU: the gate is cut above it, `up` on both sides.
    pub swiglu_limit: Vec<f32>,
    /// Epsilon of every RMS norm.
    pub rms_eps: f32,
    /// The longest context the model was made for (`max_position_embeddings`).
    pub max_positions: usize,
    /// The head reuses the embedding's rows (`tie_word_embeddings`).
    pub tied: bool,
    /// Tokens that end a generation (config.json and generation_config.json); may be empty.
    pub eos: Vec<u32>,
    /// `bos_token_id`, where there is one.
    pub bos: Option<u32>,
    /// What was assumed, in words for people.
    pub warnings: Vec<String>,
}

/// The bound of the clamped SwiGLU in the published model; config.json has no key for it.
pub const SWIGLU_LIMIT: f32 = 7.0;

/// Caps on sizes: far above any real model, low enough that products of two or three fit 64 bits.
mod within {
    /// The widest row the kernels take.
    pub const HIDDEN: u64 = kernels::MAX_COLS as u64;
    pub const LAYERS: u64 = 1 << 12;
    pub const HEADS: u64 = 1 << 12;
    pub const HEAD_DIM: u64 = 1 << 14;
    pub const EXPERTS: u64 = 1 << 16;
    pub const VOCAB: u64 = 1 << 24;
    pub const POSITIONS: u64 = 1 << 31;
}

impl Config {
    /// The published `maple-preview`: 24 layers of 256 experts, 20.2 B weights.
    pub fn maple_preview() -> Self {
        let kind = |l: usize| {
            if l % 4 == 3 {
                LayerKind::Full
            } else {
                LayerKind::Sliding
            }
        };
        Config {
            hidden: 2048,
            heads: 16,
            kv_heads: 4,
            head_dim: 128,
            rotated: 64,
            rope_theta: 10_000.0,
            experts: 256,
            experts_per_token: 8,
            expert_hidden: 512,
            vocab: 151_936,
            layers: (0..24).map(kind).collect(),
            window: 512,
            swiglu_limit: vec![SWIGLU_LIMIT; 24],
            rms_eps: 1e-6,
            max_positions: 131_072,
            tied: false,
            eos: vec![151_645],
            bos: Some(151_643),
            warnings: Vec::new(),
        }
    }

    /// Reads config.json's bytes; `file` is its name in errors.
    ///
    /// Errors: [`Error::Unsupported`] for another architecture or a setting that is not run, [`Error::Field`] for a value that is
    /// missing or out of range, [`Error::Checkpoint`] for broken JSON.
    pub fn from_json(file: &Path, bytes: &[u8]) -> Result<Self> {
        Self::from_object(file, &json::parse_object(file, bytes, "config.json")?)
    }

    /// As [`Config::from_json`], from the parsed object.
    pub(crate) fn from_object(file: &Path, object: &Map<String, Value>) -> Result<Self> {
        let mut fields = Fields {
            file,
            object,
            warnings: Vec::new(),
        };
        fields.check_architecture()?;
        fields.check_settings()?;

        let hidden = fields.size("hidden_size", within::HIDDEN)?;
        let layer_count = fields.size("num_hidden_layers", within::LAYERS)?;
        let heads = fields.size("num_attention_heads", within::HEADS)?;
        let kv_heads = fields.size("num_key_value_heads", within::HEADS)?;
        if !heads.is_multiple_of(kv_heads) {
            return Err(fields.error(
                "num_attention_heads",
                format!("a multiple of num_key_value_heads, {kv_heads}"),
                heads,
            ));
        }
        let head_dim = fields.size("head_dim", within::HEAD_DIM)?;
        if (heads * head_dim) as u64 > within::HIDDEN {
            let expected = format!(
                "at most {} with {heads} heads",
                within::HIDDEN / heads as u64
            );
            return Err(fields.error("head_dim", expected, head_dim));
        }
        let experts = fields.size("num_experts", within::EXPERTS)?;
        let experts_per_token = fields.size("num_experts_per_tok", within::EXPERTS)?;
        if experts_per_token > experts {
            return Err(fields.error(
                "num_experts_per_tok",
                format!("at most num_experts, {experts}"),
                experts_per_token,
            ));
        }
        let expert_hidden = fields.size("moe_intermediate_size", within::HIDDEN)?;
        let vocab = fields.size("vocab_size", within::VOCAB)?;
        let layers = fields.layer_kinds(layer_count)?;
        let window = match layers.contains(&LayerKind::Sliding) {
            true => fields.size("sliding_window", within::POSITIONS)?,
            false => match fields.get("sliding_window") {
                Some(_) => fields.size("sliding_window", within::POSITIONS)?,
                None => 1,
            },
        };
        let (rope_theta, rotary_factor) = fields.rope()?;
        let rotated = (head_dim as f64 * rotary_factor).floor() as usize;
        if !rotated.is_multiple_of(2) {
            let expected =
                format!("a factor that rotates an even number of the head's {head_dim} dimensions");
            return Err(fields.error(
                "partial_rotary_factor",
                expected,
                format!("{rotary_factor} ({rotated})"),
            ));
        }
        let rms_eps = fields.number("rms_norm_eps")?;
        let rms_eps = fields.or_default("rms_norm_eps", rms_eps, 1e-6) as f32;
        if !(rms_eps > 0.0 && rms_eps < 1.0) {
            return Err(fields.error("rms_norm_eps", "a positive number below 1", rms_eps));
        }
        let max_positions = match fields.get("max_position_embeddings") {
            Some(_) => fields.size("max_position_embeddings", within::POSITIONS)?,
            None => fields.or_default("max_position_embeddings", None, 131_072.0) as usize,
        };
        Ok(Config {
            hidden,
            heads,
            kv_heads,
            head_dim,
            rotated,
            rope_theta,
            experts,
            experts_per_token,
            expert_hidden,
            vocab,
            window,
            swiglu_limit: fields.swiglu_limit(layers.len())?,
            layers,
            rms_eps,
            max_positions,
            tied: fields.flag("tie_word_embeddings", false)?,
            eos: fields.token_ids("eos_token_id", vocab)?,
            bos: fields.token_ids("bos_token_id", vocab)?.first().copied(),
            warnings: fields.warnings,
        })
    }

    /// Adds the end tokens that generation_config.json names.
    pub fn add_generation_config(&mut self, file: &Path, bytes: &[u8]) -> Result<()> {
        let object = json::parse_object(file, bytes, "generation_config.json")?;
        let mut fields = Fields {
            file,
            object: &object,
            warnings: Vec::new(),
        };
        for id in fields.token_ids("eos_token_id", self.vocab)? {
            if !self.eos.contains(&id) {
                self.eos.push(id);
            }
        }
        self.warnings.append(&mut fields.warnings);
        Ok(())
    }

    /// The same as a config.json that [`Config::from_json`] reads back, its members in a fixed order.
    pub fn to_json(&self) -> Value {
        let kinds = self.layers.iter().map(|kind| match kind {
            LayerKind::Sliding => "sliding_attention",
            LayerKind::Full => "full_attention",
        });
        serde_json::json!({
            "architectures": ["MapleForCausalLM"],
            "model_type": "maple",
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers.len(),
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            // Half a dimension more, so that rounding down gives the same number again.
            "partial_rotary_factor": ((self.rotated as f64 + 0.5) / self.head_dim as f64).min(1.0),
            "rope_theta": self.rope_theta,
            "num_experts": self.experts,
            "num_experts_per_tok": self.experts_per_token,
            "moe_intermediate_size": self.expert_hidden,
            "vocab_size": self.vocab,
            "layer_types": kinds.collect::<Vec<_>>(),
            "sliding_window": self.window,
            "swiglu_limit": self.swiglu_limit,
            "rms_norm_eps": self.rms_eps,
            "max_position_embeddings": self.max_positions,
            "tie_word_embeddings": self.tied,
            "eos_token_id": self.eos,
            "bos_token_id": self.bos,
        })
    }

    /// Rows of the query projection: heads times the head's size.
    pub fn query_rows(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Rows of the key projection, and of the value projection.
    pub fn kv_rows(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

/// The members of one JSON object, read with errors that name them.
struct Fields<'a> {
    file: &'a Path,
    object: &'a Map<String, Value>,
    warnings: Vec<String>,
}

impl<'a> Fields<'a> {
    /// The member, where it is there and not null.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    fn error(
        &self,
        name: &str,
        expected: impl Into<String>,
        found: impl std::fmt::Display,
    ) -> Error {
        Error::field(self.file, name, expected, found)
    }

    fn unsupported(&self, name: &str, expected: &str, found: &Value) -> Error {
        Error::Unsupported {
            file: self.file.to_owned(),
            field: name.to_owned(),
            expected: expected.to_owned(),
            found: json::describe(found),
        }
    }

    /// A whole number from 1 to `most`; required.
    fn size(&self, name: &str, most: u64) -> Result<usize> {
        let expected = || format!("a whole number from 1 to {most}");
        let value = self
            .get(name)
            .ok_or_else(|| self.error(name, expected(), "nothing"))?;
        match value.as_u64() {
            Some(size) if (1..=most).contains(&size) => Ok(size as usize),
            _ => Err(self.error(name, expected(), json::describe(value))),
        }
    }

    fn number(&self, name: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        value
            .as_f64()
            .map(Some)
            .ok_or_else(|| self.error(name, "a number", json::describe(value)))
    }

    /// `value`, or maple-preview's with a warning.
    fn or_default(&mut self, name: &str, value: Option<f64>, default: f64) -> f64 {
        value.unwrap_or_else(|| {
            self.warnings.push(format!(
                "{}: `{name}` is missing; {default} is assumed",
                self.file.display()
            ));
            default
        })
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool> {
        let Some(value) = self.get(name) else {
            return Ok(default);
        };
        value
            .as_bool()
            .ok_or_else(|| self.error(name, "true or false", json::describe(value)))
    }

    /// Both names of the architecture, where both are there, must be Maple's; one must be.
    fn check_architecture(&self) -> Result<()> {
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
    fn check_settings(&self) -> Result<()> {
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

    fn layer_kinds(&self, count: usize) -> Result<Vec<LayerKind>> {
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
    fn swiglu_limit(&self, count: usize) -> Result<Vec<f32>> {
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
    fn rope(&mut self) -> Result<(f64, f64)> {
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
    fn rope_parameters(&self) -> Result<Option<(String, &'a Map<String, Value>)>> {
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
    fn token_ids(&mut self, name: &str, vocab: usize) -> Result<Vec<u32>> {
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
