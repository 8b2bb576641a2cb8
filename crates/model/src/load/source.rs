//! An opened checkpoint, whatever its layout.

use super::file::SourceFile;
use super::screen;
use crate::bytes::Arena;
use crate::config::Config;
use crate::error::Result;
use crate::slots::{MatrixSlot, NormSlot};
use crate::weights::{Format, HeadScreen, Matrix};

/// Where a matrix may live.
pub(crate) struct Room<'a> {
    pub arena: &'a Arena,
    /// Parts that need no change may stay views of the file.
    pub map: bool,
}

/// An opened checkpoint of some layout, its headers checked against the configuration.
pub(crate) trait Source: Sync {
    fn format(&self) -> Format;
    /// Another text where the same files become other matrices than in an earlier version, so that its packed copies are not used.
    fn recipe(&self) -> &'static str {
        self.format().name()
    }
    /// It is this program's own packed form, which needs no packed copy.
    fn is_packed(&self) -> bool {
        false
    }
    fn config(&self) -> &Config;
    /// What was noticed beside the configuration's own warnings.
    fn warnings(&self) -> &[String];
    /// Every file that the model is made from.
    fn files(&self) -> Vec<&SourceFile>;
    fn norm(&self, slot: NormSlot) -> Result<Vec<f32>>;
    /// Bytes that [`Source::matrix`] will read, for progress.
    fn source_bytes(&self, slot: MatrixSlot) -> u64;
    /// Bytes the matrix will take in memory, so far as can be told beforehand.
    fn packed_bytes(&self, slot: MatrixSlot) -> u64;
    /// The matrix, its content checked. Called from several threads, in about the order of [`MatrixSlot::all`].
    fn matrix(&self, slot: MatrixSlot, room: &Room<'_>) -> Result<Matrix>;
    /// The screen of a dense head.
    fn screen(&self, head: &Matrix, threads: usize, room: &Room<'_>) -> Result<Option<HeadScreen>> {
        screen::screen(head, threads, room.arena)
    }
}

/// Bytes the packed form of a checkpoint will take, about.
pub(crate) fn packed_size(source: &dyn Source) -> u64 {
    let config = source.config();
    let matrices: u64 = MatrixSlot::all(config)
        .map(|slot| source.packed_bytes(slot))
        .sum();
    // The header and the norms are small.
    let head = if config.tied {
        MatrixSlot::Embedding
    } else {
        MatrixSlot::Head
    };
    // A head of 16 bits and more gets a screen of eight.
    let (rows, cols) = head.shape(config);
    let eight_bits = (rows * cols) as u64;
    let dense = source.packed_bytes(head) >= 2 * eight_bits;
    let screen = if dense {
        eight_bits + 8 * rows as u64
    } else {
        0
    };
    matrices + screen + (16 << 20)
}
