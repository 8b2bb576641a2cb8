//! Plain float tensors: kept as they are, or packed to two bits where every row holds only -s, 0 and s.

use kernels::half::{bf16_to_f32, f16_to_f32, f32_to_bf16};
use kernels::layout;

use super::options::LoadOptions;
use super::safetensors::Dtype;
use super::source::Room;
use super::tensors::TensorRef;
use crate::bytes::{Bytes, BytesMut};
use crate::error::{Defect, Error, Result};
use crate::slots::MatrixSlot;
use crate::weights::{DenseType, Matrix};

/// The dtypes of plain weights.
pub(crate) const FLOATS: [Dtype; 3] = [Dtype::Bf16, Dtype::F16, Dtype::F32];
/// [`FLOATS`] in words.
pub(crate) const FLOAT_NAMES: &str = "BF16, F16 or F32";

/// The element type of a tensor whose dtype is one of [`FLOATS`].
pub(crate) fn dense_type(tensor: &TensorRef<'_>) -> Result<DenseType> {
    tensor.expect_dtype(&FLOATS, FLOAT_NAMES)?;
    Ok(match tensor.dtype() {
        Dtype::Bf16 => DenseType::Bf16,
        Dtype::F16 => DenseType::F16,
        _ => DenseType::F32,
    })
}

/// A matrix of a tensor: all of it, or one of several stacked ones.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub tensor: TensorRef<'a>,
    /// Which of the stacked matrices; `None` where the tensor is the matrix.
    pub stacked: Option<usize>,
    /// Rows of the matrix.
    pub rows: usize,
}

impl Part<'_> {
    /// Elements in a row of the tensor as it is stored: 1 where it holds one number a row.
    fn row_len(&self) -> usize {
        let shape = self.tensor.shape();
        let leading = usize::from(self.stacked.is_some()) + 1;
        shape[leading..].iter().product::<u64>() as usize
    }

    /// Bytes of the part.
    pub fn byte_len(&self) -> usize {
        self.rows * self.row_len() * self.tensor.dtype().size() as usize
    }

    fn byte_offset(&self) -> usize {
        self.stacked.unwrap_or(0) * self.byte_len()
    }

    /// Fills `buffer` with the part's bytes, one row after the other.
    pub fn read(&self, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.resize(self.byte_len(), 0);
        self.tensor.read_at(buffer, self.byte_offset() as u64)
    }

    /// The part's bytes as they will stay: mapped where the room allows it, else copied.
    pub fn keep(&self, room: &Room<'_>) -> Result<Bytes> {
        self.tensor.bytes(self.byte_offset(), self.byte_len(), room)
    }

    /// The place of element `at` of the part, for messages.
    pub fn index(&self, at: usize) -> Vec<u64> {
        self.index_of(at / self.row_len(), at % self.row_len())
    }

    /// The place of an element of a row of the part, for messages.
    pub fn index_of(&self, row: usize, col: usize) -> Vec<u64> {
        let has_columns = self.tensor.shape().len() > 1 + usize::from(self.stacked.is_some());
        let col = has_columns.then_some(col);
        self.stacked
            .into_iter()
            .chain([row])
            .chain(col)
            .map(|n| n as u64)
            .collect()
    }
}

/// What may become of a matrix of plain floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Kept as it is.
    Never,
    /// Kept, in half the bytes where 32-bit numbers are all bf16 ones, as those of routers in GGUF files are.
    IfBf16,
    /// Packed if it is row-wise ternary already.
    IfTernary,
    /// Made ternary by the rule of training.
    Force,
}

impl Packing {
    /// What the options say of the matrix in that place. Embedding and head stay as they are in any case.
    pub(crate) fn of(slot: MatrixSlot, options: &LoadOptions) -> Self {
        match slot {
            _ if !options.pack_experts => Packing::Never,
            _ if slot.is_attention() && options.ternarize_attention => Packing::Force,
            _ if slot.is_attention() || slot.is_expert() => Packing::IfTernary,
            MatrixSlot::Router(_) => Packing::IfBf16,
            _ => Packing::Never,
        }
    }

    /// The matrix is packed to two bits, or is if it can be.
    pub(crate) fn is_ternary(self) -> bool {
        matches!(self, Packing::IfTernary | Packing::Force)
    }
}

