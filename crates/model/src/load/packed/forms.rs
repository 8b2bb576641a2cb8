//! What a packed file says of itself, and how its tensors are named.

use kernels::layout::{GroupedLayout, ScaleFormat};

use crate::weights::{DenseType, Matrix};

/// `format` in the metadata.
pub(super) const FORMAT: &str = "maple-packed";
/// `layout` in the metadata; to be raised whenever the bytes of any form change.
pub(crate) const LAYOUT_VERSION: &str = "1";

/// The forms a matrix can have, as the endings of tensor names say them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Ternary,
    Grouped(GroupedLayout),
    Dense(DenseType),
}

/// All affine forms, by the endings of their names.
pub(super) fn grouped_forms() -> impl Iterator<Item = (String, GroupedLayout)> {
    let scales = [ScaleFormat::Bf16, ScaleFormat::F32, ScaleFormat::TwoLevel];
    let groups = [16, 32, 64, 128];
    let all = [4, 8].into_iter().flat_map(move |bits| {
        groups.map(|group| {
            scales.map(|scales| GroupedLayout {
                bits,
                group,
                scales,
            })
        })
    });
    all.flatten()
        .filter(|layout| layout.is_supported())
        .map(|layout| (grouped_ending(layout), layout))
}

fn grouped_ending(layout: GroupedLayout) -> String {
    let scales = match layout.scales {
        ScaleFormat::Bf16 => "bf16",
        ScaleFormat::F32 => "f32",
        ScaleFormat::TwoLevel => "two",
    };
    format!("q{}g{}.{scales}", layout.bits, layout.group)
}

pub(super) fn ending(matrix: &Matrix) -> String {
    match matrix {
        Matrix::Ternary { .. } => "ternary".to_owned(),
        Matrix::Dense { .. } => "weight".to_owned(),
        Matrix::Grouped { layout, .. } => grouped_ending(*layout),
        Matrix::Int8 { .. } => unreachable!("8-bit rows are kept as a head's screen only"),
    }
}
