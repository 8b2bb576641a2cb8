//! Rotary position embedding, half-split ("NeoX") form, on the first dimensions of a head.

use super::lanes::{self, LANES, Lanes};

/// # Safety
/// The instruction set of `L` must be available; `head` writable for `2 * pairs` values, `cos` and `sin` readable for `pairs`.
#[inline(always)]
pub(crate) unsafe fn rotate<L: Lanes>(
    head: *mut f32,
    cos: *const f32,
    sin: *const f32,
    pairs: usize,
) {
    // SAFETY: offsets stay below `pairs` in each half, partial loads and stores cover the tail.
    unsafe {
        let other = head.add(pairs);
        for i in (0..pairs).step_by(LANES) {
            let n = pairs - i;
            let a: L = lanes::load_part(head.add(i), n, 0.0);
            let b: L = lanes::load_part(other.add(i), n, 0.0);
            let c: L = lanes::load_part(cos.add(i), n, 0.0);
            let s: L = lanes::load_part(sin.add(i), n, 0.0);
            let minus_s = L::splat(0.0).sub(s);
            lanes::store_part(b.fma(minus_s, a.mul(c)), head.add(i), n);
            lanes::store_part(b.fma(c, a.mul(s)), other.add(i), n);
        }
    }
}