/// Loads a matrix of plain floats.
///
/// Errors: [`Defect::NotFinite`], and those of reading.
pub(crate) fn matrix(
    part: &Part<'_>,
    cols: usize,
    packing: Packing,
    room: &Room<'_>,
) -> Result<Matrix> {
    let dtype = dense_type(&part.tensor)?;
    let rows = part.rows;
    if packing.is_ternary() {
        let mut buffer = Vec::new();
        part.read(&mut buffer)?;
        let packed = match (packing, dtype) {
            (Packing::Force, _) => Some(ternarize(part, &buffer, cols, dtype, room)?),
            (_, DenseType::Bf16) => pack::<Bf16>(part, &buffer, cols, room)?,
            (_, DenseType::F16) => pack::<F16>(part, &buffer, cols, room)?,
            (_, DenseType::F32) => pack::<F32>(part, &buffer, cols, room)?,
        };
        if let Some(matrix) = packed {
            return Ok(matrix);
        }
    }
    let data = part.keep(room)?;
    check_finite(part, &data, dtype)?;
    if packing == Packing::IfBf16
        && dtype == DenseType::F32
        && let Some(data) = narrow(&data, room)?
    {
        return Ok(Matrix::Dense {
            rows,
            cols,
            dtype: DenseType::Bf16,
            data,
        });
    }
    Ok(Matrix::Dense {
        rows,
        cols,
        dtype,
        data,
    })
}

/// 32-bit numbers as bf16, where the lower half of every one is zero.
fn narrow(floats: &[u8], room: &Room<'_>) -> Result<Option<Bytes>> {
    let floats = floats.as_chunks::<4>().0;
    if floats.iter().any(|float| float[..2] != [0, 0]) {
        return Ok(None);
    }
    let mut halves = room.arena.take(2 * floats.len())?;
    for (half, float) in halves.as_chunks_mut::<2>().0.iter_mut().zip(floats) {
        half.copy_from_slice(&float[2..]);
    }
    Ok(Some(halves.freeze()))
}

/// Loads a vector as `f32`.
///
/// Errors: [`Defect::Dtype`], [`Defect::NotFinite`], and those of reading.
pub(crate) fn vector(tensor: &TensorRef<'_>) -> Result<Vec<f32>> {
    let dtype = dense_type(tensor)?;
    let mut bytes = vec![0; tensor.byte_len() as usize];
    tensor.read_at(&mut bytes, 0)?;
    let mut values = vec![0.0; bytes.len() / dtype.size()];
    widen(&bytes, dtype, &mut values);
    check_values(tensor, &values, |at| vec![at as u64])?;
    Ok(values)
}

/// Loads a part of a tensor of numbers (one or several a row) as `f32`.
///
/// Errors: [`Defect::Dtype`], [`Defect::NotFinite`], and those of reading.
pub(crate) fn floats(part: &Part<'_>) -> Result<Vec<f32>> {
    let dtype = dense_type(&part.tensor)?;
    let mut bytes = Vec::new();
    part.read(&mut bytes)?;
    let mut values = vec![0.0; bytes.len() / dtype.size()];
    widen(&bytes, dtype, &mut values);
    check_values(&part.tensor, &values, |at| part.index(at))?;
    Ok(values)
}

/// The values, exact.
pub(crate) fn widen(bytes: &[u8], dtype: DenseType, out: &mut [f32]) {
    match dtype {
        DenseType::Bf16 => convert(bytes, out, |b| bf16_to_f32(u16::from_le_bytes(b))),
        DenseType::F16 => convert(bytes, out, |b| f16_to_f32(u16::from_le_bytes(b))),
        DenseType::F32 => convert(bytes, out, f32::from_le_bytes),
    }
}

fn convert<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    let (elements, rest) = bytes.as_chunks::<N>();
    assert!(
        rest.is_empty() && elements.len() == out.len(),
        "as many elements as values"
    );
    for (out, &element) in out.iter_mut().zip(elements) {
        *out = value(element);
    }
}

/// Every value is a number; `index` turns a position into the place for the message.
pub(crate) fn check_values(
    tensor: &TensorRef<'_>,
    values: &[f32],
    index: impl Fn(usize) -> Vec<u64>,
) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(not_finite(tensor, values[at], index(at))),
        None => Ok(()),
    }
}

pub(crate) fn not_finite(tensor: &TensorRef<'_>, value: f32, index: Vec<u64>) -> Error {
    let value = match value {
        v if v.is_nan() => "NaN",
        v if v > 0.0 => "inf",
        _ => "-inf",
    };
    tensor.error(Defect::NotFinite {
        tensor: tensor.name().to_owned(),
        value,
        index,
    })
}

