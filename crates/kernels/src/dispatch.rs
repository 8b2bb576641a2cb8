//! Which table of kernels a CPU gets.

#[cfg(target_arch = "aarch64")]
use crate::arch::aarch64;
use crate::arch::scalar;
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64;

pub use crate::arch::isa::{Isa, UnknownIsa};
pub use crate::arch::table::{FloatFns, Kernels};

impl Kernels {
    /// The best table this CPU can run.
    pub fn detect() -> &'static Kernels {
        Isa::ALL
            .into_iter()
            .rev()
            .find_map(Kernels::for_isa)
            .unwrap_or(&scalar::KERNELS)
    }

    /// The table for `isa`, or `None` where this CPU (or its operating system) cannot run it.
    pub fn for_isa(isa: Isa) -> Option<&'static Kernels> {
        match isa {
            Isa::Scalar => Some(&scalar::KERNELS),
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
}
