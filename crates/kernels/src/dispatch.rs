//! Instruction sets, and the table of kernels for each.

use crate::arch;
#[cfg(target_arch = "aarch64")]
use crate::arch::aarch64;
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64;
use crate::float::FloatFns;
use crate::mat::{GroupedStrip, Int8Strip, TernaryStrip};
use crate::rows::{QuantizeRow, Rows};
use std::fmt;
use std::str::FromStr;

/// An instruction set there are kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// Portable code: the reference, and what runs where nothing better does.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// AVX2 with the dot-product instruction of AVX-VNNI.
    AvxVnni,
    /// AVX-512 F, BW, DQ, VL and VNNI.
    Avx512Vnni,
    /// AArch64's baseline.
    Neon,
    /// AArch64 with the dot-product instructions.
    NeonDotprod,
}

impl Isa {
    /// Every instruction set, the most wanted last.
    pub const ALL: [Isa; 6] = [
        Isa::Scalar,
        Isa::Avx2,
        Isa::AvxVnni,
        Isa::Avx512Vnni,
        Isa::Neon,
        Isa::NeonDotprod,
    ];

    /// The name used on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::AvxVnni => "avxvnni",
            Isa::Avx512Vnni => "avx512vnni",
            Isa::Neon => "neon",
            Isa::NeonDotprod => "neon-dotprod",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no [`Isa`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownIsa(String);

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Isa::ALL.iter().map(|isa| isa.name()).collect();
        write!(
            f,
            "unknown instruction set {:?}; known: {}",
            self.0,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownIsa {}

impl FromStr for Isa {
    type Err = UnknownIsa;
    fn from_str(name: &str) -> Result<Self, UnknownIsa> {
        Isa::ALL
            .into_iter()
            .find(|isa| isa.name() == name)
            .ok_or_else(|| UnknownIsa(name.to_owned()))
    }
}

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

impl Kernels {
    /// The best table this CPU can run.
    pub fn detect() -> &'static Kernels {
        Isa::ALL
            .into_iter()
            .rev()
            .find_map(Kernels::for_isa)
            .unwrap_or(&arch::scalar::KERNELS)
    }

    /// The table for `isa`, or `None` where this CPU (or its operating system) cannot run it.
    pub fn for_isa(isa: Isa) -> Option<&'static Kernels> {
        match isa {
            Isa::Scalar => Some(&arch::scalar::KERNELS),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => x86_64::avx2::is_available().then_some(&x86_64::avx2::KERNELS),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => x86_64::avxvnni::is_available().then_some(&x86_64::avxvnni::KERNELS),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni => {
                x86_64::avx512vnni::is_available().then_some(&x86_64::avx512vnni::KERNELS)
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => Some(&aarch64::neon::KERNELS),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDotprod => {
                aarch64::neon_dotprod::is_available().then_some(&aarch64::neon_dotprod::KERNELS)
            }
            #[allow(
                unreachable_patterns,
                reason = "which names are left depends on the architecture"
            )]
            _ => None,
        }
    }

    /// The instruction sets this CPU can run, scalar first, the best last.
    pub fn available() -> impl Iterator<Item = Isa> {
        Isa::ALL
            .into_iter()
            .filter(|&isa| Kernels::for_isa(isa).is_some())
    }

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
