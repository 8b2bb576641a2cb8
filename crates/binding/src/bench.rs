//! Measuring a model's speed, for `bench`.

use std::path::PathBuf;

use model::bench::{self, BenchOptions, Report, Setting};
use model::config::Config;
use model::forward::ModelOptions;
use model::load::{self, HeadKind, LoadOptions, Progress};
use napi::bindgen_prelude::{Env, PromiseRaw, spawn_blocking};
use napi_derive::napi;

use crate::cancellation::Cancellation;
use crate::error::{coded, invalid, to_js, whole, whole_or};
use crate::load::{ProgressFunction, Reporter, dtype_name, isa_named, precision_named};

/// How one of the measured models runs. Absent means the default in brackets.
#[napi(object, object_to_js = false)]
pub struct NativeBenchSetting {
    /// `float32`, `int16` or `int8` [`int16`].
    pub dtype: Option<String>,
    /// A kernel set by name [the best this CPU has].
    pub isa: Option<String>,
    /// Compute threads; 0 is as many as the process may use [0].
    pub threads: Option<f64>,
    /// Embedding and head of random weights: `4bit` (as in the MLX checkpoint), `q4_k` (as in a GGUF file) or `bf16` [`4bit`].
    pub head: Option<String>,
}

/// What to measure. Absent means the default in brackets.
#[napi(object, object_to_js = false)]
pub struct NativeBenchOptions {
    /// A checkpoint [random weights of the published model's shape].
    pub path: Option<String>,
    /// Folder of packed copies of checkpoints [none].
    pub cache_folder: Option<String>,
    /// Layers of random weights [24].
    pub layers: Option<f64>,
    /// Experts a layer of random weights [256].
    pub experts: Option<f64>,
    /// Tokens of the prompt [512].
    pub prompt: Option<f64>,
    /// Tokens generated in a round [64].
    pub tokens: Option<f64>,
    /// Rounds, whose median counts [5].
    pub rounds: Option<f64>,
    /// Depths of context to decode at, besides 0 [none].
    pub depths: Option<Vec<f64>>,
    /// The settings, measured in alternation; at least one.
    pub settings: Vec<NativeBenchSetting>,
}

/// Decoding at some depth of context.
#[napi(object, object_from_js = false)]
pub struct NativeBenchDepth {
    /// Tokens of context.
    pub depth: u32,
    /// Tokens generated a second.
    pub decode_tps: f64,
    /// Bytes read for one token.
    pub bytes_per_token: f64,
}

/// What was measured under one setting: medians.
#[napi(object, object_from_js = false)]
pub struct NativeBenchReport {
    /// The numeric mode.
    pub dtype: String,
    /// The kernel set.
    pub isa: String,
    /// Compute threads.
    pub threads: u32,
    /// Tokens of a prompt evaluated a second.
    pub prefill_tps: f64,
    /// Tokens generated a second, from an empty context.
    pub decode_tps: f64,
    /// Bytes read for one token, from an empty context.
    pub bytes_per_token: f64,
    /// Bytes read a second while decoding, in GB.
    pub decode_gbps: f64,
    /// What as many threads read of the same weights in a second, in GB.
    pub read_gbps: f64,
    /// Decoding at each depth asked for.
    pub depths: Vec<NativeBenchDepth>,
    /// Head rows a token computed at source precision, where the head is screened in 8 bits first.
    pub refined_rows: Option<f64>,
    /// Memory of the process; absent where the system does not say.
    pub rss_bytes: Option<f64>,
    /// A hash of the bits of the logits after the prompt.
    pub logits_hash: String,
}

impl From<Report> for NativeBenchReport {
    fn from(report: Report) -> Self {
        let depths = report.depths.iter().map(|at| NativeBenchDepth {
            depth: at.depth as u32,
            decode_tps: at.decode_tps,
            bytes_per_token: at.bytes_per_token as f64,
        });
        NativeBenchReport {
            dtype: dtype_name(report.precision).into(),
            isa: report.isa.name().into(),
            threads: report.threads as u32,
            prefill_tps: report.prefill_tps,
            decode_tps: report.decode_tps,
            bytes_per_token: report.bytes_per_token as f64,
            decode_gbps: report.decode_gbps,
            read_gbps: report.read_gbps,
            depths: depths.collect(),
            refined_rows: report.refined_rows,
            rss_bytes: report.rss_bytes.map(|bytes| bytes as f64),
            logits_hash: format!("{:016x}", report.logits_hash),
        }
    }
}

