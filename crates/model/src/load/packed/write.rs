//! Writing a packed file.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use serde_json::{Map, Value};

use super::forms::{FORMAT, LAYOUT_VERSION, ending};
use crate::bytes::{ALIGNMENT, Arena, Bytes};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::load::options::LoadOptions;
use crate::load::parallel::in_parallel;
use crate::load::progress::{Meter, Phase, Progress};
use crate::load::source::{Room, Source};
use crate::slots::{MatrixSlot, NormSlot};
use crate::weights::{DenseType, Matrix};

/// Matrices are converted and written in groups of about this many bytes.
const BATCH: u64 = 64 << 20;

/// The configuration as a config.json of the Hugging Face form, in a fixed order.
pub(crate) fn config_json(config: &Config) -> String {
    config.to_json().to_string()
}

/// Writes `source` as a packed file, from its first byte on, with at most a batch of matrices in memory at a time.
///
/// Errors: those of the source, [`Error::Write`], [`Error::Cancelled`]. What has been written by then is of no use.
pub(crate) fn write(
    source: &dyn Source,
    identity: &str,
    path: &Path,
    file: &mut File,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<()> {
    let failed = |error| Error::write(path, error);
    let config = source.config();
    let slots: Vec<MatrixSlot> = MatrixSlot::all(config).collect();
    let meter = Meter::new(
        progress,
        Phase::Convert,
        slots.iter().map(|&slot| source.source_bytes(slot)).sum(),
    );
    let metadata = serde_json::json!({
        "format": FORMAT,
        "layout": LAYOUT_VERSION,
        "source": identity,
        "source_format": source.format().name(),
        "config": config_json(config),
    });
    let mut entries = Entries::new(metadata, &slots, config);
    file.seek(SeekFrom::Start(entries.data_start()))
        .map_err(failed)?;
    let threads = options.thread_count();
    let head = if config.tied {
        MatrixSlot::Embedding
    } else {
        MatrixSlot::Head
    };
    let mut rest = &slots[..];
    while !rest.is_empty() {
        let batch = batch_len(source, rest);
        let (now, later) = rest.split_at(batch);
        rest = later;
        let arena = Arena::default();
        // Read, not mapped: pages of a mapped source would count as this process's memory.
        let room = Room {
            arena: &arena,
            map: false,
        };
        let matrices = in_parallel(threads, now, |&slot| {
            let matrix = source.matrix(slot, &room)?;
            meter.add(source.source_bytes(slot))?;
            Ok(matrix)
        })?;
        for (slot, matrix) in now.iter().zip(matrices) {
            let (dtype, shape) = match &matrix {
                Matrix::Dense { dtype, .. } => {
                    (dense_name(*dtype), vec![matrix.rows(), matrix.cols()])
                }
                _ => ("U8", vec![matrix.byte_len() as usize]),
            };
            let parts: Vec<&Bytes> = matrix.parts().collect();
            entries
                .append(
                    file,
                    &format!("{slot}.{}", ending(&matrix)),
                    dtype,
                    &shape,
                    &parts,
                )
                .map_err(failed)?;
            if *slot == head
                && let Some(screen) = source.screen(&matrix, threads, &room)?
            {
                let parts: Vec<&Bytes> = screen.rows.parts().chain([&screen.error_norms]).collect();
                let len = parts.iter().map(|part| part.len()).sum();
                entries
                    .append(file, &format!("{slot}.screen"), "U8", &[len], &parts)
                    .map_err(failed)?;
            }
        }
    }
    let arena = Arena::default();
    for slot in NormSlot::all(config) {
        let norm = source.norm(slot)?;
        let bytes: Vec<u8> = norm.iter().flat_map(|value| value.to_le_bytes()).collect();
        entries
            .append(
                file,
                &format!("{slot}.weight"),
                "F32",
                &[norm.len()],
                &[&arena.copy(&bytes)?],
            )
            .map_err(failed)?;
    }
    for source_file in source.files() {
        source_file.check_unchanged()?;
    }
    entries.finish(file).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    meter.finish();
    Ok(())
}

fn dense_name(dtype: DenseType) -> &'static str {
    match dtype {
        DenseType::Bf16 => "BF16",
        DenseType::F16 => "F16",
        DenseType::F32 => "F32",
    }
}

/// How many of the next matrices are converted together.
fn batch_len(source: &dyn Source, slots: &[MatrixSlot]) -> usize {
    let mut bytes = 0;
    slots
        .iter()
        .take_while(|&&slot| {
            let fits = bytes == 0 || bytes + source.packed_bytes(slot) <= BATCH;
            bytes += source.packed_bytes(slot);
            fits
        })
        .count()
}

/// The header while the data is being written: its length is fixed beforehand, its content at the end.
struct Entries {
    header: Map<String, Value>,
    reserved: usize,
    offset: u64,
    paddings: usize,
}

impl Entries {
    fn new(metadata: Value, slots: &[MatrixSlot], config: &Config) -> Self {
        // Longest ending, dtype, shape, two offsets of up to 15 digits, and a padding entry.
        let entry = |name: String| name.len() + 240;
        let matrices: usize = slots.iter().map(|slot| entry(slot.to_string())).sum();
        let norms: usize = NormSlot::all(config)
            .map(|slot| entry(slot.to_string()))
            .sum();
        let length = metadata.to_string().len() + matrices + norms + 1000;
        let mut header = Map::new();
        header.insert("__metadata__".to_owned(), metadata);
        // The data begins on a page.
        Entries {
            header,
            reserved: (8 + length).next_multiple_of(4096) - 8,
            offset: 0,
            paddings: 0,
        }
    }

    fn data_start(&self) -> u64 {
        8 + self.reserved as u64
    }

    fn append(
        &mut self,
        file: &mut File,
        name: &str,
        dtype: &str,
        shape: &[usize],
        parts: &[&Bytes],
    ) -> std::io::Result<()> {
        let begin = self.offset;
        for part in parts {
            file.write_all(part)?;
            self.offset += part.len() as u64;
        }
        self.add(name.to_owned(), dtype, shape, begin);
        let padding = self.offset.next_multiple_of(ALIGNMENT as u64) - self.offset;
        if padding > 0 {
            let begin = self.offset;
            file.write_all(&[0; ALIGNMENT][..padding as usize])?;
            self.offset += padding;
            self.add(
                format!("padding.{}", self.paddings),
                "U8",
                &[padding as usize],
                begin,
            );
            self.paddings += 1;
        }
        Ok(())
    }

    fn add(&mut self, name: String, dtype: &str, shape: &[usize], begin: u64) {
        let entry = serde_json::json!({ "dtype": dtype, "shape": shape, "data_offsets": [begin, self.offset] });
        self.header.insert(name, entry);
    }

    /// Writes the header into the room that was left for it.
    fn finish(self, file: &mut File) -> std::io::Result<()> {
        let (reserved, header) = (self.reserved, Value::Object(self.header).to_string());
        assert!(header.len() <= reserved, "the header's bound holds");
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&(reserved as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        file.write_all(&vec![b' '; reserved - header.len()])
    }
}
