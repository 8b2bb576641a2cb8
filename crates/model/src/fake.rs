//! A model for the engine's tests: its hidden state is a hash of what attention would see, taken from a growing part and
//! from a ring, so that every wrong row, position, ring slot or prefix changes the answer.

use std::sync::Arc;

use crate::backend::{Backend, Candidates, HiddenWanted, SeqRows, SequenceCache};
use crate::error::Result;

pub(crate) const VOCAB: usize = 61;
pub(crate) const END: u32 = 60;
/// Keys a query sees through the ring, its own included.
pub(crate) const WINDOW: usize = 5;
pub(crate) const CONTEXT: usize = 400;
const WIDTH: usize = 4;

/// Called at the start of every step with the rows of each sequence in it.
pub(crate) type Hook = Box<dyn FnMut(&[Vec<u32>]) -> Result<()> + Send>;

pub(crate) struct Fake {
    pub(crate) slack: usize,
    pub(crate) hook: Hook,
    /// Lets a test see when the model is gone.
    pub(crate) alive: Arc<()>,
    /// A token after which all logits are NaN.
    pub(crate) poison: Option<u32>,
}

impl Default for Fake {
    fn default() -> Self {
        Fake {
            slack: 3,
            hook: Box::new(|_| Ok(())),
            alive: Arc::new(()),
            poison: None,
        }
    }
}

pub(crate) struct FakeCache {
    full: Vec<u32>,
    /// Slot `position % len` holds the position and its token.
    ring: Vec<(usize, u32)>,
    forked_at: usize,
}

const EMPTY: (usize, u32) = (usize::MAX, 0);

impl SequenceCache for FakeCache {
    type Snapshot = Vec<(usize, u32)>;

    fn len(&self) -> usize {
        self.full.len()
    }

    fn slack(&self) -> usize {
        self.ring.len() - WINDOW
    }

    fn snapshot_known(&self, at: usize) -> bool {
        at >= self.forked_at && at <= self.len() && self.len() - at <= self.slack()
    }

    fn snapshot(&self, at: usize) -> Option<Self::Snapshot> {
        self.snapshot_known(at).then(|| {
            (at.saturating_sub(WINDOW - 1)..at)
                .map(|position| self.ring[position % self.ring.len()])
                .collect()
        })
    }

    fn fork(&self, at: usize, snapshot: &Self::Snapshot) -> Result<Self> {
        let mut ring = vec![EMPTY; self.ring.len()];
        for &(position, token) in snapshot {
            ring[position % self.ring.len()] = (position, token);
        }
        Ok(FakeCache {
            full: self.full[..at].to_vec(),
            ring,
            forked_at: at,
        })
    }

    fn bytes(&self) -> usize {
        100 + self.full.len() * 10
    }

    fn snapshot_bytes(snapshot: &Self::Snapshot) -> usize {
        snapshot.len() * 10
    }
}

fn mix(hash: u64, value: u64) -> u64 {
    let z = (hash ^ value.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ (z >> 29)
}

/// The hidden state after a sequence, straight from its definition.
pub(crate) fn hidden(tokens: &[u32]) -> [f32; WIDTH] {
    let full = tokens
        .iter()
        .fold(1, |hash, &token| mix(hash, u64::from(token)));
    let window = &tokens[tokens.len().saturating_sub(WINDOW)..];
    let hash = window
        .iter()
        .fold(full, |hash, &token| mix(hash, u64::from(token) + 1000));
    std::array::from_fn(|index| ((hash >> (16 * index)) & 0xFFFF) as f32)
}

/// All logits after a hidden state, straight from their definition.
pub(crate) fn logits(hidden: &[f32]) -> Vec<f32> {
    let hash = hidden
        .iter()
        .fold(7, |hash, &value| mix(hash, value as u64));
    // Coarse steps, so that ties occur.
    (0..VOCAB as u64)
        .map(|id| (mix(mix(hash, id), 3) % 64) as f32 / 8.0 - 4.0)
        .collect()
}

impl Backend for Fake {
    type Cache = FakeCache;

    fn context_length(&self) -> usize {
        CONTEXT
    }

    fn vocab_size(&self) -> usize {
        VOCAB
    }

    fn hidden_size(&self) -> usize {
        WIDTH
    }

    fn end_tokens(&self) -> &[u32] {
        &[END]
    }

    fn new_cache(&self) -> FakeCache {
        FakeCache {
            full: Vec::new(),
            ring: vec![EMPTY; WINDOW + self.slack],
            forked_at: 0,
        }
    }

    fn forward(&mut self, batch: &mut [SeqRows<'_, FakeCache>]) -> Result<Vec<f32>> {
        (self.hook)(
            &batch
                .iter()
                .map(|rows| rows.tokens.to_vec())
                .collect::<Vec<_>>(),
        )?;
        let mut out = Vec::new();
        for SeqRows {
            cache,
            tokens,
            hidden: wanted,
        } in batch.iter_mut()
        {
            assert!(!tokens.is_empty());
            for (row, &token) in tokens.iter().enumerate() {
                let position = cache.full.len();
                cache.full.push(token);
                let slots = cache.ring.len();
                cache.ring[position % slots] = (position, token);
                let mut seen = cache.full.clone();
                for (at, key) in seen
                    .iter_mut()
                    .enumerate()
                    .skip(position.saturating_sub(WINDOW - 1))
                {
                    let (found, token) = cache.ring[at % slots];
                    // A slot of another position: what a wrapped ring would make attention read.
                    *key = if found == at { token } else { token + 7 };
                }
                let last = row + 1 == tokens.len();
                if *wanted == HiddenWanted::All || (*wanted == HiddenWanted::Last && last) {
                    let mut state = hidden(&seen);
                    if self.poison == Some(token) {
                        state[0] = f32::NAN;
                    }
                    out.extend(state);
                }
            }
        }
        Ok(out)
    }

    fn logits(&mut self, hidden: &[f32], out: &mut [f32]) -> Result<()> {
        out.copy_from_slice(&logits(hidden));
        if hidden[0].is_nan() {
            out.fill(f32::NAN);
        }
        Ok(())
    }

    fn top_k(&mut self, hidden: &[f32], k: usize, penalised: &[u32]) -> Result<Candidates> {
        let mut all = vec![0.0; VOCAB];
        self.logits(hidden, &mut all)?;
        let mut rest: Vec<u32> = (0..VOCAB as u32)
            .filter(|id| !penalised.contains(id))
            .collect();
        rest.sort_by(|&a, &b| all[b as usize].total_cmp(&all[a as usize]).then(a.cmp(&b)));
        rest.truncate(k);
        rest.reverse(); // no particular order is promised
        let ids: Vec<u32> = rest.into_iter().chain(penalised.iter().copied()).collect();
        let logits = ids.iter().map(|&id| all[id as usize]).collect();
        Ok(Candidates { ids, logits })
    }
}
