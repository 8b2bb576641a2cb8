//! Looking at checkpoints and packing them, without running them.

use std::path::PathBuf;

use napi::bindgen_prelude::{Env, PromiseRaw, spawn_blocking};
use napi_derive::napi;

use crate::cancellation::Cancellation;
use crate::error::{coded, to_js};
use crate::load::{NativeLoadOptions, ProgressFunction, Reporter};

/// One file of a checkpoint.
#[napi(object, object_from_js = false)]
pub struct NativeCheckpointFile {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: f64,
}

/// What a checkpoint is.
#[napi(object, object_from_js = false)]
pub struct NativeCheckpointInfo {
    /// Its layout: `hf`, `mlx`, `gguf`, `packed`.
    pub format: String,
    /// It is in this program's own packed form.
    pub packed: bool,
    /// Its files.
    pub files: Vec<NativeCheckpointFile>,
    /// Weights in all, without the norms.
    pub weights: f64,
    /// Weights that are or will be kept at two bits.
    pub ternary_weights: f64,
    /// `ternaryWeights` comes from a sample.
    pub estimated: bool,
    /// Bytes of the weights in memory.
    pub weight_bytes: f64,
    /// Bytes of KV cache for each token of a conversation (full layers).
    pub kv_bytes_per_token: f64,
    /// Bytes of KV cache that a conversation takes at most beside that (sliding layers).
    pub kv_bytes_fixed: f64,
    /// Layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Number of token ids.
    pub vocab_size: u32,
    /// Experts of a layer.
    pub experts: u32,
    /// Experts a token is sent to.
    pub experts_per_token: u32,
    /// Keys a sliding layer's query sees.
    pub sliding_window: u32,
    /// The longest context the model was made for.
    pub context_length: u32,
    /// What the user should know, one line each.
    pub warnings: Vec<String>,
}

impl From<model::load::Info> for NativeCheckpointInfo {
    fn from(info: model::load::Info) -> Self {
        let config = info.config;
        NativeCheckpointInfo {
            format: info.format.name().into(),
            packed: info.packed,
            files: info
                .files
                .into_iter()
                .map(|(name, bytes)| NativeCheckpointFile {
                    name,
                    bytes: bytes as f64,
                })
                .collect(),
            weights: info.weights as f64,
            ternary_weights: info.ternary_weights as f64,
            estimated: info.estimated,
            weight_bytes: info.weight_bytes as f64,
            kv_bytes_per_token: info.kv_bytes_per_token as f64,
            kv_bytes_fixed: info.kv_bytes_fixed as f64,
            layers: config.layers.len() as u32,
            hidden_size: config.hidden as u32,
            vocab_size: config.vocab as u32,
            experts: config.experts as u32,
            experts_per_token: config.experts_per_token as u32,
            sliding_window: config.window as u32,
            context_length: config.max_positions as u32,
            warnings: info.warnings,
        }
    }
}

/// Says what the checkpoint at `path` is: reads its headers, and all of its weights or a sample. Of the options those count
/// that say how weights are packed.
#[napi(catch_unwind, ts_return_type = "Promise<NativeCheckpointInfo>")]
pub fn inspect_checkpoint<'env>(
    env: &'env Env,
    path: String,
    options: Option<NativeLoadOptions>,
) -> napi::Result<PromiseRaw<'env, NativeCheckpointInfo>> {
    let options = options.unwrap_or_default().load_options()?;
    env.spawn_future(async move {
        let info = spawn_blocking(move || model::load::inspect(path.as_ref(), &options)).await;
        let info = info.map_err(|error| coded("ENGINE_FAILED", error))?;
        Ok(info.map_err(to_js)?.into())
    })
}

/// Packs the checkpoint at `source` into the folder `destination`, which is made, and resolves to the packed file. What
/// `onProgress` throws is ignored. Rejects with the code `CANCELLED` when the handle is cancelled.
#[napi(catch_unwind, ts_return_type = "Promise<string>")]
pub fn pack_checkpoint<'env>(
    env: &'env Env,
    source: String,
    destination: String,
    options: Option<NativeLoadOptions>,
    #[napi(ts_arg_type = "((progress: NativeLoadProgress) => void) | undefined | null")]
    on_progress: Option<ProgressFunction>,
    cancellation: Option<&Cancellation>,
) -> napi::Result<PromiseRaw<'env, String>> {
    let options = options.unwrap_or_default().load_options()?;
    let flag = cancellation
        .map(|cancellation| cancellation.flag.clone())
        .unwrap_or_default();
    let leaving = flag.clone();
    env.add_env_cleanup_hook((), move |()| leaving.cancel())?;
    let reporter = Reporter::new(on_progress, flag);
    env.spawn_future(async move {
        let (source, destination) = (PathBuf::from(source), PathBuf::from(destination));
        let file =
            spawn_blocking(move || model::load::pack(&source, &destination, &options, &reporter))
                .await;
        let file = file.map_err(|error| coded("ENGINE_FAILED", error))?;
        Ok(file.map_err(to_js)?.to_string_lossy().into_owned())
    })
}
