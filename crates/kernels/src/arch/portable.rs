//! The portable kernels, recompiled for an instruction set: the compiler vectorises them as they are.

/// Makes a module `portable` with the quantisers and the float products of `scalar`, compiled with some target features.
macro_rules! portable {
    ($features:literal) => {
        mod portable {
            use crate::arch::scalar;
            use crate::data::mat::{GroupedStrip, Int8Strip, TernaryStrip};
            use crate::data::rows::{QuantizeRow, Rows};

            $crate::arch::portable::portable!(@fn $features, quantize_float = quantize::float(row: QuantizeRow<'_>));
            $crate::arch::portable::portable!(@fn $features, quantize_int16 = quantize::int16(row: QuantizeRow<'_>));
            $crate::arch::portable::portable!(@fn $features, quantize_int8 = quantize::int8(row: QuantizeRow<'_>));
            $crate::arch::portable::portable!(@fn $features, ternary_float = ternary::float(
                w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]));
            $crate::arch::portable::portable!(@fn $features, grouped_float = grouped::float(
                w: &GroupedStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]));
            $crate::arch::portable::portable!(@fn $features, int8_float = int8::float(
                w: &Int8Strip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]));
        }
    };
    (@fn $features:literal, $name:ident = $module:ident::$body:ident($($arg:ident: $type:ty),*)) => {
        /// # Safety
        ///
        /// The CPU has the instruction set; lengths as the table asks.
        #[allow(dead_code, reason = "a table may have a better one")]
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name($($arg: $type),*) {
            // SAFETY: the caller's promise.
            unsafe { scalar::$module::$body($($arg),*) }
        }
    };
}
pub(crate) use portable;
