//! Weight matrices as the products see them: borrowed bytes in one of the at-rest forms.

use super::buffer::Plain;
use super::half::{bf16_to_f32, f16_to_f32};
use super::layout::{self, GroupedLayout, STRIP};
use super::rows::MAX_COLS;
use std::fmt;

/// Row-wise ternary weights, `w = scales[row] * (code - 1)`.
#[derive(Clone, Copy, Debug)]
pub struct Ternary<'a> {
    /// Rows (outputs).
    pub rows: usize,
    /// Columns (inputs).
    pub cols: usize,
    /// [`layout::ternary_bytes`] bytes.
    pub tiles: &'a [u8],
    /// One scale a row, padded with zeros to a multiple of [`STRIP`].
    pub scales: &'a [f32],
}

/// Affine weights, `w = code * scale + bias` for each row and group of columns.
#[derive(Clone, Copy, Debug)]
pub struct Grouped<'a> {
    /// Rows (outputs).
    pub rows: usize,
    /// Columns (inputs).
    pub cols: usize,
    /// Bits, group size, scale format.
    pub layout: GroupedLayout,
    /// [`GroupedLayout::bytes`] bytes.
    pub data: &'a [u8],
}

/// 8-bit weights, `w = scales[row] * (code - 128)`.
#[derive(Clone, Copy, Debug)]
pub struct Int8Rows<'a> {
    /// Rows (outputs).
    pub rows: usize,
    /// Columns (inputs).
    pub cols: usize,
    /// [`layout::int8_bytes`] bytes.
    pub data: &'a [u8],
    /// One scale a row, padded with zeros to a multiple of [`STRIP`].
    pub scales: &'a [f32],
}

/// Plain float weights, `[rows][cols]`.
#[derive(Clone, Copy, Debug)]
pub struct Dense<'a> {
    /// Rows (outputs).
    pub rows: usize,
    /// Columns (inputs).
    pub cols: usize,
    /// `rows * cols` values.
    pub data: DenseData<'a>,
}

