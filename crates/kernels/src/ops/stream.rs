//! Reading memory as fast as it goes: what the products are measured against.

use crate::dispatch::Kernels;

/// Reads all of `bytes` once, in order, and returns the exclusive or of its 64-bit words (in native order; bytes beyond
/// the last whole word are left out). For measuring the bandwidth of memory.
pub fn read_stream(kernels: &Kernels, bytes: &[u8]) -> u64 {
    // SAFETY: a table is only handed out on CPUs that can run it.
    unsafe { (kernels.read)(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| (i * i / 7) as u8).collect();
        for isa in Kernels::available() {
            let kernels = Kernels::for_isa(isa).expect("available");
            for len in [0, 7, 8, 63, 64, 255, 256, 257, 511, 512, 1000, 4096, 5000] {
                let words = bytes[..len]
                    .chunks_exact(8)
                    .map(|w| u64::from_ne_bytes(w.try_into().expect("8 bytes")));
                assert_eq!(
                    read_stream(kernels, &bytes[..len]),
                    words.fold(0, |x, w| x ^ w),
                    "{isa} {len}"
                );
            }
        }
    }
}