/// The bits of a float format, so that one test of exact equality serves all three.
trait Float {
    /// An element's bytes.
    type Bytes: Copy;
    const SIZE: usize;
    /// Magnitudes from here on are infinity and NaN.
    const INFINITY: u32;
    fn elements(bytes: &[u8]) -> &[Self::Bytes];
    /// The bits without the sign.
    fn magnitude(element: Self::Bytes) -> u32;
    fn is_negative(element: Self::Bytes) -> bool;
    fn to_f32(magnitude: u32) -> f32;

    fn largest(bytes: &[u8]) -> u32 {
        Self::elements(bytes)
            .iter()
            .fold(0, |largest, &element| Self::magnitude(element).max(largest))
    }
}

struct Bf16;
struct F16;
struct F32;

macro_rules! sixteen_bits {
    ($type:ty, $infinity:expr, $widen:path) => {
        impl Float for $type {
            type Bytes = [u8; 2];
            const SIZE: usize = 2;
            const INFINITY: u32 = $infinity;
            fn elements(bytes: &[u8]) -> &[[u8; 2]] {
                bytes.as_chunks().0
            }
            #[inline(always)]
            fn magnitude(element: [u8; 2]) -> u32 {
                u32::from(u16::from_le_bytes(element) & 0x7fff)
            }
            #[inline(always)]
            fn is_negative(element: [u8; 2]) -> bool {
                u16::from_le_bytes(element) & 0x8000 != 0
            }
            fn to_f32(magnitude: u32) -> f32 {
                $widen(magnitude as u16)
            }
        }
    };
}
sixteen_bits!(Bf16, 0x7f80, bf16_to_f32);
sixteen_bits!(F16, 0x7c00, f16_to_f32);

impl Float for F32 {
    type Bytes = [u8; 4];
    const SIZE: usize = 4;
    const INFINITY: u32 = 0x7f80_0000;
    fn elements(bytes: &[u8]) -> &[[u8; 4]] {
        bytes.as_chunks().0
    }
    #[inline(always)]
    fn magnitude(element: [u8; 4]) -> u32 {
        u32::from_le_bytes(element) & 0x7fff_ffff
    }
    #[inline(always)]
    fn is_negative(element: [u8; 4]) -> bool {
        u32::from_le_bytes(element) & 0x8000_0000 != 0
    }
    fn to_f32(magnitude: u32) -> f32 {
        f32::from_bits(magnitude)
    }
}

/// Packs a matrix of which every row holds only -s, 0 and s for one s, compared in the source's own bits; `None` for any other.
fn pack<F: Float>(
    part: &Part<'_>,
    bytes: &[u8],
    cols: usize,
    room: &Room<'_>,
) -> Result<Option<Matrix>> {
    let mut ternary = TernaryRows::new(part.rows, cols, room)?;
    let mut codes = vec![0u8; cols];
    for (r, row) in bytes.chunks_exact(cols * F::SIZE).enumerate() {
        let largest = F::largest(row);
        // Infinities and NaN have the largest magnitudes: left to the caller's search, which names the place.
        if largest >= F::INFINITY {
            return Ok(None);
        }
        let mut fits = true;
        for (code, &element) in codes.iter_mut().zip(F::elements(row)) {
            let magnitude = F::magnitude(element);
            fits &= magnitude == 0 || magnitude == largest;
            *code = if magnitude == 0 {
                1
            } else {
                2 - 2 * u8::from(F::is_negative(element))
            };
        }
        if !fits {
            return Ok(None);
        }
        ternary.set(r, &codes, F::to_f32(largest));
    }
    Ok(Some(ternary.finish()))
}

/// Makes a matrix ternary by the rule it was trained with: per row `t = 0.7 mean|w|`, weights above it in size become
/// `sign(w) s` with s their mean size, rounded to bfloat16; the others become 0.
fn ternarize(
    part: &Part<'_>,
    bytes: &[u8],
    cols: usize,
    dtype: DenseType,
    room: &Room<'_>,
) -> Result<Matrix> {
    let mut ternary = TernaryRows::new(part.rows, cols, room)?;
    let (mut values, mut codes) = (vec![0f32; cols], vec![0u8; cols]);
    for (r, row) in bytes.chunks_exact(cols * dtype.size()).enumerate() {
        widen(row, dtype, &mut values);
        check_values(&part.tensor, &values, |c| part.index(r * cols + c))?;
        let scale = ternarize_row(&values, &mut codes);
        ternary.set(r, &codes, scale);
    }
    Ok(ternary.finish())
}

