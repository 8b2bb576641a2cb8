//! Loading a model off JavaScript's thread.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use model::backend::Backend;
use model::engine::{Engine, EngineOptions};
use model::forward::{Model, ModelOptions};
use model::load::{LoadOptions, Phase, Progress};
use model::scheduler::StepLimits;
use model::{Isa, Precision};
use napi::Status;
use napi::bindgen_prelude::{Env, PromiseRaw, spawn_blocking};
use napi::threadsafe_function::{
    ThreadsafeFunction, ThreadsafeFunctionCallMode, UnknownReturnValue,
};
use napi_derive::napi;

use crate::cancellation::{Cancellation, Flag};
use crate::error::{coded, invalid, to_js, whole, whole_or};
use crate::info::NativeModelInfo;
use crate::model::NativeModel;

/// Between two reports of the same phase.
const REPORT_EVERY: Duration = Duration::from_millis(50);

/// How to load and run a model. Absent means the default in brackets.
#[napi(object, object_to_js = false)]
#[derive(Default)]
pub struct NativeLoadOptions {
    /// `float32`, `int16` or `int8` [`int16`].
    pub dtype: Option<String>,
    /// A kernel set by name [the best this CPU has].
    pub isa: Option<String>,
    /// Compute threads; 0 is as many as the process may use [0].
    pub threads: Option<f64>,
    /// Most tokens of prompt and answer together [what the checkpoint was made for].
    pub context_length: Option<f64>,
    /// Pack exactly ternary matrices to two bits [true].
    pub pack_experts: Option<bool>,
    /// Make the attention projections ternary by the rule the model was trained with [false].
    pub ternarize_attention: Option<bool>,
    /// Map files instead of reading them [true].
    pub mmap: Option<bool>,
    /// Folder for packed copies of checkpoints [none is made].
    pub cache_folder: Option<String>,
    /// Answers in work at once; further ones wait [16].
    pub max_sequences: Option<f64>,
    /// Most bytes of KV state kept for later prompts; 0 keeps none [1 GiB].
    pub prefix_cache_bytes: Option<f64>,
    /// Most rows of one step [512].
    pub step_rows: Option<f64>,
}

impl NativeLoadOptions {
    /// Those that concern the weights.
    pub fn load_options(&self) -> napi::Result<LoadOptions> {
        Ok(LoadOptions {
            pack_experts: self.pack_experts.unwrap_or(true),
            ternarize_attention: self.ternarize_attention.unwrap_or(false),
            map: self.mmap.unwrap_or(true),
            cache_folder: self.cache_folder.as_ref().map(PathBuf::from),
            threads: whole_or("threads", self.threads, 0, 1024, 0)?,
        })
    }
}

/// How far loading is.
#[napi(object, object_from_js = false)]
pub struct NativeLoadProgress {
    /// `convert` while a packed copy is made, else `load`.
    #[napi(ts_type = "'convert' | 'load'")]
    pub phase: &'static str,
    /// Bytes done.
    pub loaded_bytes: f64,
    /// Bytes in all.
    pub total_bytes: f64,
}

/// Weak, so that it keeps no process alive, and with a bounded queue: reports that JavaScript is too busy for are lost.
pub type ProgressFunction = ThreadsafeFunction<
    NativeLoadProgress,
    UnknownReturnValue,
    NativeLoadProgress,
    Status,
    false,
    true,
    16,
>;

/// Loads the checkpoint at `path`. What `onProgress` throws is ignored. Rejects with the code `CANCELLED` when the handle is
/// cancelled.
#[napi(catch_unwind, ts_return_type = "Promise<NativeModel>")]
pub fn load_model<'env>(
    env: &'env Env,
    path: String,
    options: Option<NativeLoadOptions>,
    #[napi(ts_arg_type = "((progress: NativeLoadProgress) => void) | undefined | null")]
    on_progress: Option<ProgressFunction>,
    cancellation: Option<&Cancellation>,
) -> napi::Result<PromiseRaw<'env, NativeModel>> {
    let plan = Plan::new(path, options.unwrap_or_default())?;
    let flag = cancellation
        .map(|cancellation| cancellation.flag.clone())
        .unwrap_or_default();
    let engine = Arc::new(OnceLock::<Weak<Engine>>::new());
    // When Node, or the worker thread that loaded the model, goes away in the middle of things, the work stops and its
    // threads are joined first.
    let (leaving_flag, leaving_engine) = (flag.clone(), Arc::clone(&engine));
    env.add_env_cleanup_hook((), move |()| {
        leaving_flag.cancel();
        if let Some(engine) = leaving_engine.get().and_then(Weak::upgrade) {
            engine.dispose();
        }
    })?;
    let reporter = Reporter::new(on_progress, flag);
    env.spawn_future(async move {
        let model = spawn_blocking(move || plan.run(&reporter)).await;
        let model = model.map_err(|error| coded("ENGINE_FAILED", error))??;
        let _ = engine.set(Arc::downgrade(&model.engine));
        Ok(model)
    })
}

/// A load whose options have been checked.
struct Plan {
    path: String,
    load: LoadOptions,
    model: ModelOptions,
    engine: EngineOptions,
}

