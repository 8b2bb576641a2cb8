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
pub struct Buffer<T: Plain> {
    start: NonNull<T>,
    len: usize,
    owns: PhantomData<T>,
}

// SAFETY: a buffer owns its memory and holds plain numbers only.
unsafe impl<T: Plain + Send> Send for Buffer<T> {}
// SAFETY: shared access only reads.
unsafe impl<T: Plain + Sync> Sync for Buffer<T> {}

impl<T: Plain> Buffer<T> {
    /// Allocates `len` zeros. Aborts as `Vec` does when memory is out or the size overflows.
    pub fn zeroed(len: usize) -> Self {
        if len == 0 {
            return Buffer {
                start: NonNull::dangling(),
                len,
                owns: PhantomData,
            };
        }
        let layout = Self::layout(len);
        // SAFETY: the layout has a non-zero size, as `len` is not 0 and no `Plain` type is zero-sized.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start.cast::<T>()) else {
            handle_alloc_error(layout)
        };
        Buffer {
            start,
            len,
            owns: PhantomData,
        }
    }

    fn layout(len: usize) -> Layout {
        let bytes = len
            .checked_mul(size_of::<T>())
            .expect("buffer size overflows");
        Layout::from_size_align(bytes, ALIGNMENT).expect("buffer size overflows")
    }

    /// The first value. Writing through it needs the caller's own proof that nobody else reads or writes there.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.start.as_ptr()
    }
}

impl<T: Plain> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.len != 0 {
            // SAFETY: allocated in `zeroed` with the same layout.
            unsafe { dealloc(self.start.as_ptr().cast(), Self::layout(self.len)) }
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
