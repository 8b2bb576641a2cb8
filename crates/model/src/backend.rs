//! What the step loop needs of a model. [`Engine`](crate::engine::Engine) is written against these traits, so that
//! scheduling, sampling and prefix reuse are tested with a tiny deterministic model whose every state is known.

use crate::error::Result;

/// Which hidden rows of a sequence a step should return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenWanted {
    /// None: the step only fills the cache.
    None,
    /// The last row's.
    Last,
    /// Every row's.
    All,
}

/// A sequence's part of one step: consecutive tokens that follow what its cache already holds.
pub struct SeqRows<'a, C> {
    /// The sequence's KV state; the step appends `tokens.len()` positions to it.
    pub cache: &'a mut C,
    /// The tokens at positions `cache.len()..`; never empty.
    pub tokens: &'a [u32],
    /// Which rows' hidden states to return.
    pub hidden: HiddenWanted,
}

/// Token ids with their exact logits, in no particular order, no id twice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Candidates {
    /// Token ids.
    pub ids: Vec<u32>,
    /// The logit of each.
    pub logits: Vec<f32>,
}

/// A place where numbers left the range of 32-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow {
    /// The layer; `None` for the embedding.
    pub layer: Option<usize>,
    /// The position in the sequence.
    pub position: usize,
}

/// The KV state of one sequence.
pub trait SequenceCache: Send + Sized + 'static {
    /// What must be kept beside the growing part to return to an earlier position: the rings of the sliding layers.
    type Snapshot: Send + Sync + 'static;

    /// Positions held.
    fn len(&self) -> usize;

    /// Whether no position is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many positions a cache can grow by and still know the state it has now.
    fn slack(&self) -> usize;

    /// Whether [`snapshot`](Self::snapshot) can tell the state after `at` positions: always for `at == len()`, for
    /// earlier ones while the rings still hold every key that a query there could see. A fork knows nothing of the
    /// positions before the one it was made at.
    fn snapshot_known(&self, at: usize) -> bool;

    /// The state as it was after `at` positions, or `None` when the rings have moved on too far to tell.
    fn snapshot(&self, at: usize) -> Option<Self::Snapshot>;

    /// A new cache equal to this one after its first `at` positions; `snapshot` must be of that position and of this
    /// very prefix.
    fn fork(&self, at: usize, snapshot: &Self::Snapshot) -> Result<Self>;

    /// Where the numbers first left their range, if they did: the state is of no use then.
    fn overflow(&self) -> Option<Overflow> {
        None
    }

    /// Bytes allocated.
    fn bytes(&self) -> usize;

    /// Bytes a snapshot holds.
    fn snapshot_bytes(snapshot: &Self::Snapshot) -> usize;
}

/// A model the engine can drive. Results must not depend on how rows are spread over calls, nor on their neighbours.
pub trait Backend: Send + 'static {
    /// The KV state of one sequence.
    type Cache: SequenceCache;

    /// Largest number of positions of one sequence.
    fn context_length(&self) -> usize;

    /// Number of token ids; ids at or above it are refused.
    fn vocab_size(&self) -> usize;

    /// Width of a hidden row.
    fn hidden_size(&self) -> usize;

    /// Ids that end an answer unless the request says otherwise.
    fn end_tokens(&self) -> &[u32];

    /// An empty KV state.
    fn new_cache(&self) -> Self::Cache;

    /// Evaluates the rows of several sequences. Returns the normed hidden rows wanted (`hidden_size` each), in the
    /// order of the batch. After an error the caches of the batch must not be used again.
    fn forward(&mut self, batch: &mut [SeqRows<'_, Self::Cache>]) -> Result<Vec<f32>>;

    /// All logits of one hidden row, from the head at source precision; `out` holds `vocab_size` values.
    fn logits(&mut self, hidden: &[f32], out: &mut [f32]) -> Result<()>;

    /// The exact logits of every id in `penalised` (distinct ids), and of the `k` ids with the largest logits among all
    /// the others; of equal logits the lower id comes first.
    fn top_k(&mut self, hidden: &[f32], k: usize, penalised: &[u32]) -> Result<Candidates>;
}
