//! One file of a checkpoint: read by position or mapped, and compared at the end with what it was at the start.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use memmap2::Mmap;

use crate::bytes::Bytes;
use crate::error::{Defect, Error, Result};

/// What tells whether a file is still the one it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Length in bytes.
    pub len: u64,
    /// Time of the last change in nanoseconds since 1970; 0 where the system does not say.
    pub modified: u128,
    /// The file's number on its disk; 0 where the system has none.
    pub inode: u64,
}

impl Identity {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        let modified = metadata
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Identity {
            len: metadata.len(),
            modified: modified.map_or(0, |time| time.as_nanos()),
            inode,
        }
    }
}

/// Errors: [`Defect::NotAFile`] with what it is.
pub(crate) fn expect_regular(path: &Path, metadata: &fs::Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    #[cfg(unix)]
    let special = {
        use std::os::unix::fs::FileTypeExt;
        let kind = metadata.file_type();
        [(kind.is_fifo(), "a pipe"), (kind.is_socket(), "a socket")]
            .into_iter()
            .find_map(|(is, name)| is.then_some(name))
    };
    #[cfg(not(unix))]
    let special = None;
    let found = if metadata.is_dir() {
        "a folder"
    } else {
        special.unwrap_or("a device")
    };
    Err(Error::defect(path, Defect::NotAFile { found }))
}

/// An open file of a checkpoint.
pub(crate) struct SourceFile {
    path: PathBuf,
    file: File,
    identity: Identity,
    map: Mutex<Option<Bytes>>,
}

impl SourceFile {
    /// Opens a regular file; anything else (a folder, a pipe) is refused before it is opened.
    ///
    /// Errors: [`Error::Read`], [`Defect::NotAFile`].
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::read(path, source);
        expect_regular(path, &fs::metadata(path).map_err(failed)?)?;
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        expect_regular(path, &metadata)?;
        let identity = Identity::of(&metadata);
        Ok(SourceFile {
            path: path.to_owned(),
            file,
            identity,
            map: Mutex::new(None),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> u64 {
        self.identity.len
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// Errors: [`Error::Read`]; [`Defect::Changed`] where the file has become shorter.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        #[cfg(unix)]
        let done = std::os::unix::fs::FileExt::read_exact_at(&self.file, buffer, offset);
        #[cfg(windows)]
        let done = read_exact_at(&self.file, buffer, offset);
        done.map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::defect(&self.path, Defect::Changed),
            _ => Error::read(&self.path, source),
        })
    }

    /// The whole file as one read-only mapping, made at the first call.
    ///
    /// Errors: [`Error::Read`].
    pub(crate) fn map(&self) -> Result<Bytes> {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = &*map {
            return Ok(bytes.clone());
        }
        // SAFETY: a mapping is undefined behaviour when another process cuts or rewrites the file; that is excluded by contract:
        // checkpoints are replaced by renaming, `check_unchanged` catches a change during loading, and a caller who cannot
        // promise it reads without mapping.
        let mapped =
            unsafe { Mmap::map(&self.file) }.map_err(|source| Error::read(&self.path, source))?;
        Ok(map.insert(Bytes::mapped(mapped)).clone())
    }

    /// The file, and the one now at its path, are still what was opened.
    ///
    /// Errors: [`Defect::Changed`], [`Error::Read`].
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        let failed = |source| Error::read(&self.path, source);
        let open = Identity::of(&self.file.metadata().map_err(failed)?);
        let at_path = match fs::metadata(&self.path) {
            Ok(metadata) => Some(Identity::of(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if open != self.identity || at_path.as_ref() != Some(&self.identity) {
            return Err(Error::defect(&self.path, Defect::Changed));
        }
        Ok(())
    }
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !buffer.is_empty() {
        match file.seek_read(buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