/// Measures a checkpoint, or random weights of the published model's shape made in memory, under each of the settings. Progress
/// is that of loading or making the weights; what `onProgress` throws is ignored. Rejects with the code `CANCELLED` when the
/// handle is cancelled.
#[napi(catch_unwind, ts_return_type = "Promise<Array<NativeBenchReport>>")]
pub fn benchmark<'env>(
    env: &'env Env,
    options: NativeBenchOptions,
    #[napi(ts_arg_type = "((progress: NativeLoadProgress) => void) | undefined | null")]
    on_progress: Option<ProgressFunction>,
    cancellation: Option<&Cancellation>,
) -> napi::Result<PromiseRaw<'env, Vec<NativeBenchReport>>> {
    let plan = Plan::new(options)?;
    let flag = cancellation
        .map(|cancellation| cancellation.flag.clone())
        .unwrap_or_default();
    let leaving = flag.clone();
    env.add_env_cleanup_hook((), move |()| leaving.cancel())?;
    let reporter = Reporter::new(on_progress, flag);
    env.spawn_future(async move {
        let reports = spawn_blocking(move || plan.run(&reporter)).await;
        let reports = reports.map_err(|error| coded("ENGINE_FAILED", error))?;
        let reports = reports.map_err(to_js)?;
        Ok(reports.into_iter().map(NativeBenchReport::from).collect())
    })
}

/// Of random weights: any will do, as long as it stays the same.
const SEED: u64 = 1;

/// A run whose options have been checked.
struct Plan {
    path: Option<PathBuf>,
    load: LoadOptions,
    config: Config,
    bench: BenchOptions,
    settings: Vec<(HeadKind, ModelOptions)>,
}

impl Plan {
    fn new(options: NativeBenchOptions) -> napi::Result<Self> {
        let mut config = Config::maple_preview();
        let (layers, experts) = (config.layers.len(), config.experts);
        let layers = whole_or("layers", options.layers, 1, layers, layers)?;
        config.layers.truncate(layers);
        config.swiglu_limit.truncate(layers);
        let fewest = config.experts_per_token;
        config.experts = whole_or("experts", options.experts, fewest, 1024, experts)?;
        let depths = options.depths.unwrap_or_default();
        let depths = depths
            .into_iter()
            .map(|depth| whole("depth", depth, 1, 1 << 24));
        let settings = options.settings.into_iter().map(|setting| {
            let head = match setting.head.as_deref() {
                None | Some("4bit") => HeadKind::Affine4,
                Some("q4_k") => HeadKind::Q4K,
                Some("bf16") => HeadKind::Bf16,
                Some(other) => return Err(invalid("head", "4bit, q4_k or bf16", other)),
            };
            let options = ModelOptions {
                precision: precision_named(setting.dtype.as_deref())?,
                isa: isa_named(setting.isa.as_deref())?,
                threads: whole_or("threads", setting.threads, 0, 1024, 0)?,
                ..ModelOptions::default()
            };
            Ok((head, options))
        });
        let settings: Vec<(HeadKind, ModelOptions)> = settings.collect::<napi::Result<_>>()?;
        if settings.is_empty() {
            return Err(invalid("settings", "at least one", "none"));
        }
        Ok(Plan {
            path: options.path.map(PathBuf::from),
            load: LoadOptions {
                cache_folder: options.cache_folder.map(PathBuf::from),
                ..LoadOptions::default()
            },
            config,
            bench: BenchOptions {
                prompt: whole_or("prompt", options.prompt, 1, 1 << 24, 512)?,
                tokens: whole_or("tokens", options.tokens, 1, 1 << 20, 64)?,
                rounds: whole_or("rounds", options.rounds, 1, 1000, 5)?,
                depths: depths.collect::<napi::Result<_>>()?,
            },
            settings,
        })
    }

    fn run(self, progress: &dyn Progress) -> model::error::Result<Vec<Report>> {
        let first = self.settings[0].0;
        let weights = match &self.path {
            Some(path) => load::load(path, &self.load, progress)?,
            None => load::synthetic(self.config, SEED, first, &self.load, progress)?,
        };
        let mut settings = Vec::new();
        for (head, options) in self.settings {
            let weights = if self.path.is_some() || head == first {
                weights.clone()
            } else {
                load::synthetic_with_head(&weights, SEED, head, &self.load)?
            };
            settings.push(Setting { weights, options });
        }
        bench::run(&settings, &self.bench, &|| progress.is_cancelled())
    }
}
