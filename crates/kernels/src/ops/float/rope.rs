//! Rotary position embedding, half-split ("NeoX") form, on the first dimensions of a head.

use crate::dispatch::FloatFns;

/// The angles of one position: `theta^(-2i/n)` for `i < n/2`. `n` is the number of rotated dimensions, not the head's size.
#[must_use]
pub fn rope_frequencies(theta: f64, n: usize) -> Vec<f64> {
    (0..n / 2)
        .map(|i| theta.powf(-2.0 * i as f64 / n as f64))
        .collect()
}

/// Cosines and sines of `position * frequencies[i]`, formed in f64, so that far positions stay exact.
///
/// # Panics
/// If the lengths differ.
pub fn rope_angles(position: usize, frequencies: &[f64], cos: &mut [f32], sin: &mut [f32]) {
    assert_eq!(frequencies.len(), cos.len(), "rope: cosines");
    assert_eq!(frequencies.len(), sin.len(), "rope: sines");
    for ((frequency, cos), sin) in frequencies.iter().zip(cos).zip(sin) {
        let (s, c) = (position as f64 * frequency).sin_cos();
        (*cos, *sin) = (c as f32, s as f32);
    }
}

impl FloatFns {
    /// Rotates pairs `(i, i + cos.len())` of `head` by the angle whose cosine and sine are at `i`; values from
    /// `2 * cos.len()` on stay as they are.
    ///
    /// # Panics
    /// If `cos` and `sin` differ in length or are longer than half of `head`.
    pub fn rotate(&self, head: &mut [f32], cos: &[f32], sin: &[f32]) {
        assert_eq!(cos.len(), sin.len(), "rotate: sines");
        assert!(
            2 * cos.len() <= head.len(),
            "rotate: {} pairs in a head of {}",
            cos.len(),
            head.len()
        );
        // SAFETY: this table's instruction set is available (see `FloatFns`); lengths are checked above.
        unsafe { (self.rotate)(head.as_mut_ptr(), cos.as_ptr(), sin.as_ptr(), cos.len()) }
    }
}
