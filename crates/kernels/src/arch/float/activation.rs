//! Clamped SwiGLU and softmax.

use super::lanes::{self, LANES, Lanes};

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
