//! Keys and values of one sequence, layer by layer.
//!
//! Every layer keeps *blocks* of [`KEY_CHUNK`] positions, cut at absolute positions; a block holds all KV heads. Layers with
//! full attention have a block for each chunk so far, so memory grows with what is used, not with what is configured. Sliding
//! layers keep a ring of blocks: the window of the oldest row of a pass and all rows of the pass fit in it, so that no row loses
//! keys to a later one. Blocks are shared between copies of a cache and its snapshots and copied when one of them writes.

use crate::backend::{Overflow, SequenceCache};
use crate::config::{Config, LayerKind};
use crate::error::{Error, Result};
use kernels::buffer::Buffer;
use kernels::float::FloatFns;
use kernels::float::attention::{Element, KEY_BLOCK, KEY_CHUNK, KeyChunk, padded, store_key};
use std::fmt;
use std::sync::Arc;

/// Element type of the keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheType {
    /// Half precision.
    F16,
    /// Single precision.
    F32,
}

impl CacheType {
    fn bytes(self) -> usize {
        match self {
            CacheType::F16 => 2,
            CacheType::F32 => 4,
        }
    }
}

/// Sizes that all blocks of a model's caches have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    kv_heads: usize,
    head_dim: usize,
    element: CacheType,
    window: usize,
    /// Most positions that are added at once.
    max_rows: usize,
    /// Blocks in the ring of a sliding layer.
    ring: usize,
}

impl Shape {
    /// Elements of one KV head in a block, keys first.
    fn head_len(&self) -> usize {
        KEY_CHUNK * (self.head_dim + padded(self.head_dim))
    }

    fn block_bytes(&self) -> usize {
        self.kv_heads * self.head_len() * self.element.bytes()
    }

    /// The first position whose key a query at `position` of a sliding layer sees.
    fn window_start(&self, position: usize) -> usize {
        (position + 1).saturating_sub(self.window)
    }
}

/// Zeroed memory of one chunk of one layer.
/// Writes go through the unsafe [`KvCache::store`], whose contract orders them.
struct Block(Buffer<u8>);

impl Block {
    fn new(shape: &Shape) -> Result<Self> {
        let bytes = shape.block_bytes();
        let block = Buffer::try_zeroed(bytes).map(Block);
        block.ok_or_else(|| Error::OutOfMemory {
            purpose: "for the KV cache".to_owned(),
            needed: bytes as u64,
            available: 0,
            advice: "use a shorter context or fewer sequences at once".to_owned(),
        })
    }

    fn copy(&self, shape: &Shape) -> Result<Self> {
        let mut copy = Self::new(shape)?;
        copy.0.copy_from_slice(&self.0);
        Ok(copy)
    }
}

#[derive(Clone)]
struct Layer {
    kind: LayerKind,
    /// Full: block of chunk `c` at `c`. Sliding: at `c % ring`.
    blocks: Vec<Option<Arc<Block>>>,
}

/// The keys and values of one sequence. Cloning is cheap: blocks are shared until one of the copies writes to them.
#[derive(Clone)]
pub struct KvCache {
    shape: Shape,
    layers: Vec<Layer>,
    len: usize,
    /// Lowest position whose key every sliding layer still has.
    ring_floor: usize,
    overflow: Option<Overflow>,
}

/// What the sliding layers held at one position: with it, a cache can go back there after its rings have moved on.
#[derive(Clone)]
pub struct RingSnapshot {
    shape: Shape,
    len: usize,
    floor: usize,
    /// For each sliding layer, blocks by chunk.
    layers: Vec<Vec<(usize, Arc<Block>)>>,
}

impl KvCache {
    /// An empty cache, for passes of at most `max_rows` rows. Holds no blocks yet.
    pub fn new(config: &Config, element: CacheType, max_rows: usize) -> Self {
        let shape = Shape {
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            element,
            window: config.window,
            // As many chunks as `window - 1 + max_rows` positions can touch: no two that are in use share a block.
            ring: (config.window + max_rows - 2).div_ceil(KEY_CHUNK) + 1,
            max_rows,
        };
        let layers = config
            .layers
            .iter()
            .map(|kind| Layer {
                kind: *kind,
                blocks: Vec::new(),
            })
            .collect();
        Self {
            shape,
            layers,
            len: 0,
            ring_floor: 0,
            overflow: None,
        }
    }

    /// Positions held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no position is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Element type of the keys and values.
    pub fn element(&self) -> CacheType {
        self.shape.element
    }

    /// Bytes of the blocks held, shared ones included.
    pub fn bytes(&self) -> usize {
        let blocks: usize = self
            .layers
            .iter()
            .map(|layer| layer.blocks.iter().flatten().count())
            .sum();
        blocks * self.shape.block_bytes()
    }

    fn forget(&mut self, len: usize) {
        self.len = len;
        for layer in &mut self.layers {
            if layer.kind == LayerKind::Full {
                layer.blocks.truncate(len.div_ceil(KEY_CHUNK));
            }
        }
    }