/// The codes of one row; returns its scale. Sums are kept in f64, so that their order cannot move the threshold.
fn ternarize_row(values: &[f32], codes: &mut [u8]) -> f32 {
    let sum: f64 = values.iter().map(|w| f64::from(w.abs())).sum();
    let threshold = 0.7 * (sum / values.len() as f64) as f32;
    let (mut kept, mut count) = (0f64, 0u32);
    for (&w, code) in values.iter().zip(codes) {
        let keep = w.abs() > threshold;
        *code = if !keep { 1 } else { 2 - 2 * u8::from(w < 0.0) };
        if keep {
            kept += f64::from(w.abs());
            count += 1;
        }
    }
    if count == 0 {
        0.0
    } else {
        bf16_to_f32(f32_to_bf16((kept / f64::from(count)) as f32))
    }
}

/// The first element that is no number, by the bits of the exponent.
fn check_finite(part: &Part<'_>, data: &[u8], dtype: DenseType) -> Result<()> {
    // A cheap maximum of magnitudes over each stretch; only a stretch that fails is searched.
    let stretch = 1 << 16;
    let mut values = vec![0f32; stretch / dtype.size()];
    for (s, bytes) in data.chunks(stretch).enumerate() {
        let fine = match dtype {
            DenseType::Bf16 => all_finite::<Bf16>(bytes),
            DenseType::F16 => all_finite::<F16>(bytes),
            DenseType::F32 => all_finite::<F32>(bytes),
        };
        if !fine {
            let values = &mut values[..bytes.len() / dtype.size()];
            widen(bytes, dtype, values);
            check_values(&part.tensor, values, |at| {
                part.index(s * stretch / dtype.size() + at)
            })?;
        }
    }
    Ok(())
}

fn all_finite<F: Float>(bytes: &[u8]) -> bool {
    F::largest(bytes) < F::INFINITY
}

/// Bytes of a ternary matrix with its scales.
pub(crate) fn ternary_len(rows: usize, cols: usize) -> u64 {
    (layout::ternary_bytes(rows, cols) + 4 * layout::padded_rows(rows)) as u64
}

/// A ternary matrix being filled, row by row.
pub(crate) struct TernaryRows {
    rows: usize,
    cols: usize,
    tiles: BytesMut,
    scales: BytesMut,
}

impl TernaryRows {
    pub fn new(rows: usize, cols: usize, room: &Room<'_>) -> Result<Self> {
        let tiles = room.arena.take(layout::ternary_bytes(rows, cols))?;
        let scales = room.arena.take(4 * layout::padded_rows(rows))?;
        Ok(TernaryRows {
            rows,
            cols,
            tiles,
            scales,
        })
    }

    /// Codes 0, 1 and 2 for -scale, 0 and scale.
    pub fn set(&mut self, row: usize, codes: &[u8], scale: f32) {
        layout::pack_ternary_row(&mut self.tiles, self.cols, row, codes);
        self.scales.as_f32_mut()[row] = scale;
    }

    /// As [`TernaryRows::set`], from words of 16 codes, first in the lowest bits.
    pub fn set_words(&mut self, row: usize, words: impl ExactSizeIterator<Item = u32>, scale: f32) {
        layout::pack_ternary_words(&mut self.tiles, self.cols, row, words);
        self.scales.as_f32_mut()[row] = scale;
    }

    /// Lets the caller write all tiles at once.
    pub fn fill_tiles(&mut self, fill: impl FnOnce(&mut [u8])) {
        fill(&mut self.tiles);
    }

    /// Sets every row's scale.
    pub fn fill_scales(&mut self, mut scale: impl FnMut(usize) -> f32) {
        for (row, place) in self.scales.as_f32_mut()[..self.rows].iter_mut().enumerate() {
            *place = scale(row);
        }
    }

    pub fn finish(self) -> Matrix {
        let TernaryRows {
            rows,
            cols,
            tiles,
            scales,
        } = self;
        Matrix::Ternary {
            rows,
            cols,
            tiles: tiles.freeze(),
            scales: scales.freeze(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_training_keeps_what_is_above_the_threshold() {
        let mut codes = [9; 4];
        // mean 1, threshold 0.7: 0.7 itself is dropped, as only what is above stays.
        let scale = ternarize_row(&[0.5, -2.0, 0.7, -0.8], &mut codes);
        assert_eq!(codes, [1, 0, 1, 0]);
        assert_eq!(scale, bf16_to_f32(f32_to_bf16(1.4)));
        assert_eq!(ternarize_row(&[0.0; 4], &mut codes), 0.0);
        assert_eq!(codes, [1; 4]);
        let ternary = [0.5, 0.0, -0.5, 0.5];
        assert_eq!(ternarize_row(&ternary, &mut codes), 0.5);
        assert_eq!(codes, [2, 1, 0, 2]);
    }
}
