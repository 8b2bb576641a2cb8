//! The forward pass against golden results, and against itself however the work is cut.

mod caches;
mod cuts;
mod golden;
mod goldens;
mod heads;

use model::backend::{Backend, HiddenWanted, SeqRows};
use model::forward::Model;
use model::kv_cache::KvCache;

/// Feeds `tokens` to a sequence in calls of at most `chunk` and returns all hidden rows.
pub fn feed(model: &mut Model, cache: &mut KvCache, tokens: &[u32], chunk: usize) -> Vec<f32> {
    let mut hidden = Vec::new();
    for tokens in tokens.chunks(chunk) {
        let rows = SeqRows {
            cache,
            tokens,
            hidden: HiddenWanted::All,
        };
        hidden.extend(model.forward(&mut [rows]).expect("a pass"));
    }
    hidden
}

/// The bits of some values, so that equality means identity.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Token ids without a pattern, the same every time.
pub fn tokens(n: usize, vocab: usize, seed: u64) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % vocab as u64) as u32
    };
    (0..n).map(|_| next()).collect()
}
