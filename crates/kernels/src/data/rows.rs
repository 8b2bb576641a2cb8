//! Activations: rows of `f32`, and their quantised planes for the integer products.

use super::buffer::{Buffer, Plain};
use std::marker::PhantomData;

/// Columns that share one scale in [`Precision::Int8`]; also what rows are padded to with zeros.
pub const BLOCK: usize = 256;
/// Columns of one entry of the exact sums.
pub const SUM_GROUP: usize = 16;
/// Largest quantised magnitude in [`Precision::Int16`]: `128 * 127 + 63`, so that both halves fit a signed byte.
pub const INT16_MAX: i32 = 16319;
/// Largest quantised magnitude in [`Precision::Int8`].
pub const INT8_MAX: i32 = 127;
/// Widest row for which every integer sum still fits 32 bits.
pub const MAX_COLS: usize = 1 << 17;

/// How activations enter a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// As they are, in `f32`.
    F32,
    /// 15-bit integers with one scale a row, `q = 128 hi + lo`, as two planes of signed bytes.
    Int16,
    /// 8-bit integers with one scale for every [`BLOCK`] columns.
    Int8,
}

impl Precision {
    /// Planes of signed bytes held for each row.
    pub fn planes(self) -> usize {
        match self {
            Precision::F32 => 0,
            Precision::Int16 => 2,
            Precision::Int8 => 1,
        }
    }
}

/// A reusable block of activation rows, `[rows][cols]`, with room for their quantised form.
///
/// Fill a row with [`Rows::row_mut`], then call [`Rows::quantize`] on it: products read what that call made of the
/// row, in every precision. Nothing is allocated after [`Rows::new`].
#[derive(Debug)]
pub struct Rows {
    max_rows: usize,
    len: usize,
    cols: usize,
    padded: usize,
    precision: Precision,
    /// `[max_rows][padded]`, zero beyond `cols`.
    values: Buffer<f32>,
    /// `[max_rows][planes][plane_stride]`, zero beyond `cols`; the high plane first.
    planes: Buffer<i8>,
    /// `[max_rows][scales_per_row]`.
    scales: Buffer<f32>,
    /// `[max_rows][padded / SUM_GROUP]`: sums of q over 16 columns.
    sums: Buffer<i32>,
    /// `[max_rows][totals_per_row]`. In `Int16` the sums over the row of the high plane, and of q; in `Int8` the sum of q over
    /// each block.
    totals: Buffer<i32>,
    /// `[max_rows][padded / SUM_GROUP]`, only in `F32`: sums of the values over 16 columns.
    value_sums: Buffer<f32>,
}

/// The parts of one row that quantising reads and writes; lengths as in [`Rows`].
pub(crate) struct QuantizeRow<'a> {
    pub precision: Precision,
    pub values: &'a [f32],
    pub planes: &'a mut [i8],
    pub plane_stride: usize,
    pub scales: &'a mut [f32],
    pub sums: &'a mut [i32],
    pub totals: &'a mut [i32],
    pub value_sums: &'a mut [f32],
}

impl Rows {
    /// Room for `max_rows` rows of `cols` columns. Panics if `cols` is 0 or above [`MAX_COLS`].
    pub fn new(max_rows: usize, cols: usize, precision: Precision) -> Self {
        assert!(
            (1..=MAX_COLS).contains(&cols),
            "a row has 1 to {MAX_COLS} columns, not {cols}"
        );
        let padded = cols.next_multiple_of(BLOCK);
        let integer = usize::from(precision != Precision::F32);
        let groups = padded / SUM_GROUP;
        Rows {
            max_rows,
            len: 0,
            cols,
            padded,
            precision,
            values: Buffer::zeroed(max_rows * padded),
            planes: Buffer::zeroed(max_rows * precision.planes() * Self::stride_of(padded)),
            scales: Buffer::zeroed(max_rows * Self::scales_of(padded, precision)),
            sums: Buffer::zeroed(integer * max_rows * groups),
            totals: Buffer::zeroed(max_rows * Self::totals_of(padded, precision)),
            value_sums: Buffer::zeroed((1 - integer) * max_rows * groups),
        }
    }

    // One cache line more than the row: rows then start in different cache sets.
    fn stride_of(padded: usize) -> usize {
        padded + 64
    }

