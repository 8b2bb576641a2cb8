//! A loaded model.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use model::engine::{Engine, Request};
use model::sampler::SamplerParams;
use napi::bindgen_prelude::{BigInt, Float32Array, Uint32Array, spawn_blocking};
use napi_derive::napi;

use crate::cancellation::Cancellation;
use crate::error::{coded, to_js, whole, whole_or};
use crate::generation::NativeGeneration;
use crate::info::NativeModelInfo;

/// Largest count that fits everywhere it may be handed on to.
const MAX_COUNT: usize = u32::MAX as usize;

/// How one answer is to be drawn. Absent means the default in brackets.
#[napi(object, object_to_js = false)]
pub struct NativeGenerateParams {
    /// Most tokens to generate [until the context is full].
    pub max_tokens: Option<f64>,
    /// 0 is greedy [0.6].
    pub temperature: Option<f64>,
    /// Keep the k likeliest tokens; 0 or -1 turns it off [20].
    pub top_k: Option<f64>,
    /// Smallest set whose mass reaches this, in (0, 1] [0.95].
    pub top_p: Option<f64>,
    /// Above 1 discourages tokens of prompt and answer [1].
    pub repetition_penalty: Option<f64>,
    /// Folded to 64 bits [random].
    pub seed: Option<BigInt>,
    /// Go on past end tokens [false].
    pub ignore_eos: Option<bool>,
    /// Ids that end the answer [the checkpoint's].
    pub end_tokens: Option<Vec<f64>>,
    /// Prompt positions worth keeping a reusable state of.
    pub snapshot_at: Option<Vec<f64>>,
}

/// A loaded model and the thread that runs it.
#[napi]
pub struct NativeModel {
    pub(crate) engine: Arc<Engine>,
    pub(crate) info: NativeModelInfo,
}

#[napi]
impl NativeModel {
    /// What was loaded and how it runs.
    #[napi(getter, catch_unwind)]
    pub fn info(&self) -> NativeModelInfo {
        self.info.clone()
    }

    /// Starts an answer to a prompt of token ids.
    #[napi(catch_unwind)]
    pub fn generate(
        &self,
        prompt: Uint32Array,
        params: Option<NativeGenerateParams>,
    ) -> napi::Result<NativeGeneration> {
        let request = match params {
            Some(params) => request(prompt.to_vec(), params)?,
            None => Request {
                prompt: prompt.to_vec(),
                ..unseeded()
            },
        };
        let generation = self.engine.generate(request).map_err(to_js)?;
        Ok(NativeGeneration {
            inner: Arc::new(generation),
            _engine: Arc::clone(&self.engine),
        })
    }

    /// The logits after each of the asked positions (ascending; none: the last), one row after the other, from the head
    /// at source precision.
    #[napi(catch_unwind, ts_return_type = "Promise<Float32Array>")]
    pub fn logits<'env>(
        &self,
        env: &'env napi::Env,
        ids: Uint32Array,
        positions: Option<Vec<f64>>,
        cancellation: Option<&Cancellation>,
    ) -> napi::Result<napi::bindgen_prelude::PromiseRaw<'env, Float32Array>> {
        let positions = counts("positions", positions.unwrap_or_default())?;
        let pending = self.engine.logits(ids.to_vec(), positions).map_err(to_js)?;
        if let Some(cancellation) = cancellation {
            cancellation.flag.on_cancel(pending.canceller());
        }
        let engine = Arc::clone(&self.engine);
        env.spawn_future(async move {
            let rows = pending.wait().await;
            drop(engine); // kept until here, so that the work is not cut off when JavaScript lets go of the model
            rows.map(Float32Array::new).map_err(to_js)
        })
    }

    /// Ends everything in work with the code `DISPOSED`, lets the step in hand finish, and frees the model. May be called
    /// again, and from several places at once; each call resolves when the model is gone.
    #[napi(catch_unwind)]
    pub async fn dispose(&self) -> napi::Result<()> {
        let engine = Arc::clone(&self.engine);
        engine.close();
        let gone = spawn_blocking(move || engine.dispose());
        gone.await.map_err(|error| coded("ENGINE_FAILED", error))
    }
}

/// A request with a random seed.
fn unseeded() -> Request {
    // The standard library's hash keys are the one source of randomness it has.
    let seed = RandomState::new().build_hasher().finish();
    Request {
        sampling: SamplerParams {
            seed,
            ..SamplerParams::default()
        },
        ..Request::default()
    }
}

fn request(prompt: Vec<u32>, params: NativeGenerateParams) -> napi::Result<Request> {
    let mut request = Request {
        prompt,
        ..unseeded()
    };
    let sampling = &mut request.sampling;
    sampling.temperature = params.temperature.unwrap_or(sampling.temperature);
    sampling.top_p = params.top_p.unwrap_or(sampling.top_p);
    sampling.repetition_penalty = params
        .repetition_penalty
        .unwrap_or(sampling.repetition_penalty);
    sampling.top_k = match params.top_k {
        Some(-1.0) => 0,
        top_k => whole_or("topK", top_k, 0, MAX_COUNT, sampling.top_k)?,
    };
    if let Some(seed) = params.seed {
        // Two's complement, so that every integer has its own place modulo 2^64.
        let low = seed.words.first().copied().unwrap_or(0);
        sampling.seed = if seed.sign_bit {
            low.wrapping_neg()
        } else {
            low
        };
    }
    request.max_tokens = params
        .max_tokens
        .map(|most| whole("maxTokens", most, 1, MAX_COUNT))
        .transpose()?;
    request.ignore_end = params.ignore_eos.unwrap_or(false);
    request.end_tokens = params
        .end_tokens
        .map(|ids| counts("endTokens", ids))
        .transpose()?
        .map(|ids| ids.into_iter().map(|id| id as u32).collect());
    request.snapshot_at = counts("snapshotAt", params.snapshot_at.unwrap_or_default())?;
    Ok(request)
}

fn counts(argument: &str, values: Vec<f64>) -> napi::Result<Vec<usize>> {
    values
        .into_iter()
        .map(|value| whole(argument, value, 0, MAX_COUNT))
        .collect()
}
