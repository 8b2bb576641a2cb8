//! Where weights live: shared, read-only bytes, either mapped from a file or in large anonymous slabs.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
#[cfg(target_os = "linux")]
use std::{thread, time::Duration};

use memmap2::{Mmap, MmapMut};

use crate::error::{Error, Result};

/// Every region of an [`Arena`], and every tensor of a packed file, begins at a multiple of this many bytes.
pub const ALIGNMENT: usize = 64;

/// Slabs are this large (or as large as the one region in them), so that thousands of matrices make few mappings.
const SLAB: usize = 32 << 20;

/// A part of a mapped file or of a slab; cloning shares it.
#[derive(Clone)]
pub struct Bytes {
    /// Kept beside the owner, which would be one more cache miss away for each of the thousands of matrices of a token.
    start: *const u8,
    len: usize,
    owner: Owner,
}

/// Keeps the memory alive.
#[derive(Clone)]
enum Owner {
    Mapped(
        #[cfg_attr(
            not(target_os = "linux"),
            expect(dead_code, reason = "kept, never looked into")
        )]
        Arc<Mmap>,
    ),
    Slab(#[expect(dead_code, reason = "kept, never looked into")] Arc<Slab>),
}

// SAFETY: `start .. start + len` lies in memory of `owner` that nobody writes to, and the owners go to other threads.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// All of a mapped file.
    pub(crate) fn mapped(map: Mmap) -> Self {
        Bytes {
            start: map.as_ptr(),
            len: map.len(),
            owner: Owner::Mapped(Arc::new(map)),
        }
    }

    /// `len` bytes from `start`. Panics when they are not all inside.
    pub fn slice(&self, start: usize, len: usize) -> Self {
        assert!(
            start <= self.len && len <= self.len - start,
            "slice {start}+{len} of {} bytes",
            self.len
        );
        Bytes {
            // Inside, as checked above.
            start: self.start.wrapping_add(start),
            len,
            owner: self.owner.clone(),
        }
    }

    /// The bytes are a view of a file, which the system can drop and read again.
    pub fn is_mapped(&self) -> bool {
        matches!(self.owner, Owner::Mapped(_))
    }

    /// The bytes begin at a multiple of `alignment`.
    pub fn is_aligned(&self, alignment: usize) -> bool {
        (self.as_ptr() as usize).is_multiple_of(alignment)
    }

    /// Enters the pages of the mapped file into this process's table ahead of their use, so that the first tokens do not stop
    /// at each of them: on a thread of its own, which ends early when the last part of the mapping is dropped. It waits a
    /// little first, as the rest of a program's start needs the processors more. Linux only.
    pub(crate) fn prefault(&self) {
        #[cfg(target_os = "linux")]
        if let Owner::Mapped(map) = &self.owner {
            const STEP: usize = 8 << 20;
            const WAIT: Duration = Duration::from_secs(1);
            let (map, len) = (Arc::downgrade(map), map.len());
            let populate = move || {
                thread::sleep(WAIT);
                for start in (0..len).step_by(STEP) {
                    let Some(map) = map.upgrade() else { return };
                    // A kernel before 5.14 does not know it, and a disk error is left to whoever needs the page.
                    if map
                        .advise_range(memmap2::Advice::PopulateRead, start, STEP.min(len - start))
                        .is_err()
                    {
                        return;
                    }
                }
            };
            // Without the thread everything works as well, a little later.
            let _ = thread::Builder::new()
                .name("maple-prefault".to_owned())
                .spawn(populate);
        }
    }

    /// The bytes as 16-bit words. Panics when they are not aligned for it or their number is odd.
    pub fn as_u16(&self) -> &[u16] {
        // SAFETY: every bit pattern is a u16.
        unsafe { self.as_numbers() }
    }

    /// The bytes as floats. Panics when they are not aligned for it or their number is no multiple of four.
    pub fn as_f32(&self) -> &[f32] {
        // SAFETY: every bit pattern is an f32.
        unsafe { self.as_numbers() }
    }

    /// # Safety
    ///
    /// Every bit pattern must be a valid `T`.
    unsafe fn as_numbers<T>(&self) -> &[T] {
        // SAFETY: handed on to the caller.
        let (before, numbers, after) = unsafe { self.align_to::<T>() };
        assert!(
            before.is_empty() && after.is_empty(),
            "bytes are not aligned for their type"
        );
        numbers
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes lie inside the owner's memory, which lives as long as `self`. They are initialised (slabs are
        // zeroed at first), and nobody writes to them any more: a region's one writer was consumed by `BytesMut::freeze`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Bytes({}{})",
            self.len,
            if self.is_mapped() { ", mapped" } else { "" }
        )
    }
}

/// A region of a slab that one owner writes; [`BytesMut::freeze`] makes it shareable.
pub struct BytesMut {
    slab: Arc<Slab>,
    start: usize,
    len: usize,
}

