//! An answer that JavaScript pulls.

use std::sync::Arc;

use model::engine::Engine;
use model::generation::{FinishReason, Generation};
use napi::bindgen_prelude::Uint32Array;
use napi_derive::napi;

use crate::error::to_js;

/// What a pull brought.
#[napi(object, object_from_js = false)]
pub struct NativeChunk {
    /// The new tokens; empty only where the answer has ended.
    pub tokens: Uint32Array,
    /// Set on the last chunk: `stop` or `length`.
    #[napi(ts_type = "'stop' | 'length'")]
    pub finish_reason: Option<&'static str>,
    /// Tokens of the prompt; 0 before the last chunk.
    pub prompt_tokens: u32,
    /// Prompt tokens whose KV entries were reused.
    pub cached_tokens: u32,
    /// Tokens generated, an end token included; 0 before the last chunk.
    pub completion_tokens: u32,
}

/// An answer in work. Letting go of it cancels it.
#[napi]
pub struct NativeGeneration {
    pub(crate) inner: Arc<Generation>,
    /// A model that JavaScript has let go of lives on while its answers are read.
    pub(crate) _engine: Arc<Engine>,
}

#[napi]
impl NativeGeneration {
    /// Waits for tokens, then brings all there are; after the end, brings the end again. A reader that does not pull
    /// pauses the generation.
    #[napi(catch_unwind)]
    pub async fn next(&self) -> napi::Result<NativeChunk> {
        let generation = Arc::clone(&self.inner);
        let chunk = generation.next().await.map_err(to_js)?;
        let finish = chunk.finish;
        Ok(NativeChunk {
            tokens: Uint32Array::new(chunk.tokens),
            finish_reason: finish.map(|finish| match finish.reason {
                FinishReason::Stop => "stop",
                FinishReason::Length => "length",
            }),
            prompt_tokens: finish.map_or(0, |finish| finish.prompt_tokens as u32),
            cached_tokens: chunk.cached_tokens as u32,
            completion_tokens: finish.map_or(0, |finish| finish.completion_tokens as u32),
        })
    }

    /// Ends the answer; a pull that waits rejects with the code `CANCELLED` at once.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.inner.cancel();
    }
}
