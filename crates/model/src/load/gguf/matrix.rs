//! Matrices of quantised blocks, in the forms the kernels read: ternary rows to two bits, the rest as affine codes. Nothing is
//! rounded on the way.

use kernels::layout::{self, GroupedLayout, ScaleFormat};

use super::blocks;
use super::header::TensorInfo;
use crate::bytes::{Bytes, BytesMut};
use crate::error::{Defect, Error, Result};
use crate::load::dense::{Packing, TernaryRows};
use crate::load::file::SourceFile;
use crate::load::source::Room;
use crate::weights::Matrix;

/// A matrix of blocks in a file.
pub(super) struct Blocks<'a> {
    pub file: &'a SourceFile,
    pub info: &'a TensorInfo,
    /// Which of the stacked matrices, for messages.
    pub stacked: Option<usize>,
    /// First byte in the file.
    pub begin: u64,
    pub rows: usize,
    pub cols: usize,
}

/// A row that is no scale times -1, 0 and +1.
struct NotTernary;

impl Blocks<'_> {
    /// Errors: [`Defect::NotFinite`], and those of reading.
    pub fn load(&self, packing: Packing, room: &Room<'_>) -> Result<Matrix> {
        let row_bytes = self.cols / self.info.ty.block() * self.info.ty.block_bytes();
        let bytes = self.bytes(self.rows * row_bytes, room)?;
        if self.info.ty.is_ternary() {
            match self.ternary(&bytes, row_bytes, room)? {
                Ok(matrix) => return Ok(matrix),
                Err(NotTernary) => return self.scaled_codes(&bytes, row_bytes, room),
            }
        }
        if packing.is_ternary()
            && let Some(matrix) = self.signs(&bytes, row_bytes, room)?
        {
            return Ok(matrix);
        }
        self.affine(&bytes, row_bytes, room)
    }

    fn bytes(&self, len: usize, room: &Room<'_>) -> Result<Source> {
        if room.map {
            return Ok(Source::Mapped(
                self.file.map()?.slice(self.begin as usize, len),
            ));
        }
        let mut bytes = vec![0; len];
        self.file.read_at(&mut bytes, self.begin)?;
        Ok(Source::Read(bytes))
    }

    /// A block's scale must be a number. `at` counts blocks from the matrix' first.
    fn check(&self, scale: f32, row: usize, block: usize) -> Result<()> {
        if scale.is_finite() {
            return Ok(());
        }
        let value = match scale {
            v if v.is_nan() => "NaN",
            v if v > 0.0 => "inf",
            _ => "-inf",
        };
        let index = self
            .stacked
            .into_iter()
            .chain([row, block * self.info.ty.block()]);
        Err(Error::defect(
            self.file.path(),
            Defect::NotFinite {
                tensor: self.info.name.clone(),
                value,
                index: index.map(|n| n as u64).collect(),
            },
        ))
    }

    /// Rows whose blocks agree on one scale. A block without any +-1 agrees with every scale.
    fn ternary(
        &self,
        bytes: &[u8],
        row_bytes: usize,
        room: &Room<'_>,
    ) -> Result<std::result::Result<Matrix, NotTernary>> {
        let ty = self.info.ty;
        let mut out = TernaryRows::new(self.rows, self.cols, room)?;
        let mut words = vec![0u32; self.cols / 16];
        let words_per_block = ty.block() / 16;
        for (r, row) in bytes.chunks_exact(row_bytes).enumerate() {
            let mut scale = 0.0;
            let blocks = row.chunks_exact(ty.block_bytes());
            for (b, (block, words)) in blocks
                .zip(words.chunks_exact_mut(words_per_block))
                .enumerate()
            {
                let d = blocks::ternary_words(ty, block, words);
                self.check(d, r, b)?;
                if words.iter().any(|w| w & w >> 1 & FIRST_BITS != 0) {
                    return Ok(Err(NotTernary));
                }
                if d == 0.0 {
                    words.fill(ZEROS);
                } else if words.iter().any(|&w| w != ZEROS) {
                    if scale != 0.0 && scale != d {
                        return Ok(Err(NotTernary));
                    }
                    scale = d;
                }
            }
            out.set_words(r, words.iter().copied(), scale);
        }
        Ok(Ok(out.finish()))
    }

    /// Ternary blocks with scales of their own, or with codes of +2: `d * (code - 1)` as affine codes.
    fn scaled_codes(&self, bytes: &[u8], row_bytes: usize, room: &Room<'_>) -> Result<Matrix> {
        let ty = self.info.ty;
        // 256 columns are two groups of 128 with the same scale.
        let group = ty.block().min(128);
        let layout = GroupedLayout {
            bits: 4,
            group,
            scales: ScaleFormat::F32,
        };
        let groups = ty.block() / group;
        let mut data = room.arena.take(layout.bytes(self.rows, self.cols))?;
        let mut codes = vec![0; self.cols];
        let (mut scales, mut biases) = (Vec::new(), Vec::new());
        for (r, row) in bytes.chunks_exact(row_bytes).enumerate() {
            scales.clear();
            biases.clear();
            let blocks = row.chunks_exact(ty.block_bytes());
            for (b, (block, codes)) in blocks.zip(codes.chunks_exact_mut(ty.block())).enumerate() {
                let d = blocks::ternary_block(ty, block, codes);
                self.check(d, r, b)?;
                scales.extend(std::iter::repeat_n(d, groups));
                biases.extend(std::iter::repeat_n(-d, groups));
            }
            layout::pack_grouped_row(&mut data, layout, self.cols, r, &codes, &scales, &biases);
        }
        Ok(self.matrix(layout, data))
    }

    fn affine(&self, bytes: &[u8], row_bytes: usize, room: &Room<'_>) -> Result<Matrix> {
        let ty = self.info.ty;
        let layout = blocks::affine_layout(ty).expect("the other types are floats and ternary");
        let mut data = room.arena.take(layout.bytes(self.rows, self.cols))?;
        let groups = ty.block() / layout.group;
        let mut codes = vec![0; self.cols];
        let (mut uppers, mut lowers) = (Vec::new(), Vec::new());
        let (mut scales, mut biases) = (Vec::new(), Vec::new());
        for (r, row) in bytes.chunks_exact(row_bytes).enumerate() {
            uppers.clear();
            lowers.clear();
            scales.clear();
            biases.clear();
            let blocks = row.chunks_exact(ty.block_bytes());
            for (b, (block, codes)) in blocks.zip(codes.chunks_exact_mut(ty.block())).enumerate() {
                let of_block = blocks::affine_block(ty, block, codes);
                for scale in [of_block.pair, of_block.upper] {
                    self.check(scale.0, r, b)?;
                    self.check(scale.1, r, b)?;
                }
                uppers.push(of_block.upper);
                lowers.extend_from_slice(&of_block.lower[..groups]);
                scales.push(of_block.pair.0);
                biases.push(of_block.pair.1);
            }
            let cols = self.cols;
            if layout.scales == ScaleFormat::TwoLevel {
                layout::pack_two_level_row(&mut data, layout, cols, r, &codes, &uppers, &lowers);
            } else {
                layout::pack_grouped_row(&mut data, layout, cols, r, &codes, &scales, &biases);
            }
        }
        Ok(self.matrix(layout, data))
    }

    fn matrix(&self, layout: GroupedLayout, data: BytesMut) -> Matrix {
        Matrix::Grouped {
            rows: self.rows,
            cols: self.cols,
            layout,
            data: data.freeze(),
        }
    }
}

/// A matrix' bytes: of a mapping, or read.
enum Source {
    Mapped(Bytes),
    Read(Vec<u8>),
}

impl std::ops::Deref for Source {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Source::Mapped(bytes) => bytes,
            Source::Read(bytes) => bytes,
        }
    }
}

/// 16 codes of 1: zeros.
const ZEROS: u32 = 0x5555_5555;
/// The low bit of each of 16 codes.
const FIRST_BITS: u32 = 0x5555_5555;
