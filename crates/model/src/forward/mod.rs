//! The forward pass: tokens of several sequences in, hidden rows and logits out.
//!
//! Prefill and decoding are one code path: a batch holds for each sequence the tokens that follow what its cache holds. Results
//! are the same bits however rows are spread over calls, whoever else is in the batch, and at any number of threads: integer sums
//! are exact, and every float sum has an order that depends on nothing of that.

mod attention;
mod head;
mod layers;
mod moe;
mod pass;
mod scratch;
mod sequence;

use std::sync::{Mutex, PoisonError};

use kernels::float::rope::{rope_angles, rope_frequencies};
use kernels::{Isa, Kernels, MAX_COLS, Precision};

pub use self::head::HeadCounts;

use self::head::Head;
use self::pass::Pass;
use self::scratch::{Disjoint, Local, Scratch, stride};
use self::sequence::{Sequence, max_records};
use crate::backend::{Backend, Candidates, HiddenWanted, SeqRows};
use crate::error::{Error, Result};
use crate::kv_cache::{CacheType, KvCache};
use crate::load::available_memory;
use crate::pool::{MAX_THREADS, Pool};
use crate::weights::Weights;

/// Rows of a pass unless said otherwise.
pub const DEFAULT_MAX_ROWS: usize = 512;

/// How a model is run.
#[derive(Clone, Copy, Debug)]
pub struct ModelOptions {
    /// How activations enter the products.
    pub precision: Precision,
    /// The instruction set to use; `None` for the best this CPU has.
    pub isa: Option<Isa>,
    /// Compute threads; 0 for as many as this process may use.
    pub threads: usize,
    /// Most positions of a sequence; `None` for what the model was made for.
    pub context_length: Option<usize>,
    /// Most rows of a pass; larger batches are cut.
    pub max_rows: usize,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            precision: Precision::Int16,
            isa: None,
            threads: 0,
            context_length: None,
            max_rows: DEFAULT_MAX_ROWS,
        }
    }
}

/// A model ready to run: weights, compute threads, and the memory of a pass.
pub struct Model {
    weights: Weights,
    kernels: &'static Kernels,
    precision: Precision,
    context_length: usize,
    max_rows: usize,
    pool: Pool,
    /// For each layer the query norm, times `1 / sqrt(head_dim)`: rotation is linear, so scores come out scaled.
    query_norms: Vec<Vec<f32>>,
    frequencies: Vec<f64>,
    scratch: Scratch,
    locals: Vec<Mutex<Local>>,
    head: Head,
}

impl Model {
    /// Starts the compute threads and allocates the memory of a pass.
    ///
    /// # Errors
    /// If an option is out of its range, this CPU lacks the instruction set, or a thread cannot be had.
    pub fn new(weights: Weights, options: &ModelOptions) -> Result<Self> {
        let invalid = |argument, expected: String, found: String| Error::InvalidArgument {
            argument,
            expected,
            found,
        };
        let config = &weights.config;
        let widest = config
            .hidden
            .max(config.query_rows())
            .max(config.expert_hidden);
        if widest > MAX_COLS {
            return Err(invalid(
                "weights",
                format!("matrices of at most {MAX_COLS} columns"),
                widest.to_string(),
            ));
        }
        let kernels = match options.isa {
            None => Kernels::detect(),
            Some(isa) => Kernels::for_isa(isa).ok_or_else(|| {
                let names: Vec<_> = Kernels::available().map(Isa::name).collect();
                invalid(
                    "isa",
                    format!("one this CPU can run ({})", names.join(", ")),
                    isa.to_string(),
                )
            })?,
        };
        let context_length = options.context_length.unwrap_or(config.max_positions);
        if !(1..=config.max_positions).contains(&context_length) {
            let expected = format!("1 to {}, what the model was made for", config.max_positions);
            return Err(invalid(
                "context_length",
                expected,
                context_length.to_string(),
            ));
        }
        if !(1..=1 << 16).contains(&options.max_rows) {
            return Err(invalid(
                "max_rows",
                format!("1 to {}", 1 << 16),
                options.max_rows.to_string(),
            ));
        }
        // Allocating more than there is would end the process.
        let needed = Scratch::bytes(config, options.max_rows);
        if let Some(available) = available_memory().filter(|&available| available < needed) {
            return Err(Error::OutOfMemory {
                purpose: format!("for a step of {} rows", options.max_rows),
                needed,
                available,
                advice: "let steps have fewer rows (`stepRows`)".to_owned(),
            });
        }
        let pool = Pool::new(options.threads).map_err(|error| {
            let expected =
                format!("at most {MAX_THREADS}, and as many as the system gives ({error})");
            invalid("threads", expected, options.threads.to_string())
        })?;
        let scale = 1.0 / (config.head_dim as f32).sqrt();
        let query_norms = weights
            .layers
            .iter()
            .map(|layer| layer.q_norm.iter().map(|w| w * scale).collect());
        Ok(Self {
            kernels,
            precision: options.precision,
            context_length,
            max_rows: options.max_rows,
            query_norms: query_norms.collect(),
            frequencies: rope_frequencies(config.rope_theta, config.rotated),
            scratch: Scratch::new(config, options.precision, options.max_rows),
            locals: (0..pool.threads())
                .map(|_| Mutex::new(Local::new(config, options.precision)))
                .collect(),
            head: Head::new(&weights, options.precision),
            pool,
            weights,
        })
    }

