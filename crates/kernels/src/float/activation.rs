//! Clamped SwiGLU and softmax.

use super::FloatFns;
use super::lanes::{self, LANES, Lanes};

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

/// # Safety
/// The instruction set of `L` must be available; `gate`, `up` readable and `out` writable for `n` values.
#[inline(always)]
pub(crate) unsafe fn swiglu<L: Lanes>(
    gate: *const f32,
    up: *const f32,
    limit: f32,
    out: *mut f32,
    n: usize,
) {
    // SAFETY: offsets stay below `n`, partial loads and stores cover the tail.
    unsafe {
        let (limit, low, one, zero) = (
            L::splat(limit),
            L::splat(-limit),
            L::splat(1.0),
            L::splat(0.0),
        );
        for i in (0..n).step_by(LANES) {
            let g = lanes::lesser(limit, lanes::load_part(gate.add(i), n - i, 0.0));
            let u = lanes::greater(
                low,
                lanes::lesser(limit, lanes::load_part(up.add(i), n - i, 0.0)),
            );
            let silu = g.div(one.add(lanes::exp(zero.sub(g))));
            lanes::store_part(silu.mul(u), out.add(i), n - i);
        }
    }
}

/// # Safety
/// The instruction set of `L` must be available; `x` writable for `n` values.
#[inline(always)]
pub(crate) unsafe fn softmax<L: Lanes>(x: *mut f32, n: usize) {
    // SAFETY: offsets stay below `n`, partial loads and stores cover the tail.
    unsafe {
        let mut top = L::splat(f32::NEG_INFINITY);
        for i in (0..n).step_by(LANES) {
            top = lanes::greater(lanes::load_part(x.add(i), n - i, f32::NEG_INFINITY), top);
        }
        let top = L::splat(lanes::max(top));
        let mut total = L::splat(0.0);
        for i in (0..n).step_by(LANES) {
            // Lanes past the end are exp(-inf) = 0 and leave the sum alone.
            let e: L =
                lanes::exp(lanes::load_part::<L>(x.add(i), n - i, f32::NEG_INFINITY).sub(top));
            total = total.add(e);
            lanes::store_part(e, x.add(i), n - i);
        }
        let total = L::splat(total.sum());
        for i in (0..n).step_by(LANES) {
            let e: L = lanes::load_part(x.add(i), n - i, 0.0);
            lanes::store_part(e.div(total), x.add(i), n - i);
        }
    }
}
