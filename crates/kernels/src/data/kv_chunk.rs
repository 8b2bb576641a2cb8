//! A chunk of the KV cache of one head.
//!
//! A KV head's cache is cut at absolute positions into chunks of [`KEY_CHUNK`]. Keys lie in blocks of sixteen, transposed
//! (`[position / 16][head_dim][16]`), so a vector holds the scores of sixteen keys and nothing is summed across it; values lie
//! row by row, padded to whole vectors (`[position][padded]`).

/// Positions whose keys lie in one block: `[head_dim][KEY_BLOCK]`.
pub const KEY_BLOCK: usize = 16;

/// Positions in a chunk.
pub const KEY_CHUNK: usize = 256;

/// Head size rounded up to whole vectors: the stride of values.
#[must_use]
pub const fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(KEY_BLOCK)
}

/// Length of a record: `padded` weighted sums, then the largest score and the sum of weights, then unused.
#[must_use]
pub const fn record_len(head_dim: usize) -> usize {
    padded(head_dim) + KEY_BLOCK
}

/// One KV head's keys and values of [`KEY_CHUNK`] positions.
#[derive(Clone, Copy, Debug)]
pub struct KeyChunk<'a, E> {
    pub(crate) keys: &'a [E],
    pub(crate) values: &'a [E],
    pub(crate) head_dim: usize,
}

impl<'a, E> KeyChunk<'a, E> {
    /// # Panics
    /// If `keys` is not `KEY_CHUNK * head_dim` long or `values` not `KEY_CHUNK * padded(head_dim)`.
    #[must_use]
    pub fn new(keys: &'a [E], values: &'a [E], head_dim: usize) -> Self {
        assert_eq!(keys.len(), KEY_CHUNK * head_dim, "attention: keys");
        assert_eq!(
            values.len(),
            KEY_CHUNK * padded(head_dim),
            "attention: values"
        );
        Self {
            keys,
            values,
            head_dim,
        }
    }
}
