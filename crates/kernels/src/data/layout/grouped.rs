//! Affine codes with a scale and a bias for each row and group of columns: `w = code * scale + bias`.
//!
//! One stream a strip: for each group, the 64 scales, the 64 biases, then the codes in tiles of 256 bytes. A tile of
//! 4-bit codes holds 64 rows by 8 columns: nibble `f` of byte `4 * row + i` is column `4 f + i`. A tile of 8-bit codes
//! holds 64 rows by 4 columns: byte `4 * row + i` is column `i`. The last group is padded with code 0.
//!
//! Two-level scales, as in the K types of GGUF, are a signed byte a group times an `f32` for each [`SUPER`] columns; the
//! latter (64 of the scales, then 64 of the biases) lie ahead of the strip's groups.

use super::strip::{STRIP, strips};
use crate::data::half::{bf16_to_f32, f32_to_bf16};

/// How scales and biases are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleFormat {
    /// As bfloat16, for sources that have them so.
    Bf16,
    /// As `f32`.
    F32,
    /// As signed bytes, multiplied by an `f32` of the row's [`SUPER`] columns around the group.
    TwoLevel,
}

/// Columns that share the upper level of two-level scales.
pub const SUPER: usize = 256;
/// Bytes of the upper level of a strip's [`SUPER`] columns: 64 scales, 64 biases.
const SUPER_BYTES: usize = 8 * STRIP;

/// Bits, group size and scale format of an affine matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupedLayout {
    /// Bits of a code: 4 or 8. (2-bit sources are stored as 4-bit codes.)
    pub bits: usize,
    /// Columns that share a scale: 32, 64 or 128; also 16 with 8-bit codes.
    pub group: usize,
    /// How scales and biases are stored.
    pub scales: ScaleFormat,
}

impl GroupedLayout {
    /// Whether there are kernels for it.
    pub const fn is_supported(self) -> bool {
        matches!((self.bits, self.group), (4 | 8, 32 | 64 | 128) | (8, 16))
    }

    /// Groups of a row of `cols` columns.
    pub const fn groups(self, cols: usize) -> usize {
        cols.div_ceil(self.group)
    }

    /// Columns of a tile.
    pub const fn tile_cols(self) -> usize {
        32 / self.bits
    }

    /// Bytes of the 64 scales (and again of the 64 biases) of one group.
    pub const fn scale_bytes(self) -> usize {
        match self.scales {
            ScaleFormat::Bf16 => 2 * STRIP,
            ScaleFormat::F32 => 4 * STRIP,
            ScaleFormat::TwoLevel => STRIP,
        }
    }

    /// Bytes ahead of a strip's groups: the upper level of two-level scales.
    pub const fn head_bytes(self, cols: usize) -> usize {
        match self.scales {
            ScaleFormat::TwoLevel => cols.div_ceil(SUPER) * SUPER_BYTES,
            ScaleFormat::Bf16 | ScaleFormat::F32 => 0,
        }
    }

    /// Where, in the head, the upper level of group `g` begins; 0 where there is none.
    #[inline(always)]
    pub(crate) const fn head_at(self, g: usize) -> usize {
        match self.scales {
            ScaleFormat::TwoLevel => g * self.group / SUPER * SUPER_BYTES,
            ScaleFormat::Bf16 | ScaleFormat::F32 => 0,
        }
    }

    /// Bytes of one group of a strip.
    pub const fn group_bytes(self) -> usize {
        2 * self.scale_bytes() + self.group * STRIP * self.bits / 8
    }

    /// Bytes of one strip of `cols` columns.
    pub const fn strip_bytes(self, cols: usize) -> usize {
        self.head_bytes(cols) + self.groups(cols) * self.group_bytes()
    }

    /// Bytes of a matrix.
    pub const fn bytes(self, rows: usize, cols: usize) -> usize {
        strips(rows) * self.strip_bytes(cols)
    }

    /// Scale `at` (0 to 63) of a run of scales or biases; `upper` are the 64 factors of two-level ones.
    #[inline(always)]
    pub(crate) fn scale(self, run: &[u8], upper: &[u8], at: usize) -> f32 {
        match self.scales {
            ScaleFormat::Bf16 => bf16_to_f32(u16::from_le_bytes([run[2 * at], run[2 * at + 1]])),
            ScaleFormat::F32 => float(run, at),
            ScaleFormat::TwoLevel => float(upper, at) * f32::from(run[at] as i8),
        }
    }

    /// The 64 upper scales and 64 upper biases of group `g`; empty where there are none.
    #[inline(always)]
    pub(crate) fn uppers(self, head: &[u8], g: usize) -> (&[u8], &[u8]) {
        match self.scales {
            ScaleFormat::TwoLevel => head[self.head_at(g)..][..SUPER_BYTES].split_at(4 * STRIP),
            ScaleFormat::Bf16 | ScaleFormat::F32 => (&[], &[]),
        }
    }

