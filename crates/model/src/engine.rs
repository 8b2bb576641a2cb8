//! One thread that runs the step loop of a model, and the handle others talk to it by.
//!
//! Requests wait in an inbox; up to [`EngineOptions::max_sequences`] are in work at once and share every step. A panic or
//! an engine failure ends the loop: everything in work is told so, and so is every later call. Disposing ends it too,
//! after the step in hand.

mod inbox;
mod steps;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use self::inbox::Shared;
pub use self::steps::EngineOptions;
use self::steps::StepLoop;
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::generation::{Doorbell, Generation, Pending, Reply, TokenQueue};
use crate::sampler::SamplerParams;
use crate::session::{Generate, Goal, Job, LogitsAt};

/// Most bytes one logits request may return.
const MAX_LOGITS_BYTES: usize = 1 << 30;

/// Most positions of one prompt whose state a request may ask to keep.
const MAX_SNAPSHOT_POSITIONS: usize = 16;

/// What to generate.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The prompt; not empty.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: SamplerParams,
    /// Most tokens to generate; `None` until the context is full. More than fits is cut to what fits.
    pub max_tokens: Option<usize>,
    /// Go on past end tokens.
    pub ignore_end: bool,
    /// Ids that end the answer, instead of the checkpoint's.
    pub end_tokens: Option<Vec<u32>>,
    /// Positions inside the prompt whose state later prompts are likely to share, such as where the last turn starts.
    pub snapshot_at: Vec<usize>,
}

/// A model at work. Cheap to call from any thread; nothing here waits for a step except [`dispose`](Self::dispose).
pub struct Engine {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    context_length: usize,
    vocab_size: usize,
    end_tokens: Vec<u32>,
}

impl Engine {
    /// Starts the step loop on a thread of its own.
    pub fn start<B: Backend>(backend: B, options: EngineOptions) -> Result<Engine> {
        let shared = Arc::new(Shared::default());
        let (context_length, vocab_size) = (backend.context_length(), backend.vocab_size());
        let end_tokens = backend.end_tokens().to_vec();
        let worker_shared = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("maple-steps".into())
            .spawn(move || StepLoop::new(backend, worker_shared, options).run())
            .map_err(|error| Error::EngineFailed {
                reason: format!("cannot start a thread: {error}"),
            })?;
        Ok(Engine {
            shared,
            thread: Mutex::new(Some(thread)),
            context_length,
            vocab_size,
            end_tokens,
        })
    }

    /// Largest number of tokens of prompt and answer together.
    pub fn context_length(&self) -> usize {
        self.context_length
    }

    /// Number of token ids.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Starts an answer. Fails at once on a request that cannot be served, and when the engine is disposed or broken.
    pub fn generate(&self, request: Request) -> Result<Generation> {
        self.check_tokens("prompt", &request.prompt)?;
        request.sampling.validate()?;
        if request.prompt.len() >= self.context_length {
            return Err(Error::ContextLengthExceeded {
                prompt: request.prompt.len(),
                wanted: request.max_tokens.unwrap_or(1),
                context: self.context_length,
            });
        }
        if request.max_tokens == Some(0) {
            return Err(invalid("maxTokens", "at least 1", 0));
        }
        let end_tokens = match (request.ignore_end, request.end_tokens) {
            (true, _) => Vec::new(),
            (false, None) => self.end_tokens.clone(),
            (false, Some(own)) => own,
        };
        self.check_ids("endTokens", &end_tokens)?;
        let mut snapshot_at = request.snapshot_at;
        if snapshot_at.len() > MAX_SNAPSHOT_POSITIONS {
            let most = format!("at most {MAX_SNAPSHOT_POSITIONS} positions");
            return Err(invalid("snapshotAt", most, snapshot_at.len()));
        }
        if let Some(&at) = snapshot_at.iter().find(|&&at| at > request.prompt.len()) {
            return Err(invalid(
                "snapshotAt",
                format!("positions up to {}", request.prompt.len()),
                at,
            ));
        }
        snapshot_at.sort_unstable();
        let room = self.context_length - request.prompt.len();
        let queue = Arc::new(TokenQueue::default());
        let goal = Goal::Generate(Generate {
            queue: Arc::clone(&queue),
            params: request.sampling,
            limit: request.max_tokens.map_or(room, |most| most.min(room)),
            end_tokens,
            snapshot_at,
        });
        self.submit(Job {
            prompt: request.prompt,
            goal,
        })?;
        Ok(Generation {
            queue,
            doorbell: self.doorbell(),
        })
    }