    fn scales_of(padded: usize, precision: Precision) -> usize {
        match precision {
            Precision::F32 => 0,
            Precision::Int16 => 1,
            Precision::Int8 => padded / BLOCK,
        }
    }

    fn totals_of(padded: usize, precision: Precision) -> usize {
        match precision {
            Precision::F32 => 0,
            Precision::Int16 => 2,
            Precision::Int8 => padded / BLOCK,
        }
    }

    /// Rows in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no row is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Rows there is room for.
    pub fn max_rows(&self) -> usize {
        self.max_rows
    }

    /// Columns of every row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The precision given to [`Rows::new`].
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Sets how many rows are in use; their content is whatever was last written there. Panics beyond `max_rows`.
    pub fn set_len(&mut self, rows: usize) {
        assert!(
            rows <= self.max_rows,
            "{rows} rows asked for, room for {}",
            self.max_rows
        );
        self.len = rows;
    }

    /// The `cols` values of row `r`.
    pub fn row(&self, r: usize) -> &[f32] {
        &self.values(r)[..self.cols]
    }

    /// The `cols` values of row `r`, to be filled; call [`Rows::quantize`] afterwards.
    pub fn row_mut(&mut self, r: usize) -> &mut [f32] {
        // SAFETY: `self` is borrowed for writing.
        unsafe { self.share().row_mut(r) }
    }

    /// A handle through which several threads fill disjoint rows, then all read them.
    pub fn share(&mut self) -> SharedRows<'_> {
        SharedRows {
            rows: self,
            life: PhantomData,
        }
    }

    /// Row `r` with its zero padding.
    pub(crate) fn values(&self, r: usize) -> &[f32] {
        assert!(r < self.len, "row {r} of {}", self.len);
        &self.values[r * self.padded..][..self.padded]
    }

    /// Sums of row `r` over 16 columns each (`F32` only).
    pub(crate) fn value_sums(&self, r: usize) -> &[f32] {
        let groups = self.padded / SUM_GROUP;
        &self.value_sums[r * groups..][..groups]
    }

    /// Plane `p` of row `r`, with its zero padding. In `Int16` plane 0 is the high one; in `Int8` there is only plane 0.
    #[inline(always)]
    pub(crate) fn plane(&self, r: usize, p: usize) -> &[i8] {
        let stride = Self::stride_of(self.padded);
        &self.planes[(r * self.precision.planes() + p) * stride..][..self.padded]
    }

    /// The `P` planes of `T` rows, from column `from` on.
    // Loops, here and in the kernels: closures over arrays are not always inlined.
    #[inline(always)]
    pub(crate) fn planes<const T: usize, const P: usize>(
        &self,
        idx: &[u32],
        from: usize,
    ) -> [[*const i8; P]; T] {
        let mut planes = [[std::ptr::null(); P]; T];
        for (planes, &r) in planes.iter_mut().zip(idx) {
            for (p, plane) in planes.iter_mut().enumerate() {
                *plane = self.plane(r as usize, p)[from..].as_ptr();
            }
        }
        planes
    }

    /// The scales of row `r`: one in `Int16`, one a block in `Int8`.
    #[inline(always)]
    pub(crate) fn scales(&self, r: usize) -> &[f32] {
        let count = Self::scales_of(self.padded, self.precision);
        &self.scales[r * count..][..count]
    }

    /// Sums of q of row `r` over 16 columns each.
    #[inline(always)]
    pub(crate) fn sums(&self, r: usize) -> &[i32] {
        let groups = self.padded / SUM_GROUP;
        &self.sums[r * groups..][..groups]
    }

    /// Sum of the high plane of row `r` (`Int16` only).
    #[allow(dead_code, reason = "the portable kernels do without")]
    #[inline(always)]
    pub(crate) fn high_total(&self, r: usize) -> i32 {
        self.totals[2 * r]
    }

    /// Sum of q over row `r` (`Int16` only).
    #[inline(always)]
    pub(crate) fn total(&self, r: usize) -> i32 {
        self.totals[2 * r + 1]
    }

    /// Sums of q of row `r` over each block (`Int8` only).
    #[inline(always)]
    pub(crate) fn block_totals(&self, r: usize) -> &[i32] {
        let blocks = self.padded / BLOCK;
        &self.totals[r * blocks..][..blocks]
    }
}

