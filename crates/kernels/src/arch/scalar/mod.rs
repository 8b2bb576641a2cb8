//! The reference: plain loops. The float products are written so that compilers vectorise them over rows or columns
//! without reordering a sum; the rooms with intrinsics recompile some of them with their own instruction set.

pub(crate) mod grouped;
pub(crate) mod int8;
pub(crate) mod lanes;
pub(crate) mod quantize;
pub(crate) mod stream;
pub(crate) mod ternary;

use crate::arch::isa::Isa;
use crate::arch::table::{GroupedFns, Int8Fns, Kernels, QuantizeFns, TernaryFns};

pub(crate) static KERNELS: Kernels = Kernels {
    isa: Isa::Scalar,
    quantize: QuantizeFns {
        float: quantize::float,
        int16: quantize::int16,
        int8: quantize::int8,
    },
    ternary: TernaryFns {
        float: ternary::float,
        int16: ternary::int16,
        int8: ternary::int8,
    },
    grouped: GroupedFns {
        float: grouped::float,
        int16: grouped::int16,
        int8: grouped::int8,
    },
    int8: Int8Fns {
        float: int8::float,
        int16: int8::int16,
        int8: int8::int8,
    },
    float: lanes::FLOAT,
    read: stream::read,
};
