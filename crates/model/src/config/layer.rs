//! What differs from layer to layer.

/// How a layer's attention sees the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// Rotary positions; the query at position p sees keys p - window + 1 ..= p.
    Sliding,
    /// No positions; the query sees every key up to its own.
    Full,
}

/// The bound of the clamped SwiGLU in the published model; config.json has no key for it.
pub const SWIGLU_LIMIT: f32 = 7.0;
