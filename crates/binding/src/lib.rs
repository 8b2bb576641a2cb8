//! The Node addon: converts, spawns and awaits; all real work is in `model`.

mod bench;
mod cancellation;
mod checkpoint;
mod cpu;
mod error;
mod generation;
mod info;
mod load;
mod model;

use napi::bindgen_prelude::create_custom_tokio_runtime;
use napi::tokio::runtime::Builder;
use napi_derive::{module_init, napi};

/// Futures here only wait and convert, so one thread polls them all; blocking work gets threads of its own.
#[module_init]
fn start_runtime() {
    if let Ok(runtime) = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("maple-async")
        .build()
    {
        create_custom_tokio_runtime(runtime);
    }
}

/// The version of the addon; the package compares it with its own when it loads.
#[napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