    /// The weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.kernels.isa()
    }

    /// How activations enter the products.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Compute threads.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// How the largest logits were found so far.
    pub fn head_counts(&self) -> HeadCounts {
        self.head.counts
    }

    fn check(&self, batch: &[SeqRows<'_, KvCache>]) -> Result<()> {
        for sequence in batch {
            let (held, new) = (sequence.cache.len(), sequence.tokens.len());
            if new == 0 {
                return Err(Error::InvalidArgument {
                    argument: "tokens",
                    expected: "at least one token a sequence".to_owned(),
                    found: "none".to_owned(),
                });
            }
            if new > self.context_length.saturating_sub(held) {
                return Err(Error::ContextLengthExceeded {
                    prompt: held,
                    wanted: new,
                    context: self.context_length,
                });
            }
            let vocab = self.weights.config.vocab;
            if let Some(token) = sequence
                .tokens
                .iter()
                .find(|&&token| token as usize >= vocab)
            {
                return Err(Error::InvalidArgument {
                    argument: "tokens",
                    expected: format!("ids below the vocabulary size {vocab}"),
                    found: token.to_string(),
                });
            }
        }
        Ok(())
    }

    /// One pass: for each part a sequence of the batch and which of its tokens. Leaves the residual stream in the scratch.
    fn pass(&mut self, batch: &mut [SeqRows<'_, KvCache>], parts: &[Part]) -> Result<()> {
        let config = &self.weights.config;
        let mut tokens = Vec::with_capacity(self.max_rows);
        for part in parts {
            tokens.extend_from_slice(&batch[part.sequence].tokens[part.from..part.to]);
            batch[part.sequence].cache.prepare(part.to - part.from)?;
        }
        let n = tokens.len();
        let mut first = 0;
        let sequences: Vec<_> = parts
            .iter()
            .map(|part| {
                let cache = &*batch[part.sequence].cache;
                let rows = part.to - part.from;
                first += rows;
                Sequence {
                    cache,
                    first: first - rows,
                    rows,
                    start: cache.len(),
                }
            })
            .collect();
        let scratch = &mut self.scratch;
        let pairs = self.frequencies.len();
        for sequence in &sequences {
            for row in 0..sequence.rows {
                let at = (sequence.first + row) * pairs;
                let (cos, sin) = (
                    &mut scratch.cos[at..at + pairs],
                    &mut scratch.sin[at..at + pairs],
                );
                rope_angles(sequence.start + row, &self.frequencies, cos, sin);
            }
        }
        let records = max_records(&sequences, config.layers.len(), config.heads);
        let records = records * kernels::float::attention::record_len(config.head_dim);
        if scratch.records.len() < records {
            scratch.records.resize(records.next_power_of_two(), 0.0);
        }
        scratch.x.set_len(n);
        scratch.attention.set_len(n);
        scratch.inner.set_len(n * config.experts_per_token);
        let pass = Pass {
            config,
            weights: &self.weights,
            kernels: self.kernels,
            fns: self.kernels.float(),
            query_norms: &self.query_norms,
            cache_type: cache_type(self.precision),
            tokens: &tokens,
            sequences: &sequences,
            h: Disjoint::new(&mut scratch.h),
            x: scratch.x.share(),
            qkv: Disjoint::new(&mut scratch.qkv),
            h_stride: stride(config.hidden),
            qkv_stride: stride(config.query_rows() + 2 * config.kv_rows()),
            attention: scratch.attention.share(),
            records: Disjoint::new(&mut scratch.records),
            router: Disjoint::new(&mut scratch.router),
            choices: Disjoint::new(&mut scratch.choices),
            inner: scratch.inner.share(),
            cos: &scratch.cos,
            sin: &scratch.sin,
            iota: &scratch.iota,
            overflow: &scratch.overflow,
        };
        let locals = &self.locals;
        let done = self.pool.run(&|worker| {
            // Each thread has its own, so nobody waits here; one that panicked left nothing of use.
            let mut local = locals[worker.index()]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            pass.run(worker, &mut local);
        });
        done.map_err(|panicked| Error::EngineFailed {
            reason: panicked.to_string(),
        })?;
        let (hidden, layers) = (config.hidden, config.layers.len());
        let mut first = 0;
        for part in parts {
            let rows = part.to - part.from;
            let overflow = self.scratch.overflow(first, rows, hidden, layers);
            batch[part.sequence].cache.commit(rows, overflow);
            first += rows;
        }
        Ok(())
    }

    /// Norms the wanted rows of the last pass and appends them to `out`.
    fn take_hidden(&self, batch: &[SeqRows<'_, KvCache>], parts: &[Part], out: &mut Vec<f32>) {
        let config = &self.weights.config;
        let mut first = 0;
        for part in parts {
            let rows = part.to - part.from;
            let ends = part.to == batch[part.sequence].tokens.len();
            let wanted = match batch[part.sequence].hidden {
                HiddenWanted::None => 0,
                HiddenWanted::Last => usize::from(ends),
                HiddenWanted::All => rows,
            };
            for r in first + rows - wanted..first + rows {
                let at = out.len();
                out.resize(at + config.hidden, 0.0);
                let h = &self.scratch.h[r * stride(config.hidden)..][..config.hidden];
                self.kernels
                    .float()
                    .rmsnorm(h, &self.weights.norm, config.rms_eps, &mut out[at..]);
            }
            first += rows;
        }
    }

    fn check_hidden(&self, hidden: &[f32], rows: usize) -> Result<()> {
        let expected = rows * self.weights.config.hidden;
        if hidden.len() == expected {
            return Ok(());
        }
        Err(Error::InvalidArgument {
            argument: "hidden",
            expected: format!("{expected} values"),
            found: hidden.len().to_string(),
        })
    }
}

/// Tokens `from .. to` of a sequence of the batch.
struct Part {
    sequence: usize,
    from: usize,
    to: usize,
}

fn cache_type(precision: Precision) -> CacheType {
    match precision {
        Precision::F32 => CacheType::F32,
        Precision::Int16 | Precision::Int8 => CacheType::F16,
    }
}

impl Backend for Model {
    type Cache = KvCache;

    fn context_length(&self) -> usize {
        self.context_length
    }

    fn vocab_size(&self) -> usize {
        self.weights.config.vocab
    }

    fn hidden_size(&self) -> usize {
        self.weights.config.hidden
    }

    fn end_tokens(&self) -> &[u32] {
        &self.weights.config.eos
    }

    fn new_cache(&self) -> KvCache {
        KvCache::new(
            &self.weights.config,
            cache_type(self.precision),
            self.max_rows,
        )
    }

    fn forward(&mut self, batch: &mut [SeqRows<'_, KvCache>]) -> Result<Vec<f32>> {
        self.check(batch)?;
        let mut hidden = Vec::new();
        let mut parts: Vec<Part> = Vec::new();
        let mut rows = 0;
        for sequence in 0..batch.len() {
            let mut from = 0;
            while from < batch[sequence].tokens.len() {
                let to = batch[sequence]
                    .tokens
                    .len()
                    .min(from + self.max_rows - rows);
                parts.push(Part { sequence, from, to });
                rows += to - from;
                from = to;
                if rows == self.max_rows {
                    self.pass(batch, &parts)?;
                    self.take_hidden(batch, &parts, &mut hidden);
                    parts.clear();
                    rows = 0;
                }
            }
        }
        if rows > 0 {
            self.pass(batch, &parts)?;
            self.take_hidden(batch, &parts, &mut hidden);
        }
        Ok(hidden)
    }

    fn logits(&mut self, hidden: &[f32], out: &mut [f32]) -> Result<()> {
        let rows = out.len() / self.weights.config.vocab;
        self.check_hidden(hidden, rows)?;
        if out.len() != rows * self.weights.config.vocab {
            return Err(Error::InvalidArgument {
                argument: "out",
                expected: format!("room for rows of {} logits", self.weights.config.vocab),
                found: out.len().to_string(),
            });
        }
        let done = self
            .head
            .logits(&self.weights, self.kernels, &mut self.pool, hidden, out);
        done.map_err(|panicked| Error::EngineFailed {
            reason: panicked.to_string(),
        })
    }

    fn top_k(&mut self, hidden: &[f32], k: usize, penalised: &[u32]) -> Result<Candidates> {
        self.check_hidden(hidden, 1)?;
        let vocab = self.weights.config.vocab;
        if let Some(id) = penalised.iter().find(|&&id| id as usize >= vocab) {
            return Err(Error::InvalidArgument {
                argument: "penalised",
                expected: format!("ids below the vocabulary size {vocab}"),
                found: id.to_string(),
            });
        }
        let found = self.head.top_k(
            &self.weights,
            self.kernels,
            &mut self.pool,
            hidden,
            k,
            penalised,
        );
        found.map_err(|panicked| Error::EngineFailed {
            reason: panicked.to_string(),
        })
    }
}
