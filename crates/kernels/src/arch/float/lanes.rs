//! Sixteen f32 lanes: the one vector type the float operations are written over.
//!
//! Every operation is written once, over this trait, and compiled once per instruction set. The width is sixteen on all of
//! them, whatever the registers hold, and each method is a correctly rounded IEEE operation or a plain selection. So the
//! results are the same bits everywhere.

use crate::data::half::bf16_to_f32;

/// Lanes in a vector, and the width of every reduction.
pub(crate) const LANES: usize = 16;

/// Sixteen f32 values in the registers of one instruction set.
///
/// All methods are `unsafe` for one shared reason: they may only run where the instruction set of the implementation is
/// available. Loads and stores also need their sixteen elements to be readable or writable; they need no alignment.
pub(crate) trait Lanes: Copy {
    /// Whether the register file holds sixteen vectors and more of this type, which sets the tile sizes of attention.
    const WIDE: bool;

    /// All lanes `x`.
    unsafe fn splat(x: f32) -> Self;
    /// Reads sixteen values.
    unsafe fn load(p: *const f32) -> Self;
    /// Writes sixteen values.
    unsafe fn store(self, p: *mut f32);
    /// Reads sixteen half-precision values; they must be finite.
    unsafe fn load_f16(p: *const u16) -> Self;
    /// Reads sixteen bfloat16 values.
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: sixteen readable values, by contract.
        unsafe {
            let bits = p.cast::<[u16; LANES]>().read_unaligned();
            Self::load(bits.map(bf16_to_f32).as_ptr())
        }
    }
    /// Writes sixteen half-precision values, rounded to nearest even; the lanes must be within the f16 range or NaN.
    unsafe fn store_f16(self, p: *mut u16);
    /// `self + o`.
    unsafe fn add(self, o: Self) -> Self;
    /// `self - o`.
    unsafe fn sub(self, o: Self) -> Self;
    /// `self * o`.
    unsafe fn mul(self, o: Self) -> Self;
    /// `self / o`, correctly rounded.
    unsafe fn div(self, o: Self) -> Self;
    /// `self * b + c` with one rounding.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    /// `a < b ? x : y`, lane by lane; false where either is NaN.
    unsafe fn select_lt(a: Self, b: Self, x: Self, y: Self) -> Self;
    /// Sum of the lanes in a fixed tree: lane `i` with `i + 8`, then `+ 4`, `+ 2`, `+ 1`.
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let mut a = [0.0; LANES];
        // SAFETY: the array holds sixteen values.
        unsafe { self.store(a.as_mut_ptr()) };
        for i in 0..8 {
            a[i] += a[i + 8];
        }
        for i in 0..4 {
            a[i] += a[i + 4];
        }
        (a[0] + a[2]) + (a[1] + a[3])
    }
    /// `2^n`, where `n` in -126..=127 is the value in the low mantissa bits of `self` (see [`exp`]).
    unsafe fn pow2_of_bits(self) -> Self;
}

/// `a > b ? a : b`: a NaN in `b` stays, a NaN in `a` yields `b`.
///
/// # Safety
/// The instruction set of `L` must be available.
#[inline(always)]
pub(crate) unsafe fn greater<L: Lanes>(a: L, b: L) -> L {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { L::select_lt(b, a, a, b) }
}

/// `a < b ? a : b`: a NaN in `b` stays, a NaN in `a` yields `b`.
///
/// # Safety
/// The instruction set of `L` must be available.
#[inline(always)]
pub(crate) unsafe fn lesser<L: Lanes>(a: L, b: L) -> L {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { L::select_lt(a, b, a, b) }
}

/// Reads `min(n, 16)` values, the other lanes `fill`.
///
/// # Safety
/// The instruction set of `L` must be available; `p` must be readable for `min(n, 16)` values.
#[inline(always)]
pub(crate) unsafe fn load_part<L: Lanes>(p: *const f32, n: usize, fill: f32) -> L {
    let mut buffer = [fill; LANES];
    // SAFETY: the caller vouches for `p` and the instruction set; the buffer holds sixteen values.
    unsafe {
        if n >= LANES {
            return L::load(p);
        }
        std::ptr::copy_nonoverlapping(p, buffer.as_mut_ptr(), n);
        L::load(buffer.as_ptr())
    }
}

/// Writes the first `min(n, 16)` lanes.
///
/// # Safety
/// The instruction set of `L` must be available; `p` must be writable for `min(n, 16)` values.
#[inline(always)]
pub(crate) unsafe fn store_part<L: Lanes>(v: L, p: *mut f32, n: usize) {
    // SAFETY: the caller vouches for `p` and the instruction set; the buffer holds sixteen values.
    unsafe {
        if n >= LANES {
            return v.store(p);
        }
        let mut buffer = [0.0; LANES];
        v.store(buffer.as_mut_ptr());
        std::ptr::copy_nonoverlapping(buffer.as_ptr(), p, n);
    }
}

/// The lanes as an array.
///
/// # Safety
/// The instruction set of `L` must be available.
#[inline(always)]
pub(crate) unsafe fn to_array<L: Lanes>(v: L) -> [f32; LANES] {
    let mut out = [0.0; LANES];
    // SAFETY: the array holds sixteen values; the caller vouches for the instruction set.
    unsafe { v.store(out.as_mut_ptr()) };
    out
}

/// Largest lane; a NaN never wins against a number.
///
/// # Safety
/// The instruction set of `L` must be available.
#[inline(always)]
pub(crate) unsafe fn max<L: Lanes>(v: L) -> f32 {
    // SAFETY: the caller vouches for the instruction set.
    let a = unsafe { to_array(v) };
    a.into_iter()
        .fold(f32::NEG_INFINITY, |m, x| if x > m { x } else { m })
}

/// `e^x`, at most about one unit in the last place off; 0 below -87, held at `e^88` above 88, NaN for NaN.
///
/// Argument reduction and polynomial are those of `expf` in the Cephes library.
///
/// # Safety
/// The instruction set of `L` must be available.
#[inline(always)]
pub(crate) unsafe fn exp<L: Lanes>(x: L) -> L {
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the mantissa.
    const SHIFT: f32 = 12_582_912.0;
    // The high part has few bits, so its products with whole numbers are exact.
    #[allow(clippy::excessive_precision)]
    const LN2_HIGH: f32 = 0.693359375;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    #[allow(clippy::excessive_precision)]
    const POLYNOMIAL: [f32; 6] = [
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    ];
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let clamped = greater(L::splat(-87.0), lesser(L::splat(88.0), x));
        let shifted = clamped.fma(L::splat(std::f32::consts::LOG2_E), L::splat(SHIFT));
        let n = shifted.sub(L::splat(SHIFT));
        let r = n.fma(L::splat(-LN2_HIGH), clamped);
        let r = n.fma(L::splat(-LN2_LOW), r);
        let mut p = L::splat(POLYNOMIAL[0]);
        for c in &POLYNOMIAL[1..] {
            p = p.fma(r, L::splat(*c));
        }
        let p = p.fma(r.mul(r), r).add(L::splat(1.0));
        let e = p.mul(shifted.pow2_of_bits());
        L::select_lt(x, L::splat(-87.0), L::splat(0.0), e)
    }
}