    fn slides(&self) -> bool {
        self.layers
            .iter()
            .any(|layer| layer.kind == LayerKind::Sliding)
    }

    /// Whether [`snapshot`](Self::snapshot) can tell the rings at position `at`: they still hold the window before it.
    pub fn snapshot_known(&self, at: usize) -> bool {
        at <= self.len && self.shape.window_start(at) >= self.ring_floor
    }

    /// The rings as they were when `at` positions were held, if they still tell. Costs nothing until the cache writes on; then
    /// the blocks written to are copied.
    pub fn snapshot(&self, at: usize) -> Option<RingSnapshot> {
        if !self.snapshot_known(at) {
            return None;
        }
        let floor = self.shape.window_start(at);
        let chunks = floor / KEY_CHUNK..at.div_ceil(KEY_CHUNK);
        let sliding = self
            .layers
            .iter()
            .filter(|layer| layer.kind == LayerKind::Sliding);
        let layers = sliding.map(|layer| {
            let held = |chunk: usize| {
                Some((
                    chunk,
                    Arc::clone(layer.blocks.get(chunk % self.shape.ring)?.as_ref()?),
                ))
            };
            chunks.clone().filter_map(held).collect()
        });
        Some(RingSnapshot {
            shape: self.shape,
            len: at,
            floor,
            layers: layers.collect(),
        })
    }

    /// How many positions this cache can grow by and still know its present rings.
    pub fn slack(&self) -> usize {
        if !self.slides() {
            return usize::MAX;
        }
        (self.shape.window_start(self.len) / KEY_CHUNK + self.shape.ring) * KEY_CHUNK - self.len
    }

    /// Goes back to the position where `snapshot` was taken, of this cache or of one that shares its first positions.
    ///
    /// # Errors
    /// If this cache is shorter than that, or belongs to a model of another shape.
    pub fn restore(&mut self, snapshot: &RingSnapshot) -> Result<()> {
        let invalid = |expected: String, found: String| Error::InvalidArgument {
            argument: "snapshot",
            expected,
            found,
        };
        let sliding = self
            .layers
            .iter()
            .filter(|layer| layer.kind == LayerKind::Sliding)
            .count();
        if snapshot.shape != self.shape || snapshot.layers.len() != sliding {
            return Err(invalid(
                "one of the same model".to_owned(),
                "one of another shape".to_owned(),
            ));
        }
        if snapshot.len > self.len {
            return Err(invalid(
                format!("one taken at {} or before", self.len),
                snapshot.len.to_string(),
            ));
        }
        let sliding = self
            .layers
            .iter_mut()
            .filter(|layer| layer.kind == LayerKind::Sliding);
        for (layer, blocks) in sliding.zip(&snapshot.layers) {
            layer.blocks.clear();
            layer.blocks.resize(self.shape.ring, None);
            for (chunk, block) in blocks {
                layer.blocks[chunk % self.shape.ring] = Some(Arc::clone(block));
            }
        }
        self.ring_floor = snapshot.floor;
        self.forget(snapshot.len);
        Ok(())
    }

    /// Makes room for `rows` more positions: afterwards all their blocks exist and belong to this cache alone.
    ///
    /// # Errors
    /// If memory is out; the cache then still holds its positions.
    pub(crate) fn prepare(&mut self, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let shape = self.shape;
        assert!(
            rows <= shape.max_rows,
            "{rows} rows at once, the rings are made for {}",
            shape.max_rows
        );
        let (first, last) = (self.len / KEY_CHUNK, (self.len + rows - 1) / KEY_CHUNK);
        if self.slides() {
            self.ring_floor = self
                .ring_floor
                .max((last + 1).saturating_sub(shape.ring) * KEY_CHUNK);
        }
        for chunk in first..=last {
            for layer in &mut self.layers {
                let slot = match layer.kind {
                    LayerKind::Full => chunk,
                    LayerKind::Sliding => chunk % shape.ring,
                };
                if layer.blocks.len() <= slot {
                    layer.blocks.resize(slot + 1, None);
                }
                let block = &mut layer.blocks[slot];
                // What a chunk that only begins here has in its place is another chunk's, and done with.
                let begins = chunk * KEY_CHUNK >= self.len;
                let alone = block
                    .as_mut()
                    .is_some_and(|held| Arc::get_mut(held).is_some());
                match block {
                    Some(_) if alone => {}
                    Some(held) if !begins => *held = Arc::new(held.copy(&shape)?),
                    _ => *block = Some(Arc::new(Block::new(&shape)?)),
                }
            }
        }
        Ok(())
    }

    /// Counts `rows` positions, whose keys and values have been stored, as held. `overflow` tells of the first of these rows whose
    /// numbers left their range, and the layer.
    pub(crate) fn commit(&mut self, rows: usize, overflow: Option<(usize, Option<usize>)>) {
        if let Some((row, layer)) = overflow {
            self.overflow.get_or_insert(Overflow {
                layer,
                position: self.len + row,
            });
        }
        self.len += rows;
    }

