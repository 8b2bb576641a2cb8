//! One sequence: its tokens, its KV state and what is wanted of it. A session says which rows it has ready and takes in
//! what a step returned for them; when steps run and with whom is the scheduler's business.

use std::sync::Arc;

use crate::backend::{Backend, Candidates, HiddenWanted, Overflow, SeqRows, SequenceCache};
use crate::error::{Error, Result};
use crate::generation::{Finish, FinishReason, Reply, SharedError, TokenQueue};
use crate::prefix::{PrefixStore, Resumed, Snapshots};
use crate::sampler::{SamplerParams, SeenTokens, sample};

/// What is to become of a prompt.
pub(crate) enum Goal {
    /// Tokens that follow it.
    Generate(Generate),
    /// Logits at some of its positions.
    Logits(LogitsAt),
}

pub(crate) struct Generate {
    pub(crate) queue: Arc<TokenQueue>,
    pub(crate) params: SamplerParams,
    /// Most tokens to generate, at least 1; prompt and answer fit the context.
    pub(crate) limit: usize,
    /// Ids that end the answer.
    pub(crate) end_tokens: Vec<u32>,
    /// Prompt positions whose state is worth keeping, ascending.
    pub(crate) snapshot_at: Vec<usize>,
}

pub(crate) struct LogitsAt {
    /// Ascending, below the prompt's length.
    pub(crate) positions: Vec<usize>,
    pub(crate) reply: Arc<Reply<Vec<f32>>>,
}

/// A request that waits for its turn.
pub(crate) struct Job {
    pub(crate) prompt: Vec<u32>,
    pub(crate) goal: Goal,
}

impl Job {
    /// Whether nobody waits for the result any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        match &self.goal {
            Goal::Generate(generate) => generate.queue.is_cancelled(),
            Goal::Logits(logits) => logits.reply.is_abandoned(),
        }
    }

    pub(crate) fn fail(&self, error: SharedError) {
        match &self.goal {
            Goal::Generate(generate) => generate.queue.end(Err(error)),
            Goal::Logits(logits) => logits.reply.send(Err(error)),
        }
    }
}

/// Memory reused from token to token, shared by all sessions of an engine.
#[derive(Default)]
pub(crate) struct Scratch {
    all: Candidates,
}

/// A sequence in work.
pub(crate) struct Session<C: SequenceCache> {
    job: Job,
    /// The prompt's length; `job.prompt` grows by the answer.
    prompt_tokens: usize,
    cached_tokens: usize,
    cache: C,
    snapshots: Snapshots<C>,
    seen: SeenTokens,
    /// Logits rows collected so far.
    rows: Vec<f32>,
    done: bool,
    failed: bool,
}

impl<C: SequenceCache> Session<C> {
    /// Starts a request, from a kept prefix where there is one.
    pub(crate) fn start<B: Backend<Cache = C>>(
        job: Job,
        backend: &B,
        prefixes: &mut PrefixStore<C>,
    ) -> Self {
        // Logits requests are for exactness checks and scoring: they neither use nor leave anything.
        let resumed = match job.goal {
            Goal::Generate(_) => prefixes.resume(&job.prompt),
            Goal::Logits(_) => None,
        };
        let Resumed { cache, snapshots } = resumed.unwrap_or_else(|| Resumed {
            cache: backend.new_cache(),
            snapshots: Snapshots::new(),
        });
        let mut seen = SeenTokens::new(0);
        if let Goal::Generate(generate) = &job.goal {
            generate.queue.set_cached_tokens(cache.len());
            if generate.params.penalises() {
                seen = SeenTokens::new(backend.vocab_size());
                job.prompt.iter().for_each(|&id| seen.insert(id));
            }
        }
        Session {
            prompt_tokens: job.prompt.len(),
            cached_tokens: cache.len(),
            cache,
            snapshots,
            seen,
            rows: Vec::new(),
            done: false,
            failed: false,
            job,
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.job.is_cancelled()
    }

    /// Whether the goal has been reached, or missed for good.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) fn fail(&mut self, error: SharedError) {
        self.job.fail(error);
        self.done = true;
        self.failed = true;
    }

    /// Rows that could go into the next step: 0 while the reader has to catch up.
    pub(crate) fn ready(&self) -> usize {
        if self.done {
            return 0;
        }
        let pending = self.job.prompt.len() - self.cache.len();
        let Goal::Generate(generate) = &self.job.goal else {
            return pending;
        };
        if generate.queue.is_full() {
            return 0;
        }
        // A step must not run so far past a wanted position that its state is forgotten before it can be kept.
        let end = generate
            .snapshot_at
            .iter()
            .filter(|&&at| at > self.cache.len())
            .map(|at| at + self.cache.slack())
            .fold(self.job.prompt.len(), usize::min);
        pending.min(end - self.cache.len())
    }