impl Plan {
    fn new(path: String, options: NativeLoadOptions) -> napi::Result<Self> {
        let precision = precision_named(options.dtype.as_deref())?;
        let load = options.load_options()?;
        let threads = load.threads;
        let isa = isa_named(options.isa.as_deref())?;
        let defaults = EngineOptions::default();
        let rows = whole_or(
            "stepRows",
            options.step_rows,
            1,
            1 << 16,
            defaults.limits.rows,
        )?;
        Ok(Plan {
            path,
            load,
            model: ModelOptions {
                precision,
                isa,
                threads,
                context_length: options
                    .context_length
                    .map(|length| whole("contextLength", length, 1, 1 << 30))
                    .transpose()?,
                max_rows: rows,
            },
            engine: EngineOptions {
                max_sequences: whole_or(
                    "maxSequences",
                    options.max_sequences,
                    1,
                    1024,
                    defaults.max_sequences,
                )?,
                prefix_bytes: whole_or(
                    "prefixCacheBytes",
                    options.prefix_cache_bytes,
                    0,
                    1 << 53,
                    defaults.prefix_bytes,
                )?,
                limits: StepLimits {
                    rows,
                    ..defaults.limits
                },
            },
        })
    }

    fn run(mut self, reporter: &Reporter) -> napi::Result<NativeModel> {
        let started = Instant::now();
        let weights = model::load::load(self.path.as_ref(), &self.load, reporter).map_err(to_js)?;
        let (config, summary) = (weights.config.clone(), weights.summary.clone());
        let mut warnings: Vec<String> = config
            .warnings
            .into_iter()
            .chain(summary.warnings)
            .collect();
        if let Some(asked) = self
            .model
            .context_length
            .filter(|&asked| asked > config.max_positions)
        {
            let made_for = config.max_positions;
            warnings.push(format!("a context of {asked} was asked for; the model was made for {made_for}, which is used"));
            self.model.context_length = None;
        }
        let model = Model::new(weights, &self.model).map_err(to_js)?;
        let mut info = NativeModelInfo {
            model_path: self.path,
            vocab_size: config.vocab as u32,
            layers: config.layers.len() as u32,
            hidden_size: config.hidden as u32,
            experts: config.experts as u32,
            experts_per_token: config.experts_per_token as u32,
            sliding_window: config.window as u32,
            context_length: Backend::context_length(&model) as u32,
            dtype: dtype_name(model.precision()).into(),
            isa: model.isa().name().into(),
            attention: attention_name(model.precision()).into(),
            threads: model.threads() as u32,
            packed_experts: summary.packed_experts as u32,
            load_seconds: 0.0,
            weight_bytes: summary.bytes as f64,
            format: summary.format.name().into(),
            end_tokens: config.eos.clone(),
            warnings,
        };
        let engine = Engine::start(model, self.engine).map_err(to_js)?;
        info.load_seconds = started.elapsed().as_secs_f64();
        if reporter.flag.is_cancelled() {
            return Err(to_js(model::error::Error::Cancelled));
        }
        Ok(NativeModel {
            engine: Arc::new(engine),
            info,
        })
    }
}

/// The numeric mode of a `dtype` option.
pub fn precision_named(name: Option<&str>) -> napi::Result<Precision> {
    match name {
        None | Some("int16") => Ok(Precision::Int16),
        Some("float32") => Ok(Precision::F32),
        Some("int8") => Ok(Precision::Int8),
        Some(other) => Err(invalid("dtype", "float32, int16 or int8", other)),
    }
}

/// The kernel set of an `isa` option; `None` for the best.
pub fn isa_named(name: Option<&str>) -> napi::Result<Option<Isa>> {
    let parsed = name.map(str::parse::<Isa>).transpose();
    parsed.map_err(|error| coded("INVALID_ARGUMENT", error))
}

/// The `dtype` option of a numeric mode.
pub fn dtype_name(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => "float32",
        Precision::Int16 => "int16",
        Precision::Int8 => "int8",
    }
}

fn attention_name(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => "chunked online softmax, float32 KV cache",
        Precision::Int16 | Precision::Int8 => "chunked online softmax, float16 KV cache",
    }
}

/// Hands progress to JavaScript without waiting for it.
pub struct Reporter {
    function: Option<ProgressFunction>,
    flag: Flag,
    last: Mutex<Option<(Phase, Instant)>>,
}

impl Reporter {
    /// Reports to `function`; the flag ends the work.
    pub fn new(function: Option<ProgressFunction>, flag: Flag) -> Self {
        Reporter {
            function,
            flag,
            last: Mutex::new(None),
        }
    }
}

impl Progress for Reporter {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        let Some(function) = &self.function else {
            return;
        };
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let soon = last.is_some_and(|(before, at)| before == phase && now - at < REPORT_EVERY);
        if soon && done < total {
            return;
        }
        *last = Some((phase, now));
        let progress = NativeLoadProgress {
            phase: match phase {
                Phase::Convert => "convert",
                Phase::Load => "load",
            },
            loaded_bytes: done as f64,
            total_bytes: total as f64,
        };
        // With a callback of our own for the result, an exception ends here instead of ending the process.
        function.call_with_return_value(
            progress,
            ThreadsafeFunctionCallMode::NonBlocking,
            |_, _| Ok(()),
        );
    }

    fn is_cancelled(&self) -> bool {
        self.flag.is_cancelled()
    }
}