    fn set_scale(self, run: &mut [u8], at: usize, value: f32) {
        match self.scales {
            ScaleFormat::Bf16 => {
                run[2 * at..][..2].copy_from_slice(&f32_to_bf16(value).to_le_bytes())
            }
            ScaleFormat::F32 => run[4 * at..][..4].copy_from_slice(&value.to_le_bytes()),
            ScaleFormat::TwoLevel => unreachable!("written by `pack_two_level_row`"),
        }
    }

    /// Byte (within a group's codes) and shift of the code of row `j` of the strip, column `c` of the group.
    #[inline(always)]
    pub(crate) fn place(self, j: usize, c: usize) -> (usize, u32) {
        let tile = c / self.tile_cols();
        let (f, i) = (c % self.tile_cols() / 4, c % 4);
        (tile * 256 + 4 * j + i, 4 * f as u32)
    }

    /// The largest code.
    pub(crate) fn max_code(self) -> u8 {
        if self.bits == 4 { 15 } else { 255 }
    }
}

/// Writes one row into `data`, the bytes of the whole matrix (or of a run of whole strips, with `row` counted from
/// their first): `cols` codes, and a scale and a bias for each group. With [`ScaleFormat::Bf16`] scales are rounded to
/// bfloat16, so give values that are. Panics when lengths do not fit.
pub fn pack_grouped_row(
    data: &mut [u8],
    layout: GroupedLayout,
    cols: usize,
    row: usize,
    codes: &[u8],
    scales: &[f32],
    biases: &[f32],
) {
    assert!(layout.is_supported(), "{layout:?} has no kernels");
    assert_eq!(codes.len(), cols, "codes of a row of {cols} columns");
    assert_eq!(
        (scales.len(), biases.len()),
        (layout.groups(cols), layout.groups(cols)),
        "scales and biases of a row"
    );
    let mut groups = RowOfGroups::new(data, layout, cols, row);
    for (g, (&scale, &bias)) in scales.iter().zip(biases).enumerate() {
        let (run_of_scales, run_of_biases) = groups.runs(g);
        layout.set_scale(run_of_scales, row % STRIP, scale);
        layout.set_scale(run_of_biases, row % STRIP, bias);
    }
    groups.set_codes(codes);
}

/// As [`pack_grouped_row`] for [`ScaleFormat::TwoLevel`]: `uppers` holds an upper scale and bias for each [`SUPER`]
/// columns, `lowers` the signed bytes of each group; `w = code * (scale * byte) + bias * byte`, each with its own byte.
pub fn pack_two_level_row(
    data: &mut [u8],
    layout: GroupedLayout,
    cols: usize,
    row: usize,
    codes: &[u8],
    uppers: &[(f32, f32)],
    lowers: &[(i8, i8)],
) {
    assert!(
        layout.is_supported() && layout.scales == ScaleFormat::TwoLevel,
        "{layout:?} has no kernels, or its scales have one level"
    );
    assert_eq!(codes.len(), cols, "codes of a row of {cols} columns");
    assert_eq!(
        (uppers.len(), lowers.len()),
        (cols.div_ceil(SUPER), layout.groups(cols)),
        "scales of a row"
    );
    let j = row % STRIP;
    let mut groups = RowOfGroups::new(data, layout, cols, row);
    for (head, (scale, bias)) in groups.head.chunks_exact_mut(SUPER_BYTES).zip(uppers) {
        head[4 * j..][..4].copy_from_slice(&scale.to_le_bytes());
        head[4 * (STRIP + j)..][..4].copy_from_slice(&bias.to_le_bytes());
    }
    for (g, &(scale, bias)) in lowers.iter().enumerate() {
        let (run_of_scales, run_of_biases) = groups.runs(g);
        run_of_scales[j] = scale as u8;
        run_of_biases[j] = bias as u8;
    }
    groups.set_codes(codes);
}

/// `f32` number `at` of a run.
#[inline(always)]
fn float(run: &[u8], at: usize) -> f32 {
    f32::from_le_bytes([
        run[4 * at],
        run[4 * at + 1],
        run[4 * at + 2],
        run[4 * at + 3],
    ])
}

/// The strip that holds a row, to write that row into.
struct RowOfGroups<'a> {
    layout: GroupedLayout,
    row: usize,
    head: &'a mut [u8],
    groups: &'a mut [u8],
}

impl<'a> RowOfGroups<'a> {
    fn new(data: &'a mut [u8], layout: GroupedLayout, cols: usize, row: usize) -> Self {
        let bytes = layout.strip_bytes(cols);
        let strip = &mut data[row / STRIP * bytes..][..bytes];
        let (head, groups) = strip.split_at_mut(layout.head_bytes(cols));
        RowOfGroups {
            layout,
            row: row % STRIP,
            head,
            groups,
        }
    }

    /// The runs of scales and biases of group `g`.
    fn runs(&mut self, g: usize) -> (&mut [u8], &mut [u8]) {
        let size = self.layout.scale_bytes();
        self.groups[g * self.layout.group_bytes()..][..2 * size].split_at_mut(size)
    }

