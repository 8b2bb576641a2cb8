//! The Hugging Face layout: plain bf16, f16 or f32 tensors, one for each matrix.

use super::dense::{self, FLOAT_NAMES, FLOATS, Packing, Part};
use super::file::SourceFile;
use super::options::LoadOptions;
use super::source::{Room, Source};
use super::tensors::{Account, TensorSet};
use crate::config::Config;
use crate::error::Result;
use crate::slots::{MatrixSlot, NormSlot};
use crate::weights::{Format, Matrix};

/// A checkpoint in this layout, with every tensor's presence, dtype and shape checked.
pub(crate) struct HfSource {
    config: Config,
    set: TensorSet,
    texts: Vec<SourceFile>,
    options: LoadOptions,
}

impl HfSource {
    /// Errors: everything that the headers alone can show.
    pub(crate) fn open(
        config: Config,
        set: TensorSet,
        texts: Vec<SourceFile>,
        options: &LoadOptions,
    ) -> Result<Self> {
        let mut config = config;
        let mut account = Account::new(&set);
        for slot in MatrixSlot::all(&config) {
            let hint = match slot {
                MatrixSlot::Head => {
                    " (`tie_word_embeddings` says that the head is a tensor of its own)"
                }
                _ => "",
            };
            let tensor = account.take_or(&format!("{slot}.weight"), hint)?;
            tensor.expect_dtype(&FLOATS, FLOAT_NAMES)?;
            let (rows, cols) = slot.shape(&config);
            tensor.expect_shape(&[rows as u64, cols as u64])?;
        }
        take_norms(&config, &mut account)?;
        let ignored_head = config.tied && account.skip("lm_head.weight");
        account.finish()?;
        if ignored_head {
            config.warnings.push(EXTRA_HEAD.to_owned());
        }
        Ok(HfSource {
            config,
            set,
            texts,
            options: options.clone(),
        })
    }
}

/// Said when a tied checkpoint brings a head of its own.
pub(crate) const EXTRA_HEAD: &str = "config.json ties the head to the embedding, so the tensor `lm_head.weight` that is there too is not used";

/// Takes every norm's tensor, of the right dtype and shape.
pub(crate) fn take_norms(config: &Config, account: &mut Account<'_>) -> Result<()> {
    for slot in NormSlot::all(config) {
        let tensor = account.take(&format!("{slot}.weight"))?;
        tensor.expect_dtype(&FLOATS, FLOAT_NAMES)?;
        tensor.expect_shape(&[slot.len(config) as u64])?;
    }
    Ok(())
}

/// Reads a norm whose tensor has been taken.
pub(crate) fn read_norm(set: &TensorSet, slot: NormSlot) -> Result<Vec<f32>> {
    dense::vector(
        &set.get(&format!("{slot}.weight"))
            .expect("taken when the source was opened"),
    )
}

impl Source for HfSource {
    fn format(&self) -> Format {
        Format::HuggingFace
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn warnings(&self) -> &[String] {
        &self.set.warnings
    }

    fn files(&self) -> Vec<&SourceFile> {
        self.texts.iter().chain(self.set.files()).collect()
    }

    fn norm(&self, slot: NormSlot) -> Result<Vec<f32>> {
        read_norm(&self.set, slot)
    }

    fn source_bytes(&self, slot: MatrixSlot) -> u64 {
        self.set
            .get(&format!("{slot}.weight"))
            .map_or(0, |tensor| tensor.byte_len())
    }

    fn packed_bytes(&self, slot: MatrixSlot) -> u64 {
        let (rows, cols) = slot.shape(&self.config);
        // Most checkpoints' matrices are what they may be.
        if Packing::of(slot, &self.options).is_ternary() {
            dense::ternary_len(rows, cols)
        } else {
            self.source_bytes(slot)
        }
    }

    fn matrix(&self, slot: MatrixSlot, room: &Room<'_>) -> Result<Matrix> {
        let tensor = self
            .set
            .get(&format!("{slot}.weight"))
            .expect("taken when the source was opened");
        let (rows, cols) = slot.shape(&self.config);
        dense::matrix(
            &Part {
                tensor,
                stacked: None,
                rows,
            },
            cols,
            Packing::of(slot, &self.options),
            room,
        )
    }
}
