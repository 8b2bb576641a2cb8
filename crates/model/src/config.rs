//! What `config.json` says of the model: every size, checked once, so that nothing behind it has to check again.

mod fields;
mod layer;

use std::path::Path;

use serde_json::{Map, Value};

use self::fields::Fields;
pub use self::layer::{LayerKind, SWIGLU_LIMIT};
use crate::error::Result;
use crate::json;

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