    fn set_codes(&mut self, codes: &[u8]) {
        let layout = self.layout;
        debug_assert!(
            codes.iter().all(|&code| code <= layout.max_code()),
            "codes have {} bits",
            layout.bits
        );
        let groups = self.groups.chunks_exact_mut(layout.group_bytes());
        for (group, codes) in groups.zip(codes.chunks(layout.group)) {
            let tiles = &mut group[2 * layout.scale_bytes()..];
            for c in 0..layout.group {
                let (byte, shift) = layout.place(self.row, c);
                let code = codes.get(c).copied().unwrap_or(0);
                tiles[byte] = tiles[byte] & !(layout.max_code() << shift) | code << shift;
            }
        }
    }
}

/// Reads one row back as `f32` values `code * scale + bias`; see [`pack_grouped_row`].
pub fn unpack_grouped_row(
    data: &[u8],
    layout: GroupedLayout,
    cols: usize,
    row: usize,
    out: &mut [f32],
) {
    assert_eq!(out.len(), cols, "values of a row of {cols} columns");
    let strip = &data[row / STRIP * layout.strip_bytes(cols)..][..layout.strip_bytes(cols)];
    let (head, groups) = strip.split_at(layout.head_bytes(cols));
    let j = row % STRIP;
    for (g, out) in out.chunks_mut(layout.group).enumerate() {
        let group = &groups[g * layout.group_bytes()..][..layout.group_bytes()];
        let (scales, rest) = group.split_at(layout.scale_bytes());
        let (biases, tiles) = rest.split_at(layout.scale_bytes());
        let (upper_scales, upper_biases) = layout.uppers(head, g);
        let scale = layout.scale(scales, upper_scales, j);
        let bias = layout.scale(biases, upper_biases, j);
        for (c, out) in out.iter_mut().enumerate() {
            let (byte, shift) = layout.place(j, c);
            *out = f32::from(tiles[byte] >> shift & layout.max_code()) * scale + bias;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        for bits in [4, 8] {
            for group in [32, 64, 128] {
                for scales in [ScaleFormat::Bf16, ScaleFormat::F32] {
                    let layout = GroupedLayout {
                        bits,
                        group,
                        scales,
                    };
                    let (rows, cols) = (67, 300);
                    // Garbage from earlier use must not shine through.
                    let mut data = vec![0xa5; layout.bytes(rows, cols)];
                    let groups = layout.groups(cols);
                    let value = |r: usize, g: usize| (r as f32 - 30.0) * 0.5 + g as f32 * 0.25;
                    let code = |r: usize, c: usize| (r * 13 + c * 7) as u8 & layout.max_code();
                    for r in 0..rows {
                        let codes: Vec<u8> = (0..cols).map(|c| code(r, c)).collect();
                        let scales: Vec<f32> = (0..groups).map(|g| value(r, g)).collect();
                        let biases: Vec<f32> = (0..groups).map(|g| -value(g, r)).collect();
                        pack_grouped_row(&mut data, layout, cols, r, &codes, &scales, &biases);
                    }
                    for r in 0..rows {
                        let mut out = vec![0.0; cols];
                        unpack_grouped_row(&data, layout, cols, r, &mut out);
                        for (c, &w) in out.iter().enumerate() {
                            let g = c / group;
                            assert_eq!(
                                w,
                                f32::from(code(r, c)) * value(r, g) - value(g, r),
                                "{layout:?} {r} {c}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn two_level_rows_come_back() {
        for (bits, group) in [(4, 32), (8, 16), (8, 128)] {
            let layout = GroupedLayout {
                bits,
                group,
                scales: ScaleFormat::TwoLevel,
            };
            let (rows, cols) = (67, 300);
            let mut data = vec![0xa5; layout.bytes(rows, cols)];
            let upper = |r: usize, s: usize| (r as f32 * 0.5 - s as f32, -0.25 * r as f32);
            let lower = |r: usize, g: usize| ((r + g) as i8, (g * 9 + r) as u8 as i8);
            let code = |r: usize, c: usize| (r * 13 + c * 7) as u8 & layout.max_code();
            for r in 0..rows {
                let codes: Vec<u8> = (0..cols).map(|c| code(r, c)).collect();
                let uppers: Vec<_> = (0..2).map(|s| upper(r, s)).collect();
                let lowers: Vec<_> = (0..layout.groups(cols)).map(|g| lower(r, g)).collect();
                pack_two_level_row(&mut data, layout, cols, r, &codes, &uppers, &lowers);
            }
            for r in 0..rows {
                let mut out = vec![0.0; cols];
                unpack_grouped_row(&data, layout, cols, r, &mut out);
                for (c, &w) in out.iter().enumerate() {
                    let ((scale, bias), (low_scale, low_bias)) =
                        (upper(r, c / SUPER), lower(r, c / group));
                    let (scale, bias) = (scale * f32::from(low_scale), bias * f32::from(low_bias));
                    assert_eq!(
                        w,
                        f32::from(code(r, c)) * scale + bias,
                        "{layout:?} {r} {c}"
                    );
                }
            }
        }
    }
}