impl BytesMut {
    /// Ends the writing.
    pub fn freeze(self) -> Bytes {
        Bytes {
            // Regions lie inside their slab.
            start: self.slab.start.wrapping_add(self.start),
            len: self.len,
            owner: Owner::Slab(self.slab),
        }
    }

    /// The bytes as floats. Panics when their number is no multiple of four.
    pub fn as_f32_mut(&mut self) -> &mut [f32] {
        // SAFETY: every bit pattern is an f32, and f32s written back are plain bytes.
        let (before, floats, after) = unsafe { self.align_to_mut::<f32>() };
        assert!(
            before.is_empty() && after.is_empty(),
            "the region does not hold whole floats"
        );
        floats
    }
}

impl Deref for BytesMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the region lies inside the slab, is initialised, and belongs to `self` alone.
        unsafe { std::slice::from_raw_parts(self.slab.start.add(self.start), self.len) }
    }
}

impl DerefMut for BytesMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.slab.start.add(self.start), self.len) }
    }
}

/// Anonymous zeroed memory, in huge pages where the system grants them. Reached through `start` only, because several of its
/// regions are written at a time.
struct Slab {
    start: *mut u8,
    /// Keeps the memory; never dereferenced.
    _memory: MmapMut,
}

// SAFETY: `start` points into memory that the slab owns; regions are disjoint, each with one writer or any number of readers.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    fn new(len: usize) -> Result<Self> {
        let failed = |_| Error::OutOfMemory {
            purpose: "for the weights".to_owned(),
            needed: len as u64,
            available: 0,
            advice: "close other programs or use a machine with more memory".to_owned(),
        };
        let mut memory = MmapMut::map_anon(len).map_err(failed)?;
        // Fewer page faults and TLB misses; a system without huge pages refuses, which changes nothing.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        Ok(Slab {
            start: memory.as_mut_ptr(),
            _memory: memory,
        })
    }
}

/// Hands out zeroed regions of large slabs; shared by the threads that fill them.
#[derive(Default)]
pub struct Arena {
    /// The slab that still has room, and how much of it is taken. Regions never overlap, as the second number only grows.
    open: Mutex<Option<(Arc<Slab>, usize)>>,
}

impl Arena {
    /// A zeroed region of `len` bytes, aligned to [`ALIGNMENT`].
    ///
    /// Errors: [`Error::OutOfMemory`].
    pub fn take(&self, len: usize) -> Result<BytesMut> {
        let padded = len.max(1).next_multiple_of(ALIGNMENT);
        if padded >= SLAB / 2 {
            return Ok(BytesMut {
                slab: Arc::new(Slab::new(padded)?),
                start: 0,
                len,
            });
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (slab, used) = match open.take() {
            Some((slab, used)) if used + padded <= SLAB => (slab, used),
            _ => (Arc::new(Slab::new(SLAB)?), 0),
        };
        *open = Some((Arc::clone(&slab), used + padded));
        Ok(BytesMut {
            slab,
            start: used,
            len,
        })
    }

    /// A region with a copy of `bytes`.
    ///
    /// Errors: [`Error::OutOfMemory`].
    pub fn copy(&self, bytes: &[u8]) -> Result<Bytes> {
        let mut region = self.take(bytes.len())?;
        region.copy_from_slice(bytes);
        Ok(region.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_zeroed_aligned_and_apart() {
        let arena = Arena::default();
        let mut regions: Vec<BytesMut> = [1, 63, 64, 65, 0, 4096, SLAB - 100, SLAB + 1, 7]
            .iter()
            .map(|&len| arena.take(len).unwrap())
            .collect();
        for (i, region) in regions.iter_mut().enumerate() {
            assert!(region.iter().all(|&byte| byte == 0));
            region.fill(i as u8 + 1);
        }
        for (i, region) in regions.into_iter().enumerate() {
            let bytes = region.freeze();
            assert!(bytes.is_aligned(ALIGNMENT));
            assert!(bytes.iter().all(|&byte| byte == i as u8 + 1));
        }
    }

    #[test]
    fn threads_fill_regions_at_once() {
        let arena = Arena::default();
        let parts: Vec<Bytes> = std::thread::scope(|scope| {
            let fill = |n: u8| {
                let arena = &arena;
                scope.spawn(move || {
                    (0..100)
                        .map(|_| arena.copy(&[n; 1000]).unwrap())
                        .collect::<Vec<_>>()
                })
            };
            [fill(1), fill(2)]
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(
            parts.iter().filter(|part| part[..] == [1; 1000]).count(),
            100
        );
        assert_eq!(
            parts.iter().filter(|part| part[..] == [2; 1000]).count(),
            100
        );
    }

    #[test]
    #[should_panic(expected = "slice")]
    fn a_slice_stays_inside() {
        Arena::default().copy(&[0; 10]).unwrap().slice(8, 3);
    }
}