    /// The logits (`vocab_size` each, in the order of `positions`) after each of the asked positions, from the head at
    /// source precision. Positions must ascend; none means the last.
    pub fn logits(&self, mut tokens: Vec<u32>, positions: Vec<usize>) -> Result<Pending<Vec<f32>>> {
        self.check_tokens("ids", &tokens)?;
        if tokens.len() > self.context_length {
            return Err(Error::ContextLengthExceeded {
                prompt: tokens.len(),
                wanted: 0,
                context: self.context_length,
            });
        }
        let positions = if positions.is_empty() {
            vec![tokens.len() - 1]
        } else {
            positions
        };
        if let Some(&at) = positions.iter().find(|&&at| at >= tokens.len()) {
            return Err(invalid(
                "positions",
                format!("positions below {}", tokens.len()),
                at,
            ));
        }
        if let Some(pair) = positions.windows(2).find(|pair| pair[0] >= pair[1]) {
            let found = format!("{} before {}", pair[0], pair[1]);
            return Err(invalid(
                "positions",
                "in ascending order, none twice",
                found,
            ));
        }
        let most = MAX_LOGITS_BYTES / (size_of::<f32>() * self.vocab_size);
        if positions.len() > most {
            return Err(invalid(
                "positions",
                format!("at most {most} at once"),
                positions.len(),
            ));
        }
        // What follows the last position makes no difference to it.
        tokens.truncate(positions.last().map_or(0, |last| last + 1));
        let reply = Arc::new(Reply::new());
        self.submit(Job {
            prompt: tokens,
            goal: Goal::Logits(LogitsAt {
                positions,
                reply: Arc::clone(&reply),
            }),
        })?;
        Ok(Pending {
            reply,
            doorbell: self.doorbell(),
        })
    }

    /// Ends everything in work with [`Error::Disposed`], lets the step in hand finish, and waits until the model's
    /// memory and threads are gone. May be called from several threads and again; each call returns when it is done.
    pub fn dispose(&self) {
        self.close();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // The loop catches its own panics, so there is nothing to learn from the result.
            let _ = thread.join();
        }
    }

    /// Tells the step loop to end, without waiting for it.
    pub fn close(&self) {
        self.shared.change(|inbox| inbox.closing = true);
    }

    fn submit(&self, job: Job) -> Result<()> {
        let mut inbox = self.shared.lock();
        if inbox.closing {
            return Err(Error::Disposed);
        }
        if let Some(reason) = &inbox.broken {
            return Err(Error::EngineFailed {
                reason: reason.clone(),
            });
        }
        inbox.jobs.push(job);
        drop(inbox);
        self.shared.news.notify_all();
        Ok(())
    }

    fn doorbell(&self) -> Doorbell {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || shared.change(|inbox| inbox.rung = true))
    }

    fn check_tokens(&self, argument: &'static str, tokens: &[u32]) -> Result<()> {
        if tokens.is_empty() {
            return Err(invalid(argument, "at least one token id", "none"));
        }
        self.check_ids(argument, tokens)
    }

    fn check_ids(&self, argument: &'static str, ids: &[u32]) -> Result<()> {
        match ids.iter().find(|&&id| id as usize >= self.vocab_size) {
            Some(id) => Err(invalid(
                argument,
                format!("token ids below {}", self.vocab_size),
                id,
            )),
            None => Ok(()),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The last handle may go in a garbage collector's hands, which must not wait for a step: the thread ends alone.
        self.close();
    }
}

fn invalid(argument: &'static str, expected: impl Into<String>, found: impl ToString) -> Error {
    Error::InvalidArgument {
        argument,
        expected: expected.into(),
        found: found.to_string(),
    }
}

#[cfg(test)]
mod tests;
