//! What leaves the step loop: a bounded queue of tokens for each answer, and a single reply for each logits request.
//!
//! The reader pulls. A reader that is slow fills its queue, and the step loop then leaves its sequence out until there
//! is room; one that goes away cancels. Nothing here depends on an async runtime: waiting is a plain [`Future`].

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::error::Error;

/// Tokens a queue holds before its sequence has to wait.
pub(crate) const QUEUE_CAPACITY: usize = 64;

/// Errors that several readers may be told of.
pub type SharedError = Arc<Error>;

/// Wakes the step loop when a reader has done something it should look at.
pub(crate) type Doorbell = Arc<dyn Fn() + Send + Sync>;

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// An end token.
    Stop,
    /// The token limit, or the end of the context.
    Length,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, how many were taken from an earlier request's state.
    pub cached_tokens: usize,
    /// Tokens generated, an end token included.
    pub completion_tokens: usize,
}

/// What has become available since the last pull: tokens, the end, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The tokens, oldest first. An end token is not among them.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt that were taken from an earlier request's state.
    pub cached_tokens: usize,
    /// Set when no more will come.
    pub finish: Option<Finish>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done under these locks, so a panic elsewhere does not make their contents wrong.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct QueueState {
    tokens: VecDeque<u32>,
    cached_tokens: usize,
    end: Option<Result<Finish, SharedError>>,
    cancelled: bool,
    wakers: Vec<Waker>,
}

impl QueueState {
    fn wake(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakers)
    }
}

/// The step loop's end of a queue and the reader's, in one.
#[derive(Default)]
pub(crate) struct TokenQueue(Mutex<QueueState>);

impl TokenQueue {
    /// Says what the answer started from, before its first token.
    pub(crate) fn set_cached_tokens(&self, cached_tokens: usize) {
        lock(&self.0).cached_tokens = cached_tokens;
    }

    /// Adds a token.
    pub(crate) fn push(&self, token: u32) {
        let wakers = {
            let mut state = lock(&self.0);
            if state.end.is_none() {
                state.tokens.push_back(token);
            }
            state.wake()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Says how the answer ended; only the first end counts.
    pub(crate) fn end(&self, end: Result<Finish, SharedError>) {
        let wakers = {
            let mut state = lock(&self.0);
            state.end.get_or_insert(end);
            state.wake()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_full(&self) -> bool {
        lock(&self.0).tokens.len() >= QUEUE_CAPACITY
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        lock(&self.0).cancelled
    }
}

/// An answer being generated. Dropping it cancels it.
pub struct Generation {
    pub(crate) queue: Arc<TokenQueue>,
    pub(crate) doorbell: Doorbell,
}

impl Generation {
    /// Waits until there is something to hand over, then hands over all of it. After the end, tells the end again.
    /// Several callers may wait at once; each token goes to one of them.
    pub async fn next(&self) -> Result<Chunk, SharedError> {
        let mut was_full = false;
        let chunk = poll_fn(|context| {
            let mut state = lock(&self.queue.0);
            was_full = state.tokens.len() >= QUEUE_CAPACITY;
            let tokens = Vec::from(std::mem::take(&mut state.tokens));
            let cached_tokens = state.cached_tokens;
            match &state.end {
                Some(Ok(finish)) => Poll::Ready(Ok(Chunk {
                    tokens,
                    cached_tokens,
                    finish: Some(*finish),
                })),
                Some(Err(error)) if tokens.is_empty() => Poll::Ready(Err(Arc::clone(error))),
                _ if !tokens.is_empty() => Poll::Ready(Ok(Chunk {
                    tokens,
                    cached_tokens,
                    finish: None,
                })),
                _ => {
                    if !state
                        .wakers
                        .iter()
                        .any(|waker| waker.will_wake(context.waker()))
                    {
                        state.wakers.push(context.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await;
        if was_full {
            (self.doorbell)();
        }
        chunk
    }

    /// Ends the answer where it is; the reader is told [`Error::Cancelled`] unless it had ended before.
    pub fn cancel(&self) {
        let wakers = {
            let mut state = lock(&self.queue.0);
            if state.end.is_some() {
                return;
            }
            state.cancelled = true;
            state.tokens.clear();
            state.end = Some(Err(Arc::new(Error::Cancelled)));
            state.wake()
        };
        wakers.into_iter().for_each(Waker::wake);
        (self.doorbell)();
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.cancel();
    }
}

struct ReplyState<T> {
    value: Option<Result<T, SharedError>>,
    abandoned: bool,
    waker: Option<Waker>,
}

/// A place for one value that is to come.
pub(crate) struct Reply<T>(Mutex<ReplyState<T>>);

impl<T> Reply<T> {
    pub(crate) fn new() -> Self {
        Reply(Mutex::new(ReplyState {
            value: None,
            abandoned: false,
            waker: None,
        }))
    }

    pub(crate) fn send(&self, value: Result<T, SharedError>) {
        let waker = {
            let mut state = lock(&self.0);
            state.value.get_or_insert(value);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        lock(&self.0).abandoned
    }

    fn abandon(&self) {
        lock(&self.0).abandoned = true;
    }
}

/// A value that is being worked out. Dropping it cancels the work.
pub struct Pending<T> {
    pub(crate) reply: Arc<Reply<T>>,
    pub(crate) doorbell: Doorbell,
}

impl<T: Send + 'static> Pending<T> {
    /// An action that stops the work, after which [`wait`](Self::wait) brings [`Error::Cancelled`] unless the value was
    /// there before.
    pub fn canceller(&self) -> impl FnOnce() + Send + 'static {
        let (reply, doorbell) = (Arc::clone(&self.reply), Arc::clone(&self.doorbell));
        move || {
            reply.abandon();
            reply.send(Err(Arc::new(Error::Cancelled)));
            doorbell();
        }
    }
}

impl<T> Pending<T> {
    /// Waits for the value. It is handed over once.
    pub async fn wait(self) -> Result<T, SharedError> {
        poll_fn(|context| {
            let mut state = lock(&self.reply.0);
            match state.value.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.reply.abandon();
        (self.doorbell)();
    }
}
