//! A checkpoint's folder: files are named plainly, and no link leads out of it (the hub cache's own blobs excepted).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::file::SourceFile;
use crate::error::{Defect, Error, Result};

/// Longest text file (config.json, an index) that is read, in bytes.
const MAX_TEXT: u64 = 256 << 20;

/// A folder whose links have been resolved once.
pub(crate) struct Folder {
    /// As the caller named it; used in messages.
    path: PathBuf,
    /// Without links.
    real: PathBuf,
}

impl Folder {
    /// Errors: [`Error::ModelNotFound`], [`Error::Read`].
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let real = fs::canonicalize(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::ModelNotFound {
                path: path.to_owned(),
                needed: "there is no such file or folder; expected a folder with config.json and safetensors files".into(),
            },
            _ => Error::read(path, source),
        })?;
        Ok(Folder {
            path: path.to_owned(),
            real,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the file of that name, once it is sure that it leads nowhere else; `None` where there is none.
    ///
    /// Errors: [`Defect::ShardName`], [`Defect::LeadsOut`], [`Error::Read`].
    pub(crate) fn find(&self, name: &str) -> Result<Option<PathBuf>> {
        let shown = self.path.join("."); // for names that must not become paths
        check_name(name).map_err(|reason| {
            Error::defect(
                &shown,
                Defect::ShardName {
                    name: name.to_owned(),
                    reason,
                },
            )
        })?;
        let path = self.path.join(name);
        let real = match fs::canonicalize(&path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::read(&path, error)),
        };
        if real.parent() == Some(&self.real) || self.is_hub_blob(&real) {
            Ok(Some(path))
        } else {
            Err(Error::defect(&path, Defect::LeadsOut { target: real }))
        }
    }

    /// In the hub's cache `snapshots/REVISION/NAME` is a link to `blobs/HASH` of the same repository.
    fn is_hub_blob(&self, target: &Path) -> bool {
        let snapshots = self
            .real
            .parent()
            .filter(|parent| parent.file_name().is_some_and(|name| name == "snapshots"));
        let repository = snapshots.and_then(Path::parent);
        repository.is_some_and(|repository| target.parent() == Some(&repository.join("blobs")))
    }

    /// Opens the file of that name; `None` where there is none. Errors: as [`Folder::find`] and [`SourceFile::open`].
    pub(crate) fn open_file(&self, name: &str) -> Result<Option<SourceFile>> {
        self.find(name)?
            .map(|path| SourceFile::open(&path))
            .transpose()
    }

    /// Opens and reads a text file; `None` where there is none. Errors: as [`Folder::open_file`], and [`Defect::Format`] for an
    /// absurd length.
    pub(crate) fn read_text(&self, name: &str) -> Result<Option<(SourceFile, Vec<u8>)>> {
        let Some(file) = self.open_file(name)? else {
            return Ok(None);
        };
        if file.len() > MAX_TEXT {
            let expected = format!("at most {MAX_TEXT} bytes");
            let defect = Defect::Format {
                what: "the file's length".into(),
                expected,
                found: file.len().to_string(),
            };
            return Err(Error::defect(file.path(), defect));
        }
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(&mut bytes, 0)?;
        Ok(Some((file, bytes)))
    }

    /// Names of the `*.safetensors` entries, sorted.
    pub(crate) fn safetensors_names(&self) -> Result<Vec<String>> {
        let failed = |source| Error::read(&self.path, source);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            if let Ok(name) = entry.map_err(failed)?.file_name().into_string()
                && name.ends_with(".safetensors")
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// A name that is one component of a path on every system, and no special one.
fn check_name(name: &str) -> std::result::Result<(), &'static str> {
    if name.is_empty() || name == "." || name == ".." {
        return Err("it names no file");
    }
    if name.len() > 255 {
        return Err("it is longer than 255 bytes");
    }
    if name.contains(['/', '\\', ':']) {
        return Err("it must be a plain file name in the model's folder, without / \\ or :");
    }
    if name.contains(|c: char| c.is_control()) {
        return Err("it holds control characters");
    }
    Ok(())
}
