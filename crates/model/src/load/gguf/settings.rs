//! The keys of a Maple GGUF file as a [`Config`].

use super::blocks::Defect;
use super::header::{Header, Value, wrong_type};
use crate::config::{Config, LayerKind, SWIGLU_LIMIT};

/// What is wrong with the keys: another model, or a broken file.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A setting this program does not run: key, what is supported, what was found.
    Unsupported(String, String, String),
    /// A key that is missing or does not hold what it must.
    Broken(Defect),
}

impl From<Defect> for Trouble {
    fn from(defect: Defect) -> Self {
        Trouble::Broken(defect)
    }
}

/// Reads every size and constant. `file` are the bytes the header was parsed from; `tied` says that there is no head.
pub(super) fn config(header: &Header, file: &[u8], tied: bool) -> Result<Config, Trouble> {
    let architecture = header.opt_text("general.architecture")?;
    if architecture != Some("maple") {
        return Err(Trouble::Unsupported(
            "general.architecture".into(),
            "\"maple\"".into(),
            architecture.map_or("missing".into(), |a| format!("{a:?}")),
        ));
    }
    let size = |name: &str, most: u64| -> Result<usize, Defect> {
        header
            .int(&format!("maple.{name}"), 1, most)
            .map(|v| v as usize)
    };
    let layer_count = size("block_count", 1 << 12)?;
    let hidden = size("embedding_length", 1 << 20)?;
    let heads = size("attention.head_count", 1 << 12)?;
    let kv_heads = size("attention.head_count_kv", 1 << 12)?;
    if !heads.is_multiple_of(kv_heads) {
        return Err(Trouble::Broken(format!(
            "key \"maple.attention.head_count\" is {heads}, expected a multiple of head_count_kv, {kv_heads}"
        )));
    }
    let head_dim = size("attention.key_length", 1 << 14)?;
    let value_dim = size("attention.value_length", 1 << 14)?;
    if value_dim != head_dim {
        return Err(Trouble::Unsupported(
            "maple.attention.value_length".into(),
            format!("the key length, {head_dim}"),
            value_dim.to_string(),
        ));
    }
    let rotated = header.int("maple.rope.dimension_count", 0, head_dim as u64)? as usize;
    if !rotated.is_multiple_of(2) {
        return Err(Trouble::Broken(format!(
            "key \"maple.rope.dimension_count\" is {rotated}, expected an even number"
        )));
    }
    let experts = size("expert_count", 1 << 16)?;
    let experts_per_token = size("expert_used_count", 1 << 16)?;
    if experts_per_token > experts {
        return Err(Trouble::Broken(format!(
            "key \"maple.expert_used_count\" is {experts_per_token}, expected at most expert_count, {experts}"
        )));
    }
    for (name, supported) in [("expert_shared_count", 0), ("leading_dense_block_count", 0)] {
        let key = format!("maple.{name}");
        if let Some(found) = header.opt_int(&key, 0, u64::MAX)?
            && found != supported
        {
            return Err(Trouble::Unsupported(
                key,
                supported.to_string(),
                found.to_string(),
            ));
        }
    }
    let layers = layer_kinds(header, file, layer_count)?;
    let window = match layers.contains(&LayerKind::Sliding) {
        true => size("attention.sliding_window", 1 << 31)?,
        false => header
            .opt_int("maple.attention.sliding_window", 0, 1 << 31)?
            .unwrap_or(1)
            .max(1) as usize,
    };
    let mut warnings = Vec::new();
    let mut float = |name: &str, default: f64| -> Result<f64, Defect> {
        let key = format!("maple.{name}");
        Ok(header.opt_float(&key)?.unwrap_or_else(|| {
            warnings.push(format!("key {key:?} is missing; {default} is assumed"));
            default
        }))
    };
    // The file holds an f32; 1e-6 is not one, and the config's number is narrowed to f32 anyway.
    let rms_eps = float("attention.layer_norm_rms_epsilon", 1e-6)? as f32;
    if !(rms_eps > 0.0 && rms_eps < 1.0) {
        return Err(Trouble::Broken(format!(
            "key \"maple.attention.layer_norm_rms_epsilon\" is {rms_eps}, expected a positive number below 1"
        )));
    }
    // Only sliding layers rotate, so their own base wins where both are there.
    let rope_theta = match header.opt_float("maple.rope.freq_base_swa")? {
        Some(base) => base,
        None => float("rope.freq_base", 10_000.0)?,
    };
    if rope_theta <= 0.0 {
        return Err(Trouble::Broken(format!(
            "the rotary base is {rope_theta}, expected a positive number"
        )));
    }
    if let Some(kind) = header.opt_text("maple.rope.scaling.type")?
        && kind != "none"
    {
        return Err(Trouble::Unsupported(
            "maple.rope.scaling.type".into(),
            "\"none\"".into(),
            format!("{kind:?}"),
        ));
    }
    let vocab = vocab_size(header)?;
    let token = |name: &str| {
        header.opt_int(
            &format!("tokenizer.ggml.{name}_token_id"),
            0,
            vocab as u64 - 1,
        )
    };
    let mut eos: Vec<u32> = Vec::new();
    for id in [token("eos")?, token("eot")?].into_iter().flatten() {
        if !eos.contains(&(id as u32)) {
            eos.push(id as u32);
        }
    }
    Ok(Config {
        hidden,
        heads,
        kv_heads,
        head_dim,
        rotated,
        rope_theta,
        experts,
        experts_per_token,
        expert_hidden: expert_hidden(header, file, layer_count)?,
        vocab,
        window,
        swiglu_limit: swiglu_limits(header, file, layer_count)?,
        layers,
        rms_eps,
        max_positions: size("context_length", 1 << 31)?,
        tied,
        eos,
        bos: token("bos")?.map(|id| id as u32),
        warnings,
    })
}

