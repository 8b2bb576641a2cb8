//! Ternary matrices in the clothes of wider codes. A converter that knows no ternary type writes rows of -s, 0 and s as, say, Q8_0
//! codes of -127, 0 and 127; they are found by their values, whatever the codes, and packed to two bits. Nothing is rounded.

use super::blocks::{self, GgmlType};
use super::header::TensorInfo;
use super::matrix::Blocks;
use crate::error::Result;
use crate::load::dense::TernaryRows;
use crate::load::file::SourceFile;
use crate::load::source::Room;
use crate::weights::Matrix;

/// What a type has for 0, where its weights are `scale * (code - zero)` and every such product is exact in 32 bits; `None` for other
/// types.
fn zero_code(ty: GgmlType) -> Option<u8> {
    match ty {
        GgmlType::Q8_0 => Some(128),
        GgmlType::Q4_0 => Some(8),
        GgmlType::Q6K => Some(32),
        _ => None,
    }
}

/// Whether the first row of a tensor, whose rows are `cols` wide, is ternary. The others of most tensors are what that one is.
pub(super) fn begins_ternary(file: &SourceFile, info: &TensorInfo, cols: usize) -> Result<bool> {
    let Some(zero) = zero_code(info.ty) else {
        return Ok(false);
    };
    let mut row = vec![0; cols / info.ty.block() * info.ty.block_bytes()];
    file.read_at(&mut row, info.bytes.start as u64)?;
    Ok(row_scale(info.ty, zero, &row).is_some())
}

impl Blocks<'_> {
    /// The matrix at two bits, if every row holds only -s, 0 and s for an s of its own. A matrix of another kind costs the look at
    /// its first rows and no memory.
    pub(super) fn signs(
        &self,
        bytes: &[u8],
        row_bytes: usize,
        room: &Room<'_>,
    ) -> Result<Option<Matrix>> {
        let ty = self.info.ty;
        let Some(zero) = zero_code(ty) else {
            return Ok(None);
        };
        let scales: Option<Vec<f32>> = bytes
            .chunks_exact(row_bytes)
            .map(|row| row_scale(ty, zero, row))
            .collect();
        let Some(scales) = scales else {
            return Ok(None);
        };
        let mut out = TernaryRows::new(self.rows, self.cols, room)?;
        let mut codes = vec![0; self.cols];
        for (r, (row, scale)) in bytes.chunks_exact(row_bytes).zip(scales).enumerate() {
            let blocks = row.chunks_exact(ty.block_bytes());
            for (block, codes) in blocks.zip(codes.chunks_exact_mut(ty.block())) {
                each_group(ty, block, codes, |group_scale, codes| {
                    let sign = i32::from(group_scale > 0.0) - i32::from(group_scale < 0.0);
                    for code in codes {
                        let side = (i32::from(*code) - i32::from(zero)).signum();
                        *code = (1 + sign * side) as u8;
                    }
                });
            }
            out.set(r, &codes, scale);
        }
        Ok(Some(out.finish()))
    }
}

/// The s of a row that holds only -s, 0 and s; `None` for any other row, one whose scales are no numbers included.
fn row_scale(ty: GgmlType, zero: u8, row: &[u8]) -> Option<f32> {
    let (mut scale, mut fits) = (0.0, true);
    let mut codes = [0; 256];
    for block in row.chunks_exact(ty.block_bytes()) {
        each_group(ty, block, &mut codes[..ty.block()], |group_scale, codes| {
            let sizes = || codes.iter().map(|code| code.abs_diff(zero));
            let largest = sizes().max().unwrap_or(0);
            fits &= group_scale.is_finite() && sizes().all(|size| size == 0 || size == largest);
            let value = group_scale.abs() * f32::from(largest);
            if value != 0.0 {
                fits &= scale == 0.0 || scale == value;
                scale = value;
            }
        });
        if !fits {
            return None;
        }
    }
    Some(scale)
}

/// Decodes a block and hands out each group of codes with its scale.
fn each_group(ty: GgmlType, block: &[u8], codes: &mut [u8], mut take: impl FnMut(f32, &mut [u8])) {
    let layout = blocks::affine_layout(ty).expect("types with a code for 0 are affine");
    let scales = blocks::affine_block(ty, block, codes);
    for (g, codes) in codes.chunks_exact_mut(layout.group).enumerate() {
        let scale = match layout.scales {
            kernels::layout::ScaleFormat::TwoLevel => scales.upper.0 * f32::from(scales.lower[g].0),
            _ => scales.pair.0,
        };
        take(scale, codes);
    }
}
