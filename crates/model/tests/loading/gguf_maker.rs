//! Makes GGUF files, whole or broken in one place.

use model::config::Config;
use model::slots::{MatrixSlot, NormSlot, Projection};
use serde_json::{Value, json};

use crate::maker::*;

/// Value types of the key table.
pub const U32: u32 = 4;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const STRING: u32 = 8;
pub const ARRAY: u32 = 9;

/// A tensor to be written: sizes fastest first, type id, bytes.
#[derive(Clone)]
pub struct GgufTensor {
    pub name: String,
    pub dims: Vec<u64>,
    pub ty: u32,
    pub data: Vec<u8>,
    /// Offset to claim instead of the true one.
    pub offset: Option<u64>,
}

/// A file to be written.
#[derive(Clone)]
pub struct Gguf {
    pub magic: Vec<u8>,
    pub version: u32,
    /// Key, value type, value's bytes.
    pub keys: Vec<(String, u32, Vec<u8>)>,
    pub tensors: Vec<GgufTensor>,
    /// Counts to claim instead of the true ones: tensors, keys.
    pub counts: (Option<u64>, Option<u64>),
    pub alignment: usize,
}

pub fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes(), value.as_bytes()].concat()
}

pub fn array(ty: u32, count: u64, elements: &[u8]) -> Vec<u8> {
    [&ty.to_le_bytes()[..], &count.to_le_bytes(), elements].concat()
}

impl Gguf {
    /// Sets a key, or adds it.
    pub fn set(&mut self, key: &str, ty: u32, value: impl AsRef<[u8]>) -> &mut Self {
        self.keys.retain(|(k, ..)| k != key);
        self.keys
            .push((key.to_owned(), ty, value.as_ref().to_vec()));
        self
    }

    pub fn u32(&mut self, key: &str, value: u32) -> &mut Self {
        self.set(key, U32, value.to_le_bytes())
    }

    pub fn remove(&mut self, key: &str) -> &mut Self {
        self.keys.retain(|(k, ..)| k != key);
        self
    }

    pub fn tensor(&mut self, name: &str) -> &mut GgufTensor {
        self.tensors.iter_mut().find(|t| t.name == name).unwrap()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.clone();
        out.extend(self.version.to_le_bytes());
        out.extend(
            self.counts
                .0
                .unwrap_or(self.tensors.len() as u64)
                .to_le_bytes(),
        );
        out.extend(
            self.counts
                .1
                .unwrap_or(self.keys.len() as u64)
                .to_le_bytes(),
        );
        for (key, ty, value) in &self.keys {
            out.extend(text(key));
            out.extend(ty.to_le_bytes());
            out.extend(value);
        }
        let mut at = 0;
        for t in &self.tensors {
            out.extend(text(&t.name));
            out.extend((t.dims.len() as u32).to_le_bytes());
            out.extend(t.dims.iter().flat_map(|d| d.to_le_bytes()));
            out.extend(t.ty.to_le_bytes());
            out.extend(t.offset.unwrap_or(at as u64).to_le_bytes());
            at = (at + t.data.len()).next_multiple_of(self.alignment);
        }
        for t in &self.tensors {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
            out.extend(&t.data);
        }
        out
    }

    /// Writes it into a folder of its own.
    pub fn write(&self) -> (TempFolder, std::path::PathBuf) {
        let folder = TempFolder::new();
        let path = folder.write("model.gguf", self.bytes());
        (folder, path)
    }
}

/// Sizes that GGUF's blocks of 256 divide.
pub fn gguf_config() -> Value {
    let mut config = config();
    config["hidden_size"] = json!(256);
    config["num_attention_heads"] = json!(8);
    config["moe_intermediate_size"] = json!(256);
    config
}

fn tensor_name(slot: MatrixSlot) -> String {
    match slot {
        MatrixSlot::Embedding => "token_embd.weight".into(),
        MatrixSlot::Head => "output.weight".into(),
        MatrixSlot::Query(l) => format!("blk.{l}.attn_q.weight"),
        MatrixSlot::Key(l) => format!("blk.{l}.attn_k.weight"),
        MatrixSlot::Value(l) => format!("blk.{l}.attn_v.weight"),
        MatrixSlot::Output(l) => format!("blk.{l}.attn_output.weight"),
        MatrixSlot::Router(l) => format!("blk.{l}.ffn_gate_inp.weight"),
        MatrixSlot::Expert(l, _, Projection::Gate) => format!("blk.{l}.ffn_gate_exps.weight"),
        MatrixSlot::Expert(l, _, Projection::Up) => format!("blk.{l}.ffn_up_exps.weight"),
        MatrixSlot::Expert(l, _, Projection::Down) => format!("blk.{l}.ffn_down_exps.weight"),
    }
}

