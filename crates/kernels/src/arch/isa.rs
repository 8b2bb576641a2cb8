//! The instruction sets, by name.

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
