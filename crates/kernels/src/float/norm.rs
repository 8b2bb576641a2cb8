//! Root-mean-square norm and the additions of the residual stream.

use super::FloatFns;
use super::lanes::{self, LANES, Lanes};

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

/// # Safety
/// The instruction set of `L` must be available; `x` and `weight` readable and `out` writable for `n` values. `out` may be `x`.
#[inline(always)]
pub(crate) unsafe fn rmsnorm<L: Lanes>(
    x: *const f32,
    weight: *const f32,
    eps: f32,
    out: *mut f32,
    n: usize,
) {
    // SAFETY: offsets stay below `n`, partial loads and stores cover the tail.
    unsafe {
        let mut squares = L::splat(0.0);
        for i in (0..n).step_by(LANES) {
            let v: L = lanes::load_part(x.add(i), n - i, 0.0);
            squares = v.fma(v, squares);
        }
        let inverse = L::splat(1.0 / (squares.sum() / n as f32 + eps).sqrt());
        for i in (0..n).step_by(LANES) {
            let v: L = lanes::load_part(x.add(i), n - i, 0.0);
            let w: L = lanes::load_part(weight.add(i), n - i, 0.0);
            lanes::store_part(v.mul(inverse).mul(w), out.add(i), n - i);
        }
    }
}

/// # Safety
/// The instruction set of `L` must be available; `h` writable and `y` readable for `n` values, apart from each other.
#[inline(always)]
pub(crate) unsafe fn add<L: Lanes>(h: *mut f32, y: *const f32, n: usize) {
    // SAFETY: offsets stay below `n`, partial loads and stores cover the tail.
    unsafe {
        for i in (0..n).step_by(LANES) {
            let a: L = lanes::load_part(h.add(i), n - i, 0.0);
            let b: L = lanes::load_part(y.add(i), n - i, 0.0);
            lanes::store_part(a.add(b), h.add(i), n - i);
        }
    }
}

/// # Safety
/// The instruction set of `L` must be available; `h` writable and `y` readable for `n` values, apart from each other.
#[inline(always)]
pub(crate) unsafe fn add_scaled<L: Lanes>(h: *mut f32, factor: f32, y: *const f32, n: usize) {
    // SAFETY: offsets stay below `n`, partial loads and stores cover the tail.
    unsafe {
        let factor = L::splat(factor);
        for i in (0..n).step_by(LANES) {
            let a: L = lanes::load_part(h.add(i), n - i, 0.0);
            let b: L = lanes::load_part(y.add(i), n - i, 0.0);
            lanes::store_part(b.fma(factor, a), h.add(i), n - i);
        }
    }
}
