//! What a loaded model says of itself.

use napi_derive::napi;

/// What was loaded and how it runs.
#[napi(object, object_from_js = false)]
#[derive(Clone)]
pub struct NativeModelInfo {
    /// The folder or file the weights came from.
    pub model_path: String,
    /// Number of token ids.
    pub vocab_size: u32,
    /// Layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Experts of a layer.
    pub experts: u32,
    /// Experts a token is sent to.
    pub experts_per_token: u32,
    /// Keys a sliding layer's query sees.
    pub sliding_window: u32,
    /// Largest number of tokens of prompt and answer together.
    pub context_length: u32,
    /// Numeric mode: `float32`, `int16` or `int8`.
    pub dtype: String,
    /// Kernel set in use.
    pub isa: String,
    /// The attention code path.
    pub attention: String,
    /// Compute threads.
    pub threads: u32,
    /// Experts whose three matrices are all held at two bits a weight.
    pub packed_experts: u32,
    /// Seconds that loading took.
    pub load_seconds: f64,
    /// Bytes of weights held or mapped.
    pub weight_bytes: f64,
    /// The checkpoint's layout: `hf`, `mlx`, `gguf`, `packed`.
    pub format: String,
    /// Ids that end an answer, as config.json and generation_config.json have them.
    pub end_tokens: Vec<u32>,
    /// Things worth telling the operator, one line each.
    pub warnings: Vec<String>,
}
