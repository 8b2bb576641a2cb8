//! The table of an instruction set with vectors of this size.

/// Makes the `KERNELS` table of a room from a [`Dot`], an [`Isa`](crate::Isa), the lanes of the float steps, and the
/// target features.
macro_rules! tables {
    ($dot:ty, $isa:expr, $float:expr, $features:literal) => {
        $crate::arch::portable::portable!($features);

        pub(crate) static KERNELS: $crate::arch::table::Kernels = $crate::arch::table::Kernels {
            isa: $isa,
            quantize: $crate::arch::table::QuantizeFns {
                float: portable::quantize_float,
                int16: portable::quantize_int16,
                int8: portable::quantize_int8,
            },
            ternary: $crate::arch::table::TernaryFns {
                float: portable::ternary_float,
                int16: products::ternary_int16,
                int8: products::ternary_int8,
            },
            grouped: $crate::arch::table::GroupedFns {
                float: portable::grouped_float,
                int16: products::grouped_int16,
                int8: products::grouped_int8,
            },
            int8: $crate::arch::table::Int8Fns {
                float: portable::int8_float,
                int16: products::int8_int16,
                int8: products::int8_int8,
            },
            float: $float,
            read: products::read,
        };

        mod products {
            use super::*;
            use $crate::arch::x86_64::ymm;
            use $crate::data::mat::{GroupedStrip, Int8Strip, TernaryStrip};
            use $crate::data::rows::Rows;

            /// # Safety
            ///
            /// The CPU has this room's instruction set.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn read(bytes: &[u8]) -> u64 {
                // SAFETY: the caller's promise.
                unsafe { ymm::stream::read(bytes) }
            }

            $crate::arch::x86_64::ymm::table::tables!(@fn $features, ternary_int16 = ternary::int16::<$dot>(TernaryStrip));
            $crate::arch::x86_64::ymm::table::tables!(@fn $features, ternary_int8 = ternary::int8::<$dot>(TernaryStrip));
            $crate::arch::x86_64::ymm::table::tables!(@fn $features, grouped_int16 = grouped::any::<$dot, 2>(GroupedStrip));
            $crate::arch::x86_64::ymm::table::tables!(@fn $features, grouped_int8 = grouped::any::<$dot, 1>(GroupedStrip));
            $crate::arch::x86_64::ymm::table::tables!(@fn $features, int8_int16 = int8::int16::<$dot>(Int8Strip));
            $crate::arch::x86_64::ymm::table::tables!(@fn $features, int8_int8 = int8::int8::<$dot>(Int8Strip));
        }
    };
    (@fn $features:literal, $name:ident = $module:ident::$body:ident::<$($generic:tt),*>($strip:ident)) => {
        /// # Safety
        ///
        /// The CPU has this room's instruction set; lengths as the table asks.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name(w: &$strip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
            // SAFETY: the caller's promise.
            unsafe { ymm::$module::$body::<$($generic),*>(w, x, idx, out) }
        }
    };
}
pub(in crate::arch::x86_64) use tables;
