//! Sixteen lanes in an array: the reference for the other instruction sets.

use crate::arch::float::lanes::{LANES, Lanes};
use crate::data::half::{f16_to_f32, f32_to_f16};
use std::array::from_fn;

/// Sixteen lanes, one by one.
#[derive(Clone, Copy)]
pub(crate) struct Array([f32; LANES]);

// All methods are sound on every CPU; loads and stores touch the sixteen elements the trait's contract names.
impl Lanes for Array {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; LANES])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: sixteen readable values, by contract.
        Self(unsafe { p.cast::<[f32; LANES]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: sixteen writable values, by contract.
        unsafe { p.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: sixteen readable values, by contract.
        let h = unsafe { p.cast::<[u16; LANES]>().read_unaligned() };
        Self(h.map(f16_to_f32))
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        // SAFETY: sixteen writable values, by contract.
        unsafe {
            p.cast::<[u16; LANES]>()
                .write_unaligned(self.0.map(f32_to_f16))
        }
    }
    #[inline(always)]
    unsafe fn add(self, o: Self) -> Self {
        Self(from_fn(|i| self.0[i] + o.0[i]))
    }
    #[inline(always)]
    unsafe fn sub(self, o: Self) -> Self {
        Self(from_fn(|i| self.0[i] - o.0[i]))
    }
    #[inline(always)]
    unsafe fn mul(self, o: Self) -> Self {
        Self(from_fn(|i| self.0[i] * o.0[i]))
    }
    #[inline(always)]
    unsafe fn div(self, o: Self) -> Self {
        Self(from_fn(|i| self.0[i] / o.0[i]))
    }
    #[inline(always)]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        Self(from_fn(|i| self.0[i].mul_add(b.0[i], c.0[i])))
    }
    #[inline(always)]
    unsafe fn select_lt(a: Self, b: Self, x: Self, y: Self) -> Self {
        Self(from_fn(|i| if a.0[i] < b.0[i] { x.0[i] } else { y.0[i] }))
    }
    #[inline(always)]
    unsafe fn pow2_of_bits(self) -> Self {
        Self(
            self.0
                .map(|x| f32::from_bits(x.to_bits().wrapping_add(127) << 23)),
        )
    }
}

crate::arch::float::table::float_table!(Array);
