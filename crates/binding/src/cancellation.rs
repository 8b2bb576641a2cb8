//! A handle by which JavaScript stops work that is under way.

use std::sync::{Arc, Mutex, PoisonError};

use napi_derive::napi;

type Action = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    cancelled: bool,
    actions: Vec<Action>,
}

/// The inside of a handle, shared with the work.
#[derive(Clone, Default)]
pub struct Flag(Arc<Mutex<State>>);

impl Flag {
    /// Whether [`cancel`](Self::cancel) has been called.
    pub fn is_cancelled(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .cancelled
    }

    /// Stops the work; again has no effect.
    pub fn cancel(&self) {
        let actions = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.cancelled = true;
            std::mem::take(&mut state.actions)
        };
        actions.into_iter().for_each(|action| action());
    }

    /// Runs an action when cancelled, at once if that has happened.
    pub fn on_cancel(&self, action: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.cancelled {
            state.actions.push(Box::new(action));
            return;
        }
        drop(state);
        action();
    }
}

/// Hand one to `NativeModel.load` or `logits`; `cancel()` makes that call reject with the code `CANCELLED`.
#[napi]
#[derive(Default)]
pub struct Cancellation {
    pub(crate) flag: Flag,
}

#[napi]
impl Cancellation {
    /// A handle for one call.
    #[napi(constructor)]
    pub fn new() -> Self {
        Cancellation::default()
    }

    /// Stops the call as soon as it can be stopped; once it has settled, does nothing.
    #[napi]
    pub fn cancel(&self) {
        self.flag.cancel();
    }
}
