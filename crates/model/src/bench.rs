//! How fast a model runs on this machine, and how near that is to the speed of its memory.
//!
//! Decoding is bound by the bytes a token touches, so the machine's own read bandwidth is measured in the same run, on the same
//! weights, and reported beside it. Several settings are measured in alternation, so that a drift of the machine's speed meets them
//! all alike; every figure is a median of the rounds.

use std::time::Instant;

use kernels::buffer::Plain;
use kernels::{DenseData, Isa, Kernels, Mat, Precision, read_stream};

use crate::backend::{Backend, HiddenWanted, SeqRows};
use crate::error::{Error, Result};
use crate::forward::{Model, ModelOptions};
use crate::kv_cache::KvCache;
use crate::load;
use crate::pool::Pool;
use crate::weights::Weights;

/// What is measured.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Tokens of the prompt whose evaluation is timed.
    pub prompt: usize,
    /// Tokens generated in a round.
    pub tokens: usize,
    /// Rounds; at least 1.
    pub rounds: usize,
    /// Tokens of context at which decoding is timed, besides an empty one.
    pub depths: Vec<usize>,
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self {
            prompt: 512,
            tokens: 64,
            rounds: 3,
            depths: Vec::new(),
        }
    }
}

/// Decoding at some depth of context.
#[derive(Clone, Copy, Debug)]
pub struct DepthReport {
    /// Tokens of context before the first generated one.
    pub depth: usize,
    /// Tokens generated a second.
    pub decode_tps: f64,
    /// Bytes read for one token: the weights it uses, and the keys and values it sees.
    pub bytes_per_token: u64,
}

/// Results of one setting.
#[derive(Clone, Debug)]
pub struct Report {
    /// Instruction set.
    pub isa: Isa,
    /// How activations enter the products.
    pub precision: Precision,
    /// Compute threads.
    pub threads: usize,
    /// Tokens of a prompt evaluated a second.
    pub prefill_tps: f64,
    /// Tokens generated a second, from an empty context.
    pub decode_tps: f64,
    /// Bytes read for one token, from an empty context.
    pub bytes_per_token: u64,
    /// `bytes_per_token * decode_tps / 1e9`.
    pub decode_gbps: f64,
    /// What as many threads read of the same weights in a second, in GB.
    pub read_gbps: f64,
    /// Decoding at each of the depths asked for.
    pub depths: Vec<DepthReport>,
    /// Head rows computed at source precision for a token, where the head is screened in 8 bits first.
    pub refined_rows: Option<f64>,
    /// Memory of the process with weights and all caches of the run; `None` where the system does not say.
    pub rss_bytes: Option<u64>,
    /// A hash of the bits of the logits after the prompt: equal where the arithmetic is.
    pub logits_hash: u64,
}

/// What is measured beside others.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The model's weights; settings that share matrices share their memory.
    pub weights: Weights,
    /// How they run.
    pub options: ModelOptions,
}

/// One setting at work.
struct Run<'a> {
    weights: &'a Weights,
    model: Model,
    reader: Pool,
    /// A cache filled to each depth, the empty one first, with the token that comes next.
    caches: Vec<(usize, KvCache, u32)>,
    prefill: Vec<f64>,
    decode: Vec<Vec<f64>>,
    read: Vec<f64>,
    logits_hash: u64,
}

