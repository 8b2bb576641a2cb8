//! Root-mean-square norm and the additions of the residual stream.

use super::lanes::{self, LANES, Lanes};

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