fn layer_kinds(header: &Header, file: &[u8], layers: usize) -> Result<Vec<LayerKind>, Trouble> {
    let key = "maple.attention.sliding_window_pattern";
    let pattern = header
        .opt_array(key, layers, file)?
        .ok_or_else(|| format!("key {key:?} is missing; expected {layers} bools"))?;
    let kinds = pattern.iter().map(|v| match v {
        Value::Bool(true) | Value::Int(1) => Ok(LayerKind::Sliding),
        Value::Bool(false) | Value::Int(0) => Ok(LayerKind::Full),
        other => Err(Trouble::Broken(wrong_type(key, "an array of bools", other))),
    });
    kinds.collect()
}

/// One number, or one a layer; all layers must agree.
fn expert_hidden(header: &Header, file: &[u8], layers: usize) -> Result<usize, Trouble> {
    let key = "maple.expert_feed_forward_length";
    if !matches!(header.get(key), Some(Value::Array(..))) {
        return Ok(header.int(key, 1, 1 << 20)? as usize);
    }
    let widths = header.opt_array(key, layers, file)?.unwrap_or_default();
    match widths.first() {
        Some(Value::Int(v))
            if (1..=1 << 20).contains(v) && widths.iter().all(|w| w == &widths[0]) =>
        {
            Ok(*v as usize)
        }
        _ => Err(Trouble::Unsupported(
            key.into(),
            "the same positive number for every layer".into(),
            format!("{widths:?}"),
        )),
    }
}

fn swiglu_limits(header: &Header, file: &[u8], layers: usize) -> Result<Vec<f32>, Trouble> {
    let key = "maple.swiglu_clamp_exp";
    let Some(limits) = header.opt_array(key, layers, file)? else {
        return Ok(vec![SWIGLU_LIMIT; layers]);
    };
    let limits = limits.iter().map(|v| match v {
        Value::Float(limit) if *limit > 0.0 => Ok(*limit as f32),
        other => Err(Trouble::Broken(format!(
            "key {key:?} holds {other:?}, expected positive floats"
        ))),
    });
    limits.collect()
}

/// `vocab_size`, else the rows of the embedding.
fn vocab_size(header: &Header) -> Result<usize, Trouble> {
    if let Some(v) = header.opt_int("maple.vocab_size", 1, 1 << 24)? {
        return Ok(v as usize);
    }
    let embedding = header
        .tensors
        .iter()
        .find(|t| t.name == "token_embd.weight");
    match embedding.map(|t| t.dims.as_slice()) {
        Some([_, rows]) if *rows <= 1 << 24 => Ok(*rows as usize),
        _ => Err(Trouble::Broken(
            "key \"maple.vocab_size\" is missing, and so is a matrix token_embd.weight to count its rows".into(),
        )),
    }
}
