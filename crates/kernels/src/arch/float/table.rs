//! The float functions of a table, from one type of lanes.

/// Instantiates every float operation for one [`Lanes`](super::lanes::Lanes) type, with the target features it needs, as `FLOAT`.
macro_rules! float_table {
    ($lanes:ty $(, $features:literal)?) => {
        /// The float operations of this instruction set.
        pub(crate) const FLOAT: $crate::arch::table::FloatFns = $crate::arch::table::FloatFns {
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
            use $crate::arch::float::{activation, attention, dense, norm, rope};
            use $crate::data::kv_chunk::KeyChunk;
            use $crate::data::mat::DenseStrip;
            use $crate::data::rows::Rows;

            $crate::arch::float::table::float_table!(@fn ($($features)?) rmsnorm = norm::rmsnorm::<$lanes>(
                x: *const f32, weight: *const f32, eps: f32, out: *mut f32, n: usize));
            $crate::arch::float::table::float_table!(@fn ($($features)?) add = norm::add::<$lanes>(h: *mut f32, y: *const f32, n: usize));
            $crate::arch::float::table::float_table!(@fn ($($features)?) add_scaled = norm::add_scaled::<$lanes>(
                h: *mut f32, factor: f32, y: *const f32, n: usize));
            $crate::arch::float::table::float_table!(@fn ($($features)?) swiglu = activation::swiglu::<$lanes>(
                gate: *const f32, up: *const f32, limit: f32, out: *mut f32, n: usize));
            $crate::arch::float::table::float_table!(@fn ($($features)?) softmax = activation::softmax::<$lanes>(x: *mut f32, n: usize));
            $crate::arch::float::table::float_table!(@fn ($($features)?) rotate = rope::rotate::<$lanes>(
                head: *mut f32, cos: *const f32, sin: *const f32, pairs: usize));
            $crate::arch::float::table::float_table!(@fn ($($features)?) attend_f16 = attention::attend::<$lanes, u16>(
                chunk: &KeyChunk<'_, u16>, queries: *const f32, ranges: &[(usize, usize)], scores: *mut f32, records: *mut f32));
            $crate::arch::float::table::float_table!(@fn ($($features)?) attend_f32 = attention::attend::<$lanes, f32>(
                chunk: &KeyChunk<'_, f32>, queries: *const f32, ranges: &[(usize, usize)], scores: *mut f32, records: *mut f32));
            $crate::arch::float::table::float_table!(@fn ($($features)?) merge = attention::merge::<$lanes>(
                into: *mut f32, from: *const f32, padded: usize));
            $crate::arch::float::table::float_table!(@fn ($($features)?) finish = attention::finish::<$lanes>(
                record: *const f32, out: *mut f32, n: usize));
            $crate::arch::float::table::float_table!(@fn ($($features)?) narrow = attention::narrow::<$lanes>(
                x: *const f32, out: *mut u16, n: usize));
            $crate::arch::float::table::float_table!(@fn ($($features)?) dense = dense::dense::<$lanes>(
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
