//! Clamped SwiGLU and softmax.

use crate::dispatch::FloatFns;

impl FloatFns {
    /// `out = silu(min(gate, limit)) * clamp(up, -limit, limit)`, element by element, with `silu(x) = x / (1 + e^-x)`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn swiglu(&self, gate: &[f32], up: &[f32], limit: f32, out: &mut [f32]) {
        assert_eq!(gate.len(), up.len(), "swiglu: length of up");
        assert_eq!(gate.len(), out.len(), "swiglu: output length");
        // SAFETY: this table's instruction set is available (see `FloatFns`); all three hold `gate.len()` values.
        unsafe {
            (self.swiglu)(
                gate.as_ptr(),
                up.as_ptr(),
                limit,
                out.as_mut_ptr(),
                gate.len(),
            )
        }
    }

    /// `x = e^(x - max x) / sum`, in place. An empty slice stays empty; a NaN anywhere makes every value NaN.
    pub fn softmax(&self, x: &mut [f32]) {
        // SAFETY: this table's instruction set is available; the slice holds `x.len()` values.
        unsafe { (self.softmax)(x.as_mut_ptr(), x.len()) }
    }
}
