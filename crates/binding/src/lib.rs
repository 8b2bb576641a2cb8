//! The Node addon: converts, spawns and awaits; all real work is in `model`.

use napi_derive::napi;

/// The version of the addon; the package compares it with its own when it loads.
#[napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