/// Values of a [`Dense`] matrix, at source precision.
#[derive(Clone, Copy, Debug)]
pub enum DenseData<'a> {
    /// bfloat16 bits.
    Bf16(&'a [u16]),
    /// IEEE half-precision bits.
    F16(&'a [u16]),
    /// `f32`.
    F32(&'a [f32]),
}

impl<'a> DenseData<'a> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            DenseData::Bf16(values) | DenseData::F16(values) => values.len(),
            DenseData::F32(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slice(self, from: usize, len: usize) -> Self {
        match self {
            DenseData::Bf16(values) => DenseData::Bf16(&values[from..from + len]),
            DenseData::F16(values) => DenseData::F16(&values[from..from + len]),
            DenseData::F32(values) => DenseData::F32(&values[from..from + len]),
        }
    }
}

/// A weight matrix in any of the forms.
#[derive(Clone, Copy, Debug)]
pub enum Mat<'a> {
    /// 2 bits a weight, one scale a row.
    Ternary(Ternary<'a>),
    /// 4 or 8 bits a weight, a scale and a bias a group.
    Grouped(Grouped<'a>),
    /// 8 bits a weight, one scale a row.
    Int8(Int8Rows<'a>),
    /// Floats.
    Dense(Dense<'a>),
}

/// A matrix whose parts do not fit its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeError(String);

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ShapeError {}

fn expect(what: &str, found: usize, expected: usize) -> Result<(), ShapeError> {
    if found == expected {
        Ok(())
    } else {
        Err(ShapeError(format!(
            "{what}: expected {expected}, found {found}"
        )))
    }
}

impl<'a> Mat<'a> {
    /// Rows (outputs).
    pub fn rows(&self) -> usize {
        match self {
            Mat::Ternary(m) => m.rows,
            Mat::Grouped(m) => m.rows,
            Mat::Int8(m) => m.rows,
            Mat::Dense(m) => m.rows,
        }
    }

    /// Columns (inputs).
    pub fn cols(&self) -> usize {
        match self {
            Mat::Ternary(m) => m.cols,
            Mat::Grouped(m) => m.cols,
            Mat::Int8(m) => m.cols,
            Mat::Dense(m) => m.cols,
        }
    }

    /// Strips of [`STRIP`] rows.
    pub fn strips(&self) -> usize {
        layout::strips(self.rows())
    }

    /// Bytes a product with the whole matrix reads.
    pub fn bytes(&self) -> usize {
        match self {
            Mat::Ternary(m) => m.tiles.len() + size_of_val(m.scales),
            Mat::Grouped(m) => m.data.len(),
            Mat::Int8(m) => m.data.len() + size_of_val(m.scales),
            Mat::Dense(Dense {
                data: DenseData::Bf16(v) | DenseData::F16(v),
                ..
            }) => size_of_val(*v),
            Mat::Dense(Dense {
                data: DenseData::F32(v),
                ..
            }) => size_of_val(*v),
        }
    }

    /// The bytes of a strip, without row scales; none where there is no such strip.
    pub(crate) fn strip_bytes(&self, strip: usize) -> &'a [u8] {
        let part = |bytes: &'a [u8], each: usize| {
            let start = strip.saturating_mul(each).min(bytes.len());
            &bytes[start..start.saturating_add(each).min(bytes.len())]
        };
        match self {
            Mat::Ternary(m) => part(m.tiles, layout::ternary_strip_bytes(m.cols)),
            Mat::Grouped(m) => part(m.data, m.layout.strip_bytes(m.cols)),
            Mat::Int8(m) => part(m.data, layout::int8_strip_bytes(m.cols)),
            Mat::Dense(m) => match m.data {
                DenseData::Bf16(v) | DenseData::F16(v) => part(as_bytes(v), 2 * STRIP * m.cols),
                DenseData::F32(v) => part(as_bytes(v), 4 * STRIP * m.cols),
            },
        }
    }

    /// Checks that the parts have the lengths the shape asks for.
    pub fn check(&self) -> Result<(), ShapeError> {
        let (rows, cols) = (self.rows(), self.cols());
        if cols == 0 || cols > MAX_COLS {
            return Err(ShapeError(format!(
                "columns: expected 1 to {MAX_COLS}, found {cols}"
            )));
        }
        match self {
            Mat::Ternary(m) => {
                expect(
                    "bytes of ternary tiles",
                    m.tiles.len(),
                    layout::ternary_bytes(rows, cols),
                )?;
                expect("row scales", m.scales.len(), layout::padded_rows(rows))
            }
            Mat::Grouped(m) => {
                if !m.layout.is_supported() {
                    return Err(ShapeError(format!(
                        "affine codes of {} bits in groups of {}: expected 4 or 8 bits, groups of 32, 64 or 128 (or 16 with 8 bits)",
                        m.layout.bits, m.layout.group
                    )));
                }
                expect(
                    "bytes of affine codes",
                    m.data.len(),
                    m.layout.bytes(rows, cols),
                )
            }
            Mat::Int8(m) => {
                expect(
                    "bytes of 8-bit codes",
                    m.data.len(),
                    layout::int8_bytes(rows, cols),
                )?;
                expect("row scales", m.scales.len(), layout::padded_rows(rows))
            }
            Mat::Dense(m) => expect("values", m.data.len(), rows * cols),
        }
    }

    /// Row `r` as `f32`, for instance a token's embedding. Panics when `r` or the length of `out` (`cols`) does not fit.
    pub fn row_to_f32(&self, r: usize, out: &mut [f32]) {
        assert!(r < self.rows(), "row {r} of {}", self.rows());
        assert_eq!(out.len(), self.cols(), "values of a row");
        match self {
            Mat::Ternary(m) => {
                let mut codes = [0u8; 256];
                let tiles = layout::TERNARY_TILE_BYTES * 256 / layout::TERNARY_TILE_COLS;
                let strip = &m.tiles[r / STRIP * layout::ternary_strip_bytes(m.cols)..];
                for (part, out) in out.chunks_mut(256).enumerate() {
                    let codes = &mut codes[..out.len()];
                    layout::unpack_ternary_row(&strip[part * tiles..], out.len(), r % STRIP, codes);
                    for (out, &code) in out.iter_mut().zip(&*codes) {
                        *out = m.scales[r] * (f32::from(code) - 1.0);
                    }
                }
            }
            Mat::Grouped(m) => layout::unpack_grouped_row(m.data, m.layout, m.cols, r, out),
            Mat::Int8(m) => {
                let strip = &m.data[r / STRIP * layout::int8_strip_bytes(m.cols)..];
                for (c, out) in out.iter_mut().enumerate() {
                    let tile = &strip[c / layout::INT8_TILE_COLS * layout::INT8_TILE_BYTES..];
                    let code = tile[4 * (r % STRIP) + c % layout::INT8_TILE_COLS];
                    *out = m.scales[r] * (f32::from(code) - 128.0);
                }
            }
            Mat::Dense(m) => match m.data.slice(r * m.cols, m.cols) {
                DenseData::Bf16(row) => out
                    .iter_mut()
                    .zip(row)
                    .for_each(|(out, &w)| *out = bf16_to_f32(w)),
                DenseData::F16(row) => out
                    .iter_mut()
                    .zip(row)
                    .for_each(|(out, &w)| *out = f16_to_f32(w)),
                DenseData::F32(row) => out.copy_from_slice(row),
            },
        }
    }
}

/// One strip of a [`Ternary`] matrix.
pub(crate) struct TernaryStrip<'a> {
    pub tiles: &'a [u8],
    pub scales: &'a [f32; STRIP],
}

/// One strip of a [`Grouped`] matrix.
pub(crate) struct GroupedStrip<'a> {
    pub layout: GroupedLayout,
    /// The upper level of two-level scales, else empty.
    pub head: &'a [u8],
    /// Group by group.
    pub data: &'a [u8],
}

/// One strip of an [`Int8Rows`] matrix.
pub(crate) struct Int8Strip<'a> {
    pub data: &'a [u8],
    pub scales: &'a [f32; STRIP],
}