    /// First position that a query at `position` of `layer` sees.
    pub(crate) fn visible_from(&self, layer: usize, position: usize) -> usize {
        match self.layers[layer].kind {
            LayerKind::Full => 0,
            LayerKind::Sliding => self.shape.window_start(position),
        }
    }

    /// Start of the memory of a KV head of a chunk, and its length.
    fn head<E: Element>(&self, layer: usize, kv_head: usize, chunk: usize) -> (*mut E, usize) {
        let shape = &self.shape;
        assert_eq!(
            size_of::<E>(),
            shape.element.bytes(),
            "element type of the cache"
        );
        assert!(
            kv_head < shape.kv_heads,
            "KV head {kv_head} of {}",
            shape.kv_heads
        );
        let layer = &self.layers[layer];
        let slot = match layer.kind {
            LayerKind::Full => chunk,
            LayerKind::Sliding => chunk % shape.ring,
        };
        let block = layer.blocks[slot]
            .as_ref()
            .expect("the chunk is held or prepared");
        // SAFETY: the block holds `kv_heads` such parts.
        (
            unsafe { block.0.as_ptr().cast::<E>().add(kv_head * shape.head_len()) },
            shape.head_len(),
        )
    }

    /// The keys and values of one KV head in one chunk.
    ///
    /// # Safety
    /// Nobody stores to this KV head of this chunk while the result is used. For sliding layers the chunk is one of the window.
    pub(crate) unsafe fn chunk<E: Element>(
        &self,
        layer: usize,
        kv_head: usize,
        chunk: usize,
    ) -> KeyChunk<'_, E> {
        let (start, len) = self.head::<E>(layer, kv_head, chunk);
        // SAFETY: the part lies in the block, is initialised, and nobody writes to it, by contract.
        let part = unsafe { std::slice::from_raw_parts(start, len) };
        let (keys, values) = part.split_at(KEY_CHUNK * self.shape.head_dim);
        KeyChunk::new(keys, values, self.shape.head_dim)
    }

    /// Stores a key and a value at a prepared position.
    ///
    /// # Safety
    /// The position is prepared and not yet committed. Meanwhile nobody else uses this KV head's keys of the position's block of
    /// [`KEY_BLOCK`], nor its value.
    pub(crate) unsafe fn store<E: Element>(
        &self,
        fns: &FloatFns,
        layer: usize,
        kv_head: usize,
        position: usize,
        (key, value): (&[f32], &[f32]),
    ) {
        let (start, _) = self.head::<E>(layer, kv_head, position / KEY_CHUNK);
        let d = self.shape.head_dim;
        let at = position % KEY_CHUNK;
        // SAFETY: both parts lie in the block, which is this cache's alone since `prepare`; nobody else uses them, by contract.
        let (block, row) = unsafe {
            let keys = start.add(at / KEY_BLOCK * KEY_BLOCK * d);
            let values = start.add(KEY_CHUNK * d + at * padded(d));
            (
                std::slice::from_raw_parts_mut(keys, KEY_BLOCK * d),
                std::slice::from_raw_parts_mut(values, d),
            )
        };
        store_key(fns, block, at % KEY_BLOCK, key);
        E::narrow(fns, value, row);
    }
}

impl SequenceCache for KvCache {
    type Snapshot = RingSnapshot;

    fn len(&self) -> usize {
        KvCache::len(self)
    }

    fn slack(&self) -> usize {
        KvCache::slack(self)
    }

    fn snapshot_known(&self, at: usize) -> bool {
        KvCache::snapshot_known(self, at)
    }

    fn snapshot(&self, at: usize) -> Option<RingSnapshot> {
        KvCache::snapshot(self, at)
    }

    fn fork(&self, at: usize, snapshot: &RingSnapshot) -> Result<Self> {
        if snapshot.len != at {
            return Err(Error::InvalidArgument {
                argument: "snapshot",
                expected: format!("one taken at {at}"),
                found: format!("one taken at {}", snapshot.len),
            });
        }
        let mut fork = self.clone();
        fork.restore(snapshot)?;
        Ok(fork)
    }

    fn overflow(&self) -> Option<Overflow> {
        self.overflow
    }

    fn bytes(&self) -> usize {
        KvCache::bytes(self)
    }

    fn snapshot_bytes(snapshot: &RingSnapshot) -> usize {
        snapshot.bytes()
    }
}

impl fmt::Debug for KvCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KvCache({} positions, {} bytes)", self.len, self.bytes())
    }
}

impl RingSnapshot {
    /// Positions held when it was taken.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it was taken of an empty cache.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the blocks it keeps alive, shared ones included.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(Vec::len).sum::<usize>() * self.shape.block_bytes()
    }
}

impl fmt::Debug for RingSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RingSnapshot(at {}, {} bytes)", self.len, self.bytes())
    }
}