    /// The next `rows` rows.
    pub(crate) fn rows(&mut self, rows: usize) -> SeqRows<'_, C> {
        let start = self.cache.len();
        let end = start + rows;
        let hidden = match &self.job.goal {
            Goal::Generate(_) if end == self.job.prompt.len() => HiddenWanted::Last,
            Goal::Generate(_) => HiddenWanted::None,
            Goal::Logits(logits) => match logits.positions.iter().find(|&&at| at >= start) {
                Some(&at) if at + 1 < end => HiddenWanted::All,
                Some(&at) if at + 1 == end => HiddenWanted::Last,
                _ => HiddenWanted::None,
            },
        };
        SeqRows {
            cache: &mut self.cache,
            tokens: &self.job.prompt[start..end],
            hidden,
        }
    }

    /// Takes in a step's result: `hidden` holds the rows asked for, the last `rows` tokens are now in the cache.
    pub(crate) fn advance<B: Backend<Cache = C>>(
        &mut self,
        rows: usize,
        hidden: &[f32],
        backend: &mut B,
        scratch: &mut Scratch,
        keep_snapshots: bool,
    ) -> Result<()> {
        if let Some(Overflow { layer, position }) = self.cache.overflow() {
            let place = match layer {
                Some(layer) => format!("in layer {layer}"),
                None => "in the embedding".to_owned(),
            };
            // The fault of this sequence's numbers, not of the engine: others go on.
            self.fail(Arc::new(Error::NumbersOverflowed { place, position }));
            return Ok(());
        }
        let start = self.cache.len() - rows;
        if keep_snapshots {
            self.take_snapshots(start);
        }
        match &self.job.goal {
            Goal::Generate(_) if hidden.is_empty() => Ok(()),
            Goal::Generate(_) => self.next_token(hidden, backend, scratch),
            Goal::Logits(_) => self.collect_logits(start, hidden, backend),
        }
    }

    fn take_snapshots(&mut self, start: usize) {
        let Goal::Generate(generate) = &self.job.goal else {
            return;
        };
        // The state before the prompt's last token is what the same prompt, asked again, continues from.
        let before_last = self.prompt_tokens - 1;
        for at in generate.snapshot_at.iter().copied().chain([before_last]) {
            if at > start && at <= self.cache.len() {
                self.snapshots.take(&self.cache, at);
            }
        }
    }

    fn next_token<B: Backend<Cache = C>>(
        &mut self,
        hidden: &[f32],
        backend: &mut B,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Goal::Generate(generate) = &self.job.goal else {
            return Ok(());
        };
        let position = self.job.prompt.len();
        let needed = generate
            .params
            .candidates_needed()
            .map(|k| k.min(backend.vocab_size()));
        let token = match needed {
            // Where a large part of the vocabulary is wanted, one pass over all of it is the shorter way.
            Some(k) if k + self.seen.ids().len() <= backend.vocab_size() / 4 => {
                let candidates = backend.top_k(hidden, k, self.seen.ids())?;
                sample(&candidates, &generate.params, &self.seen, position)
            }
            _ => {
                let all = &mut scratch.all;
                if all.ids.len() != backend.vocab_size() {
                    all.ids = (0..backend.vocab_size() as u32).collect();
                    all.logits = vec![0.0; backend.vocab_size()];
                }
                backend.logits(hidden, &mut all.logits)?;
                sample(all, &generate.params, &self.seen, position)
            }
        };
        let Some(token) = token else {
            self.fail(Arc::new(Error::NumbersOverflowed {
                place: "in the last norm or the head".to_owned(),
                position: position - 1,
            }));
            return Ok(());
        };
        let generated = position + 1 - self.prompt_tokens;
        let finish = |reason| Finish {
            reason,
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            completion_tokens: generated,
        };
        if generate.end_tokens.contains(&token) {
            generate.queue.end(Ok(finish(FinishReason::Stop)));
            self.done = true;
            return Ok(());
        }
        generate.queue.push(token);
        if generated == generate.limit {
            generate.queue.end(Ok(finish(FinishReason::Length)));
            self.done = true;
            return Ok(());
        }
        if generate.params.penalises() {
            self.seen.insert(token);
        }
        self.job.prompt.push(token);
        Ok(())
    }

    fn collect_logits<B: Backend<Cache = C>>(
        &mut self,
        start: usize,
        hidden: &[f32],
        backend: &mut B,
    ) -> Result<()> {
        let Goal::Logits(logits) = &self.job.goal else {
            return Ok(());
        };
        let width = backend.hidden_size();
        let first = self.cache.len() - hidden.len() / width;
        for &at in logits
            .positions
            .iter()
            .filter(|&&at| at >= start && at < self.cache.len())
        {
            let row = (at - first) * width;
            let filled = self.rows.len();
            // Up to a gigabyte, for which there may be no room.
            let room = self.rows.try_reserve(backend.vocab_size());
            room.map_err(|_| Error::OutOfMemory {
                purpose: "for logits".to_owned(),
                needed: (size_of::<f32>() * logits.positions.len() * backend.vocab_size()) as u64,
                available: 0,
                advice: "ask for fewer positions at once".to_owned(),
            })?;
            self.rows.resize(filled + backend.vocab_size(), 0.0);
            backend.logits(&hidden[row..row + width], &mut self.rows[filled..])?;
        }
        if logits
            .positions
            .last()
            .is_none_or(|&last| last < self.cache.len())
        {
            logits.reply.send(Ok(std::mem::take(&mut self.rows)));
            self.done = true;
        }
        Ok(())
    }

    /// Leaves the state for later requests, if it can be trusted.
    pub(crate) fn leave(mut self, prefixes: &mut PrefixStore<C>) {
        if matches!(self.job.goal, Goal::Generate(_)) && !self.failed {
            self.job.prompt.truncate(self.cache.len());
            prefixes.keep(self.job.prompt, self.cache, self.snapshots);
        }
    }
}