/// Up to 64 rows of a [`Dense`] matrix.
pub(crate) struct DenseStrip<'a> {
    pub rows: usize,
    pub cols: usize,
    pub data: DenseData<'a>,
}

fn as_bytes<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: plain numbers have no padding, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn strip_scales(scales: &[f32], strip: usize) -> &[f32; STRIP] {
    scales[strip * STRIP..]
        .first_chunk()
        .expect("row scales are padded to whole strips")
}

impl<'a> Ternary<'a> {
    pub(crate) fn strip(&self, strip: usize) -> TernaryStrip<'a> {
        let bytes = layout::ternary_strip_bytes(self.cols);
        TernaryStrip {
            tiles: &self.tiles[strip * bytes..][..bytes],
            scales: strip_scales(self.scales, strip),
        }
    }
}

impl<'a> Grouped<'a> {
    pub(crate) fn strip(&self, strip: usize) -> GroupedStrip<'a> {
        let bytes = self.layout.strip_bytes(self.cols);
        let strip = &self.data[strip * bytes..][..bytes];
        let (head, data) = strip.split_at(self.layout.head_bytes(self.cols));
        GroupedStrip {
            layout: self.layout,
            head,
            data,
        }
    }
}

impl<'a> Int8Rows<'a> {
    pub(crate) fn strip(&self, strip: usize) -> Int8Strip<'a> {
        let bytes = layout::int8_strip_bytes(self.cols);
        Int8Strip {
            data: &self.data[strip * bytes..][..bytes],
            scales: strip_scales(self.scales, strip),
        }
    }
}

impl<'a> Dense<'a> {
    pub(crate) fn strip(&self, strip: usize) -> DenseStrip<'a> {
        let first = strip * STRIP;
        let rows = STRIP.min(self.rows - first);
        DenseStrip {
            rows,
            cols: self.cols,
            data: self.data.slice(first * self.cols, rows * self.cols),
        }
    }
}
