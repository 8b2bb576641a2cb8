//! What the CPU offers, for `doctor`.

use model::{Isa, Kernels};
use napi_derive::napi;

/// What this CPU can run.
#[napi(object, object_from_js = false)]
pub struct NativeCpuInfo {
    /// The kernel set that is picked when none is asked for.
    pub isa: String,
    /// All kernel sets this CPU runs, the best last.
    pub isas: Vec<String>,
    /// Features that kernels could use and that the CPU and the system both offer.
    pub features: Vec<String>,
    /// Threads this process may really use: its affinity mask and its control group's quota count.
    pub threads: u32,
}

/// What this CPU can run, and how many threads this process may use.
#[napi(catch_unwind)]
pub fn cpu_info() -> NativeCpuInfo {
    NativeCpuInfo {
        isa: Kernels::detect().isa().name().into(),
        isas: Kernels::available()
            .map(|isa: Isa| isa.name().into())
            .collect(),
        features: features(),
        threads: model::pool::default_threads() as u32,
    }
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<String> {
    let found = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avxvnni", is_x86_feature_detected!("avxvnni")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512dq", is_x86_feature_detected!("avx512dq")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
    ];
    names(&found)
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<String> {
    use std::arch::is_aarch64_feature_detected;
    let found = [
        ("neon", is_aarch64_feature_detected!("neon")),
        ("dotprod", is_aarch64_feature_detected!("dotprod")),
        ("i8mm", is_aarch64_feature_detected!("i8mm")),
    ];
    names(&found)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<String> {
    Vec::new()
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn names(features: &[(&str, bool)]) -> Vec<String> {
    features
        .iter()
        .filter(|(_, found)| *found)
        .map(|(name, _)| (*name).into())
        .collect()
}