/// TQ2_0 blocks (type 35) of codes 0, 1, 2 and one scale a row.
pub fn tq2_0(
    rows: usize,
    cols: usize,
    code: impl Fn(usize) -> u32,
    alpha: impl Fn(usize) -> f32,
) -> Vec<u8> {
    let mut out = Vec::new();
    for r in 0..rows {
        for block in 0..cols / 256 {
            let mut bytes = [0u8; 64];
            for c in 0..256 {
                let (half, field, m) = (c / 128, c % 128 / 32, c % 32);
                bytes[32 * half + m] |= (code(r * cols + block * 256 + c) as u8) << (2 * field);
            }
            out.extend(bytes);
            out.extend(kernels::half::f32_to_f16(alpha(r)).to_le_bytes());
        }
    }
    out
}

/// The same weights as `hf_tensors` of that configuration: ternary ones as TQ2_0, the others as BF16.
pub fn gguf(config: &Config) -> Gguf {
    let hf = hf_tensors(config);
    let mut tensors: Vec<GgufTensor> = Vec::new();
    for slot in MatrixSlot::all(config) {
        let ((rows, cols), name) = (slot.shape(config), slot.to_string());
        let ternary = slot.is_expert() || slot.is_attention();
        let data = match ternary {
            true => tq2_0(rows, cols, |at| code(&name, at), |r| alpha(&name, r)),
            false => hf[&format!("{name}.weight")].data.clone(),
        };
        let own = tensor_name(slot);
        if let Some(stacked) = tensors.iter_mut().find(|t| t.name == own) {
            stacked.data.extend(data);
            continue;
        }
        let mut dims = vec![cols as u64, rows as u64];
        dims.extend(slot.is_expert().then_some(config.experts as u64));
        let ty = if ternary { 35 } else { 30 };
        tensors.push(GgufTensor {
            name: own,
            dims,
            ty,
            data,
            offset: None,
        });
    }
    for slot in NormSlot::all(config) {
        let name = match slot {
            NormSlot::Input(l) => format!("blk.{l}.attn_norm.weight"),
            NormSlot::Query(l) => format!("blk.{l}.attn_q_norm.weight"),
            NormSlot::Key(l) => format!("blk.{l}.attn_k_norm.weight"),
            NormSlot::PostAttention(l) => format!("blk.{l}.ffn_norm.weight"),
            NormSlot::Final => "output_norm.weight".into(),
        };
        let data = hf[&format!("{slot}.weight")].data.clone();
        tensors.push(GgufTensor {
            name,
            dims: vec![slot.len(config) as u64],
            ty: 30,
            data,
            offset: None,
        });
    }
    let mut file = Gguf {
        magic: b"GGUF".to_vec(),
        version: 3,
        keys: Vec::new(),
        tensors,
        counts: (None, None),
        alignment: 32,
    };
    let layers = config.layers.len();
    let sliding: Vec<u8> = config
        .layers
        .iter()
        .map(|k| u8::from(*k == model::config::LayerKind::Sliding))
        .collect();
    file.set("general.architecture", STRING, text("maple"))
        .u32("maple.block_count", layers as u32)
        .u32("maple.context_length", config.max_positions as u32)
        .u32("maple.embedding_length", config.hidden as u32)
        .u32("maple.attention.head_count", config.heads as u32)
        .u32("maple.attention.head_count_kv", config.kv_heads as u32)
        .u32("maple.attention.key_length", config.head_dim as u32)
        .u32("maple.attention.value_length", config.head_dim as u32)
        .set(
            "maple.attention.layer_norm_rms_epsilon",
            F32,
            config.rms_eps.to_le_bytes(),
        )
        .u32("maple.attention.sliding_window", config.window as u32)
        .set(
            "maple.attention.sliding_window_pattern",
            ARRAY,
            array(BOOL, layers as u64, &sliding),
        )
        .set(
            "maple.rope.freq_base",
            F32,
            (config.rope_theta as f32).to_le_bytes(),
        )
        .u32("maple.rope.dimension_count", config.rotated as u32)
        .u32("maple.expert_count", config.experts as u32)
        .u32("maple.expert_used_count", config.experts_per_token as u32)
        .u32(
            "maple.expert_feed_forward_length",
            config.expert_hidden as u32,
        )
        .u32("maple.vocab_size", config.vocab as u32)
        .u32("tokenizer.ggml.eos_token_id", 1);
    file
}
