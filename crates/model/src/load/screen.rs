//! The screen of a dense head: its rows in eight bits.

use std::sync::{Mutex, PoisonError};

use kernels::layout;

use super::parallel::in_parallel;
use crate::bytes::Arena;
use crate::error::Result;
use crate::weights::{HeadScreen, Matrix};

/// Rounds a dense head to eight bits; `None` for a head that is small already.
pub(crate) fn screen(head: &Matrix, threads: usize, arena: &Arena) -> Result<Option<HeadScreen>> {
    let Matrix::Dense { rows, cols, .. } = *head else {
        return Ok(None);
    };
    let strip_bytes = layout::int8_strip_bytes(cols);
    let mut data = arena.take(layout::int8_bytes(rows, cols))?;
    let mut scales = arena.take(4 * layout::padded_rows(rows))?;
    let mut error_norms = arena.take(4 * layout::padded_rows(rows))?;
    let view = head.view();
    let strips: Vec<_> = data
        .chunks_mut(strip_bytes)
        .zip(scales.as_f32_mut().chunks_mut(layout::STRIP))
        .zip(error_norms.as_f32_mut().chunks_mut(layout::STRIP))
        .enumerate()
        .map(|(s, ((data, scales), errors))| (s, Mutex::new((data, scales, errors))))
        .collect();
    in_parallel(threads, &strips, |(s, parts)| {
        let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
        let (data, scales, errors) = &mut *parts;
        let mut weights = vec![0.0; cols];
        for j in 0..layout::STRIP.min(rows - s * layout::STRIP) {
            view.row_to_f32(s * layout::STRIP + j, &mut weights);
            let stats = layout::pack_int8_row(data, cols, j, &weights);
            (scales[j], errors[j]) = (stats.scale, stats.error_norm);
        }
        Ok(())
    })?;
    drop(strips);
    let rows = Matrix::Int8 {
        rows,
        cols,
        data: data.freeze(),
        scales: scales.freeze(),
    };
    Ok(Some(HeadScreen {
        rows,
        error_norms: error_norms.freeze(),
    }))
}