/// Measures each of `settings`, until `is_cancelled` says otherwise.
///
/// # Errors
/// Those of [`Model::new`] and of running it, [`Error::InvalidArgument`] where something asked for does not fit the context, and
/// [`Error::Cancelled`].
pub fn run(
    settings: &[Setting],
    options: &BenchOptions,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Report>> {
    let mut runs = Vec::new();
    for setting in settings {
        runs.push(Run::new(setting, options, is_cancelled)?);
    }
    for _ in 0..options.rounds.max(1) {
        for run in &mut runs {
            run.round(options, is_cancelled)?;
        }
    }
    let rss_bytes = load::resident_memory();
    Ok(runs.into_iter().map(|run| run.finish(rss_bytes)).collect())
}

impl<'a> Run<'a> {
    fn new(
        setting: &'a Setting,
        options: &BenchOptions,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let weights = &setting.weights;
        let mut model = Model::new(weights.clone(), &setting.options)?;
        check_room(model.context_length(), options)?;
        let threads = model.threads();
        let reader = Pool::new(threads).map_err(|error| Error::InvalidArgument {
            argument: "threads",
            expected: format!("as many as the system gives ({error})"),
            found: threads.to_string(),
        })?;
        // The prompt's logits, which also warms everything up.
        let prompt = prompt(weights, options.prompt.max(1));
        let mut cache = model.new_cache();
        let hidden = step(&mut model, &mut cache, &prompt)?;
        let mut logits = vec![0.0; model.vocab_size()];
        model.logits(&hidden, &mut logits)?;
        let mut caches = Vec::new();
        for depth in std::iter::once(0).chain(options.depths.iter().copied()) {
            let mut cache = model.new_cache();
            for part in self::prompt(weights, depth).chunks(PART) {
                go_on(is_cancelled)?;
                step(&mut model, &mut cache, part)?;
            }
            caches.push((depth, cache, prompt[0]));
        }
        let decode = vec![Vec::new(); caches.len()];
        let logits_hash = hash(&logits);
        Ok(Self {
            weights,
            model,
            reader,
            caches,
            prefill: Vec::new(),
            decode,
            read: Vec::new(),
            logits_hash,
        })
    }

    fn round(&mut self, options: &BenchOptions, is_cancelled: &dyn Fn() -> bool) -> Result<()> {
        let weights = self.weights;
        go_on(is_cancelled)?;
        self.read
            .push(read_rate(weights, self.model.isa(), &mut self.reader));
        let prompt = prompt(weights, options.prompt.max(1));
        let mut cache = self.model.new_cache();
        let start = Instant::now();
        let hidden = step(&mut self.model, &mut cache, &prompt)?;
        self.model.top_k(&hidden, 1, &[])?;
        self.prefill
            .push(prompt.len() as f64 / start.elapsed().as_secs_f64());
        for ((depth, cache, next), decode) in self.caches.iter_mut().zip(&mut self.decode) {
            if *depth == 0 {
                *cache = self.model.new_cache();
            }
            let start = Instant::now();
            for _ in 0..options.tokens.max(1) {
                go_on(is_cancelled)?;
                let hidden = step(&mut self.model, cache, &[*next])?;
                let best = self.model.top_k(&hidden, 1, &[])?;
                *next = best.ids.first().copied().unwrap_or(0);
            }
            decode.push(options.tokens.max(1) as f64 / start.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn finish(mut self, rss_bytes: Option<u64>) -> Report {
        let weights = self.weights;
        let precision = self.model.precision();
        let decode: Vec<f64> = self.decode.iter_mut().map(|rates| median(rates)).collect();
        let depths = self
            .caches
            .iter()
            .zip(&decode)
            .skip(1)
            .map(|((depth, _, _), &decode_tps)| DepthReport {
                depth: *depth,
                decode_tps,
                bytes_per_token: weight_bytes(weights) + cache_bytes(weights, precision, *depth),
            });
        let bytes_per_token = weight_bytes(weights);
        let counts = self.model.head_counts();
        let screened = (counts.screened_steps > 0)
            .then(|| counts.refined_rows as f64 / counts.screened_steps as f64);
        Report {
            isa: self.model.isa(),
            precision,
            threads: self.model.threads(),
            prefill_tps: median(&mut self.prefill),
            decode_tps: decode[0],
            bytes_per_token,
            decode_gbps: bytes_per_token as f64 * decode[0] / 1e9,
            read_gbps: median(&mut self.read),
            depths: depths.collect(),
            refined_rows: screened,
            rss_bytes,
            logits_hash: self.logits_hash,
        }
    }
}

/// Whether all fits a context of `length` tokens. Each round begins an empty context anew, but goes on in the filled ones.
fn check_room(length: usize, options: &BenchOptions) -> Result<()> {
    let rounds = options.rounds.max(1);
    let deepest = options.depths.iter().copied().max().unwrap_or(0);
    let checks = [
        ("prompt", options.prompt, length),
        ("tokens", options.tokens, length),
        (
            "depth",
            deepest,
            length.saturating_sub(options.tokens.max(1).saturating_mul(rounds)),
        ),
    ];
    for (argument, found, room) in checks {
        if found > room {
            return Err(Error::InvalidArgument {
                argument,
                expected: format!(
                    "at most {room}, so that what is generated still fits the context"
                ),
                found: found.to_string(),
            });
        }
    }
    Ok(())
}

/// Tokens of context that are filled in before a cancellation is noticed.
const PART: usize = 512;

fn go_on(is_cancelled: &dyn Fn() -> bool) -> Result<()> {
    if is_cancelled() {
        Err(Error::Cancelled)
    } else {
        Ok(())
    }
}

/// Evaluates `tokens` after what the cache holds; the hidden row of the last.
fn step(model: &mut Model, cache: &mut KvCache, tokens: &[u32]) -> Result<Vec<f32>> {
    model.forward(&mut [SeqRows {
        cache,
        tokens,
        hidden: HiddenWanted::Last,
    }])
}

/// Tokens that look like any others: the same ones for the same length and vocabulary.
fn prompt(weights: &Weights, len: usize) -> Vec<u32> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % weights.config.vocab as u64) as u32
    };
    (0..len).map(|_| next()).collect()
}

/// FNV-1a over the bits.
fn hash(values: &[f32]) -> u64 {
    let bytes = values
        .iter()
        .flat_map(|value| value.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    }
}

/// Bytes of weights that one token reads: all but the experts it is not sent to, and one row of the embedding.
fn weight_bytes(weights: &Weights) -> u64 {
    let config = &weights.config;
    let layers: u64 = weights
        .layers
        .iter()
        .map(|layer| {
            let always = [&layer.q, &layer.k, &layer.v, &layer.o, &layer.router];
            let experts: u64 = layer
                .experts
                .iter()
                .flat_map(|e| [&e.gate, &e.up, &e.down])
                .map(|m| m.byte_len())
                .sum();
            always.iter().map(|m| m.byte_len()).sum::<u64>()
                + experts * config.experts_per_token as u64 / config.experts as u64
        })
        .sum();
    let head = match &weights.screen {
        Some(screen) => screen.rows.byte_len() + screen.error_norms.len() as u64,
        None => weights.head_matrix().byte_len(),
    };
    layers + head + weights.embedding.byte_len() / config.vocab as u64
}

/// Bytes of keys and values that a token at `depth` reads.
fn cache_bytes(weights: &Weights, precision: Precision, depth: usize) -> u64 {
    let config = &weights.config;
    let element = if precision == Precision::F32 { 4 } else { 2 };
    let seen = |layer: &crate::config::LayerKind| match layer {
        crate::config::LayerKind::Sliding => depth.min(config.window),
        crate::config::LayerKind::Full => depth,
    };
    let positions: usize = config.layers.iter().map(seen).sum();
    (positions * 2 * config.kv_rows() * element) as u64
}

/// GB a second that the threads of `pool` read of the weights.
fn read_rate(weights: &Weights, isa: Isa, pool: &mut Pool) -> f64 {
    /// Enough to leave any cache, few enough to be quick.
    const ENOUGH: usize = 2 << 30;
    const PIECE: usize = 1 << 20;
    let Some(kernels) = Kernels::for_isa(isa) else {
        return 0.0;
    };
    let experts = weights.layers.iter().flat_map(|layer| &layer.experts);
    let matrices = experts.flat_map(|e| [&e.gate, &e.up, &e.down]);
    let mut total = 0;
    let mut pieces = Vec::new();
    for matrix in matrices {
        for piece in bytes_of(&matrix.view()).chunks(PIECE) {
            total += piece.len();
            pieces.push(piece);
        }
        if total >= ENOUGH {
            break;
        }
    }
    // Small models are read several times over.
    let times = (ENOUGH / 4).div_ceil(total.max(1)).clamp(1, 1 << 16);
    let start = Instant::now();
    let sum = std::sync::atomic::AtomicU64::new(0);
    let done = pool.run(&|worker| {
        worker.phase(pieces.len() * times, |unit| {
            let read = read_stream(kernels, pieces[unit % pieces.len()]);
            sum.fetch_xor(read, std::sync::atomic::Ordering::Relaxed);
        });
    });
    std::hint::black_box(sum.into_inner());
    if done.is_err() {
        return 0.0;
    }
    (total * times) as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// The bytes of a matrix's codes.
fn bytes_of<'a>(matrix: &Mat<'a>) -> &'a [u8] {
    match matrix {
        Mat::Ternary(m) => m.tiles,
        Mat::Grouped(m) => m.data,
        Mat::Int8(m) => m.data,
        Mat::Dense(m) => match m.data {
            DenseData::Bf16(values) | DenseData::F16(values) => as_bytes(values),
            DenseData::F32(values) => as_bytes(values),
        },
    }
}

fn as_bytes<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: plain numbers have no padding, and bytes need no alignment.
    unsafe { values.align_to().1 }
}
