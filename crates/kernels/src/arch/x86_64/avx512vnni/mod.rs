//! AVX-512 with VNNI: 16 rows x 4 columns in a vector, four vectors for a strip.

mod grouped;
mod int8;
mod lanes;
mod stream;
mod ternary;
mod vector;

use crate::arch::isa::Isa;
use crate::arch::table::{GroupedFns, Int8Fns, Kernels, QuantizeFns, TernaryFns};

/// Whether the CPU and the operating system support what the kernels of this room use.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

crate::arch::portable::portable!("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");

pub(crate) static KERNELS: Kernels = Kernels {
    isa: Isa::Avx512Vnni,
    quantize: QuantizeFns {
        float: portable::quantize_float,
        int16: portable::quantize_int16,
        int8: portable::quantize_int8,
    },
    ternary: TernaryFns {
        float: portable::ternary_float,
        int16: ternary::int16,
        int8: ternary::int8,
    },
    grouped: GroupedFns {
        float: portable::grouped_float,
        int16: grouped::int16,
        int8: grouped::int8,
    },
    int8: Int8Fns {
        float: portable::int8_float,
        int16: int8::int16,
        int8: int8::int8,
    },
    float: lanes::FLOAT,
    read: stream::read,
};