/// Shared access to [`Rows`] for the threads of one parallel step: a copyable handle without a lock.
///
/// The caller orders the threads (each row has one writer; readers start after a barrier), which is why its methods
/// are unsafe.
#[derive(Clone, Copy, Debug)]
pub struct SharedRows<'a> {
    rows: *const Rows,
    life: PhantomData<&'a mut Rows>,
}

// SAFETY: the handle borrows the rows exclusively; what is done through it is ruled by the contracts of its methods.
unsafe impl Send for SharedRows<'_> {}
// SAFETY: as above.
unsafe impl Sync for SharedRows<'_> {}

impl<'a> SharedRows<'a> {
    /// The rows, for reading.
    ///
    /// # Safety
    ///
    /// While the result is used, no thread calls [`SharedRows::row_mut`] or [`SharedRows::quantize`] for a row that is
    /// read, nor holds a slice from an earlier call for such a row. Writes by other threads happened before.
    pub unsafe fn rows(self) -> &'a Rows {
        // SAFETY: the rows are alive and exclusively borrowed for 'a; the caller keeps writers away.
        unsafe { &*self.rows }
    }

    /// The `cols` values of row `r`, to be filled.
    ///
    /// # Safety
    ///
    /// No other thread reads or writes row `r` while the result is used, and no second slice of it is held.
    pub unsafe fn row_mut(self, r: usize) -> &'a mut [f32] {
        // SAFETY: only the lengths and pointers inside `Rows` are read, and those never change while it is shared.
        let rows = unsafe { &*self.rows };
        assert!(r < rows.len, "row {r} of {}", rows.len);
        // SAFETY: row `r` lies inside the buffer; the caller has it to itself.
        unsafe {
            std::slice::from_raw_parts_mut(rows.values.as_ptr().add(r * rows.padded), rows.cols)
        }
    }

    /// Columns `from .. from + len` of row `r`, to be filled.
    ///
    /// # Safety
    ///
    /// No other thread reads or writes these values while the result is used, and no second slice of them is held.
    pub unsafe fn part_mut(self, r: usize, from: usize, len: usize) -> &'a mut [f32] {
        // SAFETY: as in `row_mut`.
        let rows = unsafe { &*self.rows };
        assert!(r < rows.len, "row {r} of {}", rows.len);
        assert!(
            from <= rows.cols && len <= rows.cols - from,
            "columns {from}+{len} of {}",
            rows.cols
        );
        // SAFETY: the values lie inside row `r` of the buffer; the caller has them to itself.
        unsafe {
            std::slice::from_raw_parts_mut(rows.values.as_ptr().add(r * rows.padded + from), len)
        }
    }

    /// What quantising row `r` reads and writes.
    ///
    /// # Safety
    ///
    /// While the result is used, no other thread reads or writes row `r`, and no slice of it is held for writing.
    pub(crate) unsafe fn quantize_row(self, r: usize) -> QuantizeRow<'a> {
        // SAFETY: as in `row_mut`.
        let rows = unsafe { &*self.rows };
        assert!(r < rows.len, "row {r} of {}", rows.len);
        let groups = rows.padded / SUM_GROUP;
        let stride = Rows::stride_of(rows.padded);
        let planes = rows.precision.planes() * stride;
        let scales = Rows::scales_of(rows.padded, rows.precision);
        let integer = usize::from(rows.precision != Precision::F32);
        // SAFETY: each slice is row `r` of its buffer as allocated in `Rows::new` (or empty); the buffers are distinct,
        // and the caller has row `r` to itself.
        unsafe {
            QuantizeRow {
                precision: rows.precision,
                values: std::slice::from_raw_parts(
                    rows.values.as_ptr().add(r * rows.padded),
                    rows.padded,
                ),
                planes: part(&rows.planes, r, planes),
                plane_stride: stride,
                scales: part(&rows.scales, r, scales),
                sums: part(&rows.sums, r, integer * groups),
                totals: part(
                    &rows.totals,
                    r,
                    Rows::totals_of(rows.padded, rows.precision),
                ),
                value_sums: part(&rows.value_sums, r, (1 - integer) * groups),
            }
        }
    }
}

/// Item `r` of a buffer of items of `len` values.
///
/// # Safety
///
/// The item lies inside the buffer, and nobody else uses it during 'a.
unsafe fn part<'a, T: Plain>(buffer: &Buffer<T>, r: usize, len: usize) -> &'a mut [T] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr().add(r * len), len) }
}
