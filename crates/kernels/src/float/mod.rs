//! The float steps between the matrix products: norms, rotary embedding, activations, attention.
//!
//! Each is written once over [`lanes::Lanes`] and stamped out for every instruction set by `float_table!`, so all tables give
//! the same bits.

pub mod activation;
pub mod attention;
pub(crate) mod dense;
pub(crate) mod lanes;
pub mod norm;
pub mod rope;
#[cfg(test)]
mod tests;

use crate::mat::DenseStrip;
use crate::rows::Rows;
use attention::AttendFn;

type Unary = unsafe fn(*mut f32, usize);
type Binary = unsafe fn(*mut f32, *const f32, usize);

/// The float operations of one instruction set.
///
/// A table is reached only through [`Kernels`](crate::Kernels), which exists only where its instruction set is available: that
/// is what makes the safe methods safe.
pub struct FloatFns {
    pub(crate) rmsnorm: unsafe fn(*const f32, *const f32, f32, *mut f32, usize),
    pub(crate) add: Binary,
    pub(crate) add_scaled: unsafe fn(*mut f32, f32, *const f32, usize),
    pub(crate) swiglu: unsafe fn(*const f32, *const f32, f32, *mut f32, usize),
    pub(crate) softmax: Unary,
    pub(crate) rotate: unsafe fn(*mut f32, *const f32, *const f32, usize),
    pub(crate) attend_f16: AttendFn<u16>,
    pub(crate) attend_f32: AttendFn<f32>,
    pub(crate) merge: Binary,
    pub(crate) finish: unsafe fn(*const f32, *mut f32, usize),
    pub(crate) narrow: unsafe fn(*const f32, *mut u16, usize),
    pub(crate) dense: for<'a> unsafe fn(&DenseStrip<'a>, &Rows, &[u32], &mut [f32]),
}

/// Instantiates every float operation for one [`lanes::Lanes`] type, with the target features it needs, as `FLOAT`.
macro_rules! float_table {
    ($lanes:ty $(, $features:literal)?) => {
        /// The float operations of this instruction set.
        pub(crate) const FLOAT: $crate::float::FloatFns = $crate::float::FloatFns {
            rmsnorm: stamped::rmsnorm,
            add: stamped::add,
            add_scaled: stamped::add_scaled,
            swiglu: stamped::swiglu,
            softmax: stamped::softmax,
            rotate: stamped::rotate,
            attend_f16: stamped::attend_f16,
            attend_f32: stamped::attend_f32,
            merge: stamped::merge,
            finish: stamped::finish,
            narrow: stamped::narrow,
            dense: stamped::dense,
        };

        mod stamped {
            use super::*;
            use $crate::float::attention::{self, KeyChunk};
            use $crate::float::{activation, dense, norm, rope};
            use $crate::mat::DenseStrip;
            use $crate::rows::Rows;

            $crate::float::float_table!(@fn ($($features)?) rmsnorm = norm::rmsnorm::<$lanes>(
                x: *const f32, weight: *const f32, eps: f32, out: *mut f32, n: usize));
            $crate::float::float_table!(@fn ($($features)?) add = norm::add::<$lanes>(h: *mut f32, y: *const f32, n: usize));
            $crate::float::float_table!(@fn ($($features)?) add_scaled = norm::add_scaled::<$lanes>(
                h: *mut f32, factor: f32, y: *const f32, n: usize));
            $crate::float::float_table!(@fn ($($features)?) swiglu = activation::swiglu::<$lanes>(
                gate: *const f32, up: *const f32, limit: f32, out: *mut f32, n: usize));
            $crate::float::float_table!(@fn ($($features)?) softmax = activation::softmax::<$lanes>(x: *mut f32, n: usize));
            $crate::float::float_table!(@fn ($($features)?) rotate = rope::rotate::<$lanes>(
                head: *mut f32, cos: *const f32, sin: *const f32, pairs: usize));
            $crate::float::float_table!(@fn ($($features)?) attend_f16 = attention::attend::<$lanes, u16>(
                chunk: &KeyChunk<'_, u16>, queries: *const f32, ranges: &[(usize, usize)], scores: *mut f32, records: *mut f32));
            $crate::float::float_table!(@fn ($($features)?) attend_f32 = attention::attend::<$lanes, f32>(
                chunk: &KeyChunk<'_, f32>, queries: *const f32, ranges: &[(usize, usize)], scores: *mut f32, records: *mut f32));
            $crate::float::float_table!(@fn ($($features)?) merge = attention::merge::<$lanes>(
                into: *mut f32, from: *const f32, padded: usize));
            $crate::float::float_table!(@fn ($($features)?) finish = attention::finish::<$lanes>(
                record: *const f32, out: *mut f32, n: usize));
            $crate::float::float_table!(@fn ($($features)?) narrow = attention::narrow::<$lanes>(
                x: *const f32, out: *mut u16, n: usize));
            $crate::float::float_table!(@fn ($($features)?) dense = dense::dense::<$lanes>(
                w: &DenseStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]));
        }
    };
    (@fn ($($features:literal)?) $name:ident = $module:ident::$body:ident::<$lanes:ty $(, $element:ty)?>($($arg:ident: $type:ty),*)) => {
        /// # Safety
        /// As the generic function of the same name; the table's instruction set must be available.
        $(#[target_feature(enable = $features)])?
        pub(super) unsafe fn $name($($arg: $type),*) {
            // SAFETY: the caller's promise is the same.
            unsafe { $module::$body::<$lanes $(, $element)?>($($arg),*) }
        }
    };
}
pub(crate) use float_table;
