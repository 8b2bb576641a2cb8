//! A packed checkpoint as a folder of its own: for `pack`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::open::open_source;
use super::options::LoadOptions;
use super::progress::Progress;
use super::source::packed_size;
use super::{cache, packed};
use crate::error::{Error, Result};

/// Files that are not weights and go along with a model.
const COMPANIONS: [&str; 9] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "merges.txt",
];

/// Packs the checkpoint at `source` into the folder `destination`, which is made; it can then be loaded like any checkpoint, and
/// is mapped as it is. The weights appear last, under their final name only when they are whole.
///
/// Returns the packed file. Errors: as [`super::load`], [`Error::InvalidArgument`] for a destination that holds weights already,
/// [`Error::DiskFull`], [`Error::Write`].
pub fn pack(
    source: &Path,
    destination: &Path,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<PathBuf> {
    let opened = open_source(source, options)?;
    let file = destination.join("model.safetensors");
    if file.exists() || destination.join("model.safetensors.index.json").exists() {
        return Err(Error::InvalidArgument {
            argument: "destination",
            expected: "a new folder, or one without weights".to_owned(),
            found: format!("{}, which holds a checkpoint", destination.display()),
        });
    }
    fs::create_dir_all(destination).map_err(|error| Error::write(destination, error))?;
    let needed = packed_size(opened.as_ref());
    if let Ok(free) = fs4::available_space(destination)
        && free < needed
    {
        return Err(Error::DiskFull {
            folder: destination.to_owned(),
            needed,
            free,
        });
    }
    let temporary = destination.join(format!("model.{}.tmp", std::process::id()));
    let written = (|| {
        let mut out = File::create(&temporary).map_err(|error| Error::write(&temporary, error))?;
        let identity = cache::identity(opened.as_ref(), options);
        packed::write(
            opened.as_ref(),
            &identity,
            &temporary,
            &mut out,
            options,
            progress,
        )?;
        drop(out);
        copy_texts(source, destination, &packed::config_json(opened.config()))?;
        fs::rename(&temporary, &file).map_err(|error| Error::write(&file, error))
    })();
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    cache::sync_folder(&file);
    Ok(file)
}

fn copy_texts(source: &Path, destination: &Path, config: &str) -> Result<()> {
    let config_file = destination.join("config.json");
    fs::write(&config_file, config).map_err(|error| Error::write(&config_file, error))?;
    for name in COMPANIONS {
        let from = source.join(name);
        if from.is_file() {
            let to = destination.join(name);
            let text = fs::read(&from).map_err(|error| Error::read(&from, error))?;
            fs::write(&to, text).map_err(|error| Error::write(&to, error))?;
        }
    }
    Ok(())
}
