//! A fixed block of 64-byte aligned, zeroed memory.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Alignment of every [`Buffer`], in bytes: one cache line, and the widest vector of any instruction set used here.
pub const ALIGNMENT: usize = 64;

/// Plain numbers for which all-zero bytes are a valid value.
///
/// # Safety
///
/// The type has no padding, no invalid bit patterns and no destructor.
pub unsafe trait Plain: Copy + 'static {}
// SAFETY: plain machine integers and floats.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for i8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for f32 {}

/// `len` values of `T`, zeroed at first, aligned to [`ALIGNMENT`]; never grows.
///
/// The allocator is asked for plain memory with some room to spare rather than for aligned memory: glibc before 2.38 cannot give a
/// freed aligned block to the next request of the same size, so that a process that makes and drops buffers would grow for ever.
pub struct Buffer<T: Plain> {
    /// The first multiple of [`ALIGNMENT`] in the allocation.
    start: NonNull<T>,
    len: usize,
    /// Where the allocation begins.
    base: NonNull<u8>,
    owns: PhantomData<T>,
}

// SAFETY: a buffer owns its memory and holds plain numbers only.
unsafe impl<T: Plain + Send> Send for Buffer<T> {}
// SAFETY: shared access only reads.
unsafe impl<T: Plain + Sync> Sync for Buffer<T> {}

impl<T: Plain> Buffer<T> {
    /// Allocates `len` zeros. Aborts as `Vec` does when memory is out; panics when the size overflows.
    pub fn zeroed(len: usize) -> Self {
        let layout = Self::layout(len).expect("buffer size overflows");
        Self::try_zeroed(len).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// Allocates `len` zeros; `None` when there is no memory for them.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        if len == 0 {
            return Some(Buffer {
                start: NonNull::dangling(),
                len,
                base: NonNull::dangling(),
                owns: PhantomData,
            });
        }
        // SAFETY: the layout has a non-zero size: it has room for the alignment at least.
        let base = NonNull::new(unsafe { alloc_zeroed(Self::layout(len)?) })?;
        let before = base.as_ptr().align_offset(ALIGNMENT);
        assert!(before < ALIGNMENT, "memory has whole addresses");
        Some(Buffer {
            // SAFETY: the allocation has `ALIGNMENT - 1` bytes more than the values take, and fewer are skipped.
            start: unsafe { base.add(before) }.cast(),
            len,
            base,
            owns: PhantomData,
        })
    }

    /// Memory for `len` values wherever it begins; `None` when there can be no such memory.
    fn layout(len: usize) -> Option<Layout> {
        let bytes = len
            .checked_mul(size_of::<T>())?
            .checked_add(ALIGNMENT - 1)?;
        Layout::from_size_align(bytes, 1).ok()
    }

    /// The first value. Writing through it needs the caller's own proof that nobody else reads or writes there.
    pub fn as_ptr(&self) -> *mut T {
        self.start.as_ptr()
    }
}

impl<T: Plain> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.len != 0 {
            let layout = Self::layout(self.len).expect("it was allocated");
            // SAFETY: allocated in `try_zeroed` with the same layout.
            unsafe { dealloc(self.base.as_ptr(), layout) }
        }
    }
}

impl<T: Plain> std::ops::Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialised values live at `start` for as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Plain> std::ops::DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Plain> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} values)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zeroed_aligned_and_apart() {
        let mut buffers: Vec<_> = (0..40).map(Buffer::<u16>::zeroed).collect();
        for (len, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!(**buffer, vec![0; len]);
            assert!(len == 0 || buffer.as_ptr().cast::<u8>().align_offset(ALIGNMENT) == 0);
            buffer.fill(len as u16);
        }
        for (len, buffer) in buffers.iter().enumerate() {
            assert_eq!(**buffer, vec![len as u16; len]);
        }
    }

    #[test]
    fn what_no_memory_can_hold_is_refused() {
        for len in [usize::MAX, usize::MAX / 2, isize::MAX as usize] {
            assert!(Buffer::<f32>::try_zeroed(len).is_none());
            assert!(Buffer::<u8>::try_zeroed(len).is_none());
        }
    }
}
