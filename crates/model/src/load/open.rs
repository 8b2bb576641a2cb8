//! From a path to an opened checkpoint.

use std::path::Path;

use super::file::SourceFile;
use super::folder::Folder;
use super::options::LoadOptions;
use super::packed::{self, PackedSource};
use super::source::Source;
use super::tensors::TensorSet;
use super::{gguf, hf, mlx2bit};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::json;

/// Opens whatever is at `path`: finds its layout and checks its headers.
pub(crate) fn open_source(path: &Path, options: &LoadOptions) -> Result<Box<dyn Source>> {
    if gguf::is_gguf(path) {
        return Ok(Box::new(gguf::GgufSource::open(path, options)?));
    }
    // What is neither a file nor a folder is refused by its kind.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
        let set = TensorSet::open_file(SourceFile::open(path)?)?;
        return Ok(Box::new(PackedSource::open(set, None)?));
    }
    let folder = Folder::open(path)?;
    let Some((config_file, config_text)) = folder.read_text("config.json")? else {
        return Err(Error::ModelNotFound {
            path: path.join("config.json"),
            needed: "a model's folder needs this file; download it, or name another folder"
                .to_owned(),
        });
    };
    let config_path = config_file.path().to_owned();
    let object = json::parse_object(&config_path, &config_text, "config.json")?;
    let mut config = Config::from_object(&config_path, &object)?;
    let mut texts = vec![config_file];
    if let Some((file, text)) = folder.read_text("generation_config.json")? {
        config.add_generation_config(file.path(), &text)?;
        texts.push(file);
    }
    let set = TensorSet::open(&folder)?;
    if packed::is_packed(&set.metadata) {
        return Ok(Box::new(PackedSource::open_beside(set, config)?));
    }
    if mlx2bit::is_mlx(&object, &set) {
        return Ok(Box::new(mlx2bit::MlxSource::open(
            config,
            &config_path,
            &object,
            set,
            texts,
            options,
        )?));
    }
    if let Some(found) = object
        .get("quantization_config")
        .filter(|value| !value.is_null())
    {
        return Err(Error::Unsupported {
            file: config_path,
            field: "quantization_config".to_owned(),
            expected: "null, or the packed codes of MLX,".to_owned(),
            found: json::describe(found),
        });
    }
    Ok(Box::new(hf::HfSource::open(config, set, texts, options)?))
}
