//! The shape of a table of kernels: the same functions for every instruction set.

use super::isa::Isa;
use crate::data::kv_chunk::KeyChunk;
use crate::data::mat::{DenseStrip, GroupedStrip, Int8Strip, TernaryStrip};
use crate::data::rows::{QuantizeRow, Rows};
use std::fmt;

/// The kernels of one instruction set. Having one is the proof that this CPU can run it.
///
/// All tables give bit-identical results.
pub struct Kernels {
    pub(crate) isa: Isa,
    pub(crate) quantize: QuantizeFns,
    pub(crate) ternary: TernaryFns,
    pub(crate) grouped: GroupedFns,
    pub(crate) int8: Int8Fns,
    pub(crate) float: FloatFns,
    pub(crate) read: unsafe fn(&[u8]) -> u64,
}

// Every function in these tables may only be called on a CPU with the table's instruction set. Lengths were checked by
// the safe fronts: `out` holds 64 values for each entry of the index list, whose entries are rows of the activations;
// the strip and the rows have the same number of columns.

/// One row of activations to its quantised form, by precision.
pub(crate) struct QuantizeFns {
    pub float: unsafe fn(QuantizeRow<'_>),
    pub int16: unsafe fn(QuantizeRow<'_>),
    pub int8: unsafe fn(QuantizeRow<'_>),
}

/// Ternary strips, by precision of the activations.
pub(crate) struct TernaryFns {
    pub float: for<'a> unsafe fn(&TernaryStrip<'a>, &Rows, &[u32], &mut [f32]),
    pub int16: for<'a> unsafe fn(&TernaryStrip<'a>, &Rows, &[u32], &mut [f32]),
    pub int8: for<'a> unsafe fn(&TernaryStrip<'a>, &Rows, &[u32], &mut [f32]),
}

/// Affine strips with groups of columns, by precision of the activations.
pub(crate) struct GroupedFns {
    pub float: for<'a> unsafe fn(&GroupedStrip<'a>, &Rows, &[u32], &mut [f32]),
    pub int16: for<'a> unsafe fn(&GroupedStrip<'a>, &Rows, &[u32], &mut [f32]),
    pub int8: for<'a> unsafe fn(&GroupedStrip<'a>, &Rows, &[u32], &mut [f32]),
}

/// 8-bit strips with one scale a row, by precision of the activations.
pub(crate) struct Int8Fns {
    pub float: for<'a> unsafe fn(&Int8Strip<'a>, &Rows, &[u32], &mut [f32]),
    pub int16: for<'a> unsafe fn(&Int8Strip<'a>, &Rows, &[u32], &mut [f32]),
    pub int8: for<'a> unsafe fn(&Int8Strip<'a>, &Rows, &[u32], &mut [f32]),
}

/// Chunk, queries, count, ranges, scores, records: see [`FloatFns::attend`].
#[doc(hidden)]
pub type AttendFn<E> =
    unsafe fn(&KeyChunk<'_, E>, *const f32, &[(usize, usize)], *mut f32, *mut f32);

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

impl Kernels {
    /// The float operations: norms, activations, rotary embedding, attention.
    pub fn float(&self) -> &FloatFns {
        &self.float
    }

    /// The table's instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernels({})", self.isa)
    }
}
