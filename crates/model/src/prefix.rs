//! Reuse of KV state across requests.
//!
//! Finished sequences leave their caches here. A new prompt continues from the longest state that agrees with it token
//! by token and whose rings are known: the state of a kept [`Snapshot`](SequenceCache::Snapshot), or one the rings can
//! still be rewound to. At least the prompt's last token is always evaluated anew, because its logits are what the
//! answer starts from. The memory is bounded: the entries least recently used go first.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::backend::SequenceCache;

/// Most snapshots kept with one sequence.
const MAX_SNAPSHOTS: usize = 8;

/// Most sequences kept; a small model's would be many before they fill the memory, and each prompt is compared with all.
const MAX_ENTRIES: usize = 256;

/// The rings' state after some number of positions.
pub(crate) struct Snapshots<C: SequenceCache>(Vec<(usize, Arc<C::Snapshot>)>);

impl<C: SequenceCache> Snapshots<C> {
    pub(crate) fn new() -> Self {
        Snapshots(Vec::new())
    }

    /// Keeps the cache's state at a position, where it is still known.
    pub(crate) fn take(&mut self, cache: &C, at: usize) {
        if !self.has(at)
            && let Some(snapshot) = cache.snapshot(at)
        {
            self.insert(at, Arc::new(snapshot));
        }
    }

    fn has(&self, at: usize) -> bool {
        self.0.iter().any(|(position, _)| *position == at)
    }

    fn insert(&mut self, at: usize, snapshot: Arc<C::Snapshot>) {
        let index = self.0.partition_point(|(position, _)| *position < at);
        self.0.insert(index, (at, snapshot));
        if self.0.len() > MAX_SNAPSHOTS {
            // The first is what many conversations share (the system prompt), the last are where this one goes on.
            self.0.remove(1);
        }
    }

    /// The last one at or before a position.
    fn last_until(&self, limit: usize) -> Option<&(usize, Arc<C::Snapshot>)> {
        self.0.iter().rev().find(|(position, _)| *position <= limit)
    }

    /// Those at or before a position, shared.
    fn until(&self, limit: usize) -> Self {
        Snapshots(
            self.0
                .iter()
                .filter(|(position, _)| *position <= limit)
                .cloned()
                .collect(),
        )
    }

    fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(_, snapshot)| C::snapshot_bytes(snapshot))
            .sum()
    }
}

/// A sequence to go on with.
pub(crate) struct Resumed<C: SequenceCache> {
    /// Holds a prefix of the prompt, shorter than the prompt.
    pub(crate) cache: C,
    /// Snapshots at positions of that prefix.
    pub(crate) snapshots: Snapshots<C>,
}

struct Entry<C: SequenceCache> {
    /// The evaluated tokens, as many as the cache holds positions.
    tokens: Vec<u32>,
    cache: C,
    snapshots: Snapshots<C>,
}

impl<C: SequenceCache> Entry<C> {
    fn bytes(&self) -> usize {
        self.cache.bytes() + self.snapshots.bytes() + self.tokens.len() * size_of::<u32>()
    }

    /// The longest position, up to the limit, whose state can be had.
    fn resumable_until(&self, limit: usize) -> usize {
        if self.cache.snapshot_known(limit) {
            return limit;
        }
        self.snapshots
            .last_until(limit)
            .map_or(0, |(position, _)| *position)
    }
}

/// The states kept, most recently used last.
pub(crate) struct PrefixStore<C: SequenceCache> {
    entries: VecDeque<Entry<C>>,
    budget: usize,
}

impl<C: SequenceCache> PrefixStore<C> {
    /// An empty store that holds at most `budget` bytes; 0 turns reuse off.
    pub(crate) fn new(budget: usize) -> Self {
        PrefixStore {
            entries: VecDeque::new(),
            budget,
        }
    }

    /// The longest usable state of a prefix of `prompt`. An entry that the prompt continues to its end is taken out and
    /// handed over; otherwise the prefix is copied, and the entry stays for others.
    pub(crate) fn resume(&mut self, prompt: &[u32]) -> Option<Resumed<C>> {
        let usable = |entry: &Entry<C>| {
            let agree = entry
                .tokens
                .iter()
                .zip(prompt)
                .take_while(|(a, b)| a == b)
                .count();
            entry.resumable_until(agree.min(prompt.len().saturating_sub(1)))
        };
        let (index, at) = self
            .entries
            .iter()
            .map(usable)
            .enumerate()
            .max_by_key(|(_, at)| *at)
            .filter(|(_, at)| *at > 0)?;
        let entry = self.entries.remove(index)?;
        if at == entry.cache.len() {
            return Some(Resumed {
                cache: entry.cache,
                snapshots: entry.snapshots,
            });
        }
        let rewound = entry.cache.snapshot(at).map(Arc::new);
        let snapshot = rewound.or_else(|| {
            entry
                .snapshots
                .last_until(at)
                .map(|(_, snapshot)| Arc::clone(snapshot))
        });
        let cache = snapshot.and_then(|snapshot| entry.cache.fork(at, &snapshot).ok());
        let snapshots = entry.snapshots.until(at);
        self.entries.push_back(entry);
        // Where the copy found no memory, the prompt is simply evaluated from its start.
        cache.map(|cache| Resumed { cache, snapshots })
    }

    /// Keeps a finished sequence; `tokens` are those its cache holds.
    pub(crate) fn keep(&mut self, tokens: Vec<u32>, cache: C, snapshots: Snapshots<C>) {
        debug_assert_eq!(tokens.len(), cache.len());
        let mut entry = Entry {
            tokens,
            cache,
            snapshots,
        };
        if entry.bytes() > self.budget {
            entry.snapshots = Snapshots::new();
        }
        if entry.tokens.is_empty() || entry.bytes() > self.budget {
            return;
        }
        // A state that this one continues is of no more use; what it knew about earlier positions is.
        self.entries.retain(|old| {
            let continued = entry.tokens.starts_with(&old.tokens);
            if continued {
                for (at, snapshot) in &old.snapshots.0 {
                    if !entry.snapshots.has(*at) {
                        entry.snapshots.insert(*at, Arc::clone(snapshot));
                    }
                }
            }
            !continued
        });
        self.entries.push_back(entry);
        while self.bytes() > self.budget || self.entries.len() > MAX_ENTRIES {
            self.entries.pop_front();
        }
    }

    /// Bytes held; snapshots shared by entries count for each.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.iter().map(Entry::bytes).sum()
    }
}

#[cfg(test)]
mod tests;
