//! Reading memory.

/// # Safety
///
/// None of its own; unsafe to fit the table.
#[inline(always)]
pub(crate) unsafe fn read(bytes: &[u8]) -> u64 {
    let mut lanes = [0u64; 32];
    let blocks = bytes.chunks_exact(256);
    let rest = blocks.remainder();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.chunks_exact(8)) {
            *lane ^= word_of(word);
        }
    }
    let rest = rest.chunks_exact(8).fold(0, |x, word| x ^ word_of(word));
    lanes.iter().fold(rest, |x, lane| x ^ lane)
}

#[inline(always)]
fn word_of(word: &[u8]) -> u64 {
    u64::from_ne_bytes([
        word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7],
    ])
}
