//! Root-mean-square norm and the additions of the residual stream.

use crate::dispatch::FloatFns;

impl FloatFns {
    /// `out = weight * x / sqrt(mean(x^2) + eps)`; all three slices have the same length.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn rmsnorm(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        assert_eq!(x.len(), weight.len(), "rmsnorm: weight length");
        assert_eq!(x.len(), out.len(), "rmsnorm: output length");
        // SAFETY: this table's instruction set is available (see `FloatFns`); all three hold `x.len()` values.
        unsafe { (self.rmsnorm)(x.as_ptr(), weight.as_ptr(), eps, out.as_mut_ptr(), x.len()) }
    }

    /// [`rmsnorm`](Self::rmsnorm) of `x` into itself.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn rmsnorm_in_place(&self, x: &mut [f32], weight: &[f32], eps: f32) {
        assert_eq!(x.len(), weight.len(), "rmsnorm: weight length");
        let p = x.as_mut_ptr();
        // SAFETY: as above; the kernel reads each value before it writes it, so the same memory may be both.
        unsafe { (self.rmsnorm)(p, weight.as_ptr(), eps, p, x.len()) }
    }

    /// `h += y`, element by element.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add(&self, h: &mut [f32], y: &[f32]) {
        assert_eq!(h.len(), y.len(), "add: length");
        // SAFETY: this table's instruction set is available; both hold `h.len()` values.
        unsafe { (self.add)(h.as_mut_ptr(), y.as_ptr(), h.len()) }
    }

    /// `h += factor * y` with one rounding, element by element.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add_scaled(&self, h: &mut [f32], factor: f32, y: &[f32]) {
        assert_eq!(h.len(), y.len(), "add_scaled: length");
        // SAFETY: this table's instruction set is available; both hold `h.len()` values.
        unsafe { (self.add_scaled)(h.as_mut_ptr(), factor, y.as_ptr(), h.len()) }
    }
}
