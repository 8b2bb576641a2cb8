//! Packed copies of foreign checkpoints in a folder of the caller's: made once, mapped at every later start.
//!
//! A copy is named after the checkpoint's place and its files' identity, so a changed checkpoint has another name. It is written to
//! a private file and renamed when it is whole and on the disk, so what has the final name is whole. One process converts while
//! others wait: they share a lock that the system frees when its owner dies. Without locks (some network disks), several convert
//! and the last rename wins.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::file::SourceFile;
use super::options::LoadOptions;
use super::packed::{self, LAYOUT_VERSION, Origin, PackedSource};
use super::progress::{Phase, Progress};
use super::source::{Source, packed_size};
use super::tensors::TensorSet;
use crate::error::{Error, Result};

/// How long a waiting process sleeps between looks at the lock.
const WAIT: Duration = Duration::from_millis(50);

/// What the cache did.
pub(crate) enum Outcome {
    /// The packed copy, ready to be mapped, and where it is.
    Ready(Box<PackedSource>, PathBuf),
    /// No copy could be kept; the reason, for a warning.
    Unavailable(String),
}

/// Finds the packed copy of `source`, or makes it.
///
/// Errors: those of the source, and [`Error::Cancelled`]. A cache that cannot be written is no error.
pub(crate) fn packed_copy(
    source: &dyn Source,
    checkpoint: &Path,
    folder: &Path,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<Outcome> {
    let place = Place::new(source, checkpoint, folder, options);
    if let Some(ready) = place.open(source) {
        return Ok(ready);
    }
    if let Err(error) = fs::create_dir_all(folder) {
        return Ok(unavailable(&Error::write(folder, error)));
    }
    let lock = match place.lock(source, progress)? {
        Locked::Copy(ready) => return Ok(ready),
        Locked::Mine(lock) => Some(lock),
        Locked::Unsupported => None,
        Locked::Failed(error) => return Ok(unavailable(&error)),
    };
    if lock.is_some() {
        remove_abandoned(folder, &place);
    }
    let needed = packed_size(source);
    if let Ok(free) = fs4::available_space(folder)
        && free < needed
    {
        return Ok(unavailable(&Error::DiskFull {
            folder: folder.to_owned(),
            needed,
            free,
        }));
    }
    let temporary = place.temporary();
    let made = write_copy(source, &place, &temporary, options, progress);
    if made.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    match made {
        Ok(()) => {}
        Err(error @ Error::Write { .. }) => return Ok(unavailable(&error)),
        Err(error) => return Err(error),
    }
    place.remove_stale();
    match place.try_open(source) {
        Ok(packed) => Ok(Outcome::Ready(Box::new(packed), place.file)),
        Err(error) => Ok(unavailable(&error)),
    }
}

fn unavailable(error: &Error) -> Outcome {
    Outcome::Unavailable(format!(
        "no packed copy is kept, so every start converts anew: {error}"
    ))
}

fn write_copy(
    source: &dyn Source,
    place: &Place,
    temporary: &Path,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<()> {
    let failed = |error| Error::write(temporary, error);
    let mut file = File::create_new(temporary).map_err(failed)?;
    packed::write(
        source,
        &place.identity,
        temporary,
        &mut file,
        options,
        progress,
    )?;
    drop(file);
    fs::rename(temporary, &place.file).map_err(|error| Error::write(&place.file, error))?;
    sync_folder(temporary);
    Ok(())
}

/// Makes a rename last through a power cut, where the system can.
pub(crate) fn sync_folder(file: &Path) {
    #[cfg(unix)]
    if let Some(folder) = file.parent().and_then(|folder| File::open(folder).ok()) {
        let _ = folder.sync_all();
    }
    #[cfg(not(unix))]
    let _ = file;
}

/// The names of one checkpoint's copy.
struct Place {
    /// The copy.
    file: PathBuf,
    /// All files of copies of this checkpoint begin with it.
    prefix: String,
    folder: PathBuf,
    /// What the copy is made from, in full; also kept inside it.
    identity: String,
}

impl Place {
    fn new(source: &dyn Source, checkpoint: &Path, folder: &Path, options: &LoadOptions) -> Self {
        let real = fs::canonicalize(checkpoint).unwrap_or_else(|_| checkpoint.to_owned());
        let place = format!(
            "{} {} {}",
            real.display(),
            options.pack_experts,
            options.ternarize_attention
        );
        let identity = identity(source, options);
        let prefix = format!("{}-{:016x}", label(&real), fnv(&place));
        let name = format!(
            "{prefix}-{:016x}.safetensors",
            fnv(&format!("{LAYOUT_VERSION} {identity}"))
        );
        Place {
            file: folder.join(name),
            prefix,
            folder: folder.to_owned(),
            identity,
        }
    }

    /// The copy, if it is there and fits.
    fn open(&self, source: &dyn Source) -> Option<Outcome> {
        let packed = self.try_open(source).ok()?;
        Some(Outcome::Ready(Box::new(packed), self.file.clone()))
    }

    fn try_open(&self, source: &dyn Source) -> Result<PackedSource> {
        let set = TensorSet::open_file(SourceFile::open(&self.file)?)?;
        PackedSource::open(
            set,
            Some(Origin {
                identity: &self.identity,
                config: source.config(),
            }),
        )
    }

    /// Waits until the lock is ours or another process has made the copy.
    fn lock(&self, source: &dyn Source, progress: &dyn Progress) -> Result<Locked> {
        let path = self.folder.join(format!("{}.lock", self.prefix));
        let file = match File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
        {
            Ok(file) => file,
            Err(error) => return Ok(Locked::Failed(Error::write(&path, error))),
        };
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(_)) => return Ok(Locked::Unsupported),
            }
            if progress.is_cancelled() {
                return Err(Error::Cancelled);
            }
            progress.report(Phase::Convert, 0, 0);
            thread::sleep(WAIT);
        }
        // Its last owner may have made the copy while this process waited.
        Ok(match self.open(source) {
            Some(ready) => Locked::Copy(ready),
            None => Locked::Mine(file),
        })
    }

    /// A name that no other process and no other load of this one uses.
    fn temporary(&self) -> PathBuf {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let time = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |t| t.as_nanos());
        let unique = format!(
            "{}.{time:x}.{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        self.folder.join(format!("{}.{unique}.tmp", self.prefix))
    }

    /// Removes copies of what the checkpoint was before.
    fn remove_stale(&self) {
        for (path, name) in files(&self.folder) {
            let copy = name
                .strip_prefix(&self.prefix)
                .is_some_and(|rest| rest.starts_with('-'));
            if copy && name.ends_with(".safetensors") && path != self.file {
                let _ = fs::remove_file(path);
            }
        }
    }
}

enum Locked {
    /// Ours until the file is closed.
    Mine(File),
    /// Not needed any more.
    Copy(Outcome),
    /// The disk has no locks.
    Unsupported,
    /// The lock's file cannot be made.
    Failed(Error),
}

/// Removes what conversions that did not end have left: ours, whose lock we hold, and those of other checkpoints whose lock
/// nobody holds.
fn remove_abandoned(folder: &Path, ours: &Place) {
    for (path, name) in files(folder) {
        let Some(prefix) = name
            .strip_suffix(".tmp")
            .and_then(|name| name.split('.').next())
        else {
            continue;
        };
        // Held until the file is gone, so that no conversion begins meanwhile.
        let lock = File::options()
            .write(true)
            .open(folder.join(format!("{prefix}.lock")));
        if prefix == ours.prefix || lock.as_ref().is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_file(path);
        }
    }
}

fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
        .collect()
}

/// Everything that the packed form depends on: options, and each file's name, length, time of change and number on its disk.
pub(crate) fn identity(source: &dyn Source, options: &LoadOptions) -> String {
    let mut text = format!(
        "{} pack={} ternarize_attention={}",
        source.recipe(),
        options.pack_experts,
        options.ternarize_attention
    );
    for file in source.files() {
        let id = file.identity();
        let name = file
            .path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        text.push_str(&format!(
            "; {name:?} {} {} {}",
            id.len, id.modified, id.inode
        ));
    }
    text
}

/// A readable part of the copy's name: the folder's name, or that of the hub's repository.
fn label(checkpoint: &Path) -> String {
    let snapshot = checkpoint
        .parent()
        .filter(|parent| parent.file_name().is_some_and(|name| name == "snapshots"));
    let named = snapshot.and_then(Path::parent).unwrap_or(checkpoint);
    let name = named.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
            c
        } else {
            '_'
        }
    };
    name.chars().take(60).map(plain).collect()
}

/// FNV-1a: names only, so collisions cost a conversion and nothing else.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_plain_and_name_the_repository() {
        let snapshot = Path::new("/hub/models--deepgrove--maple-preview/snapshots/0123abc");
        assert_eq!(label(snapshot), "models--deepgrove--maple-preview");
        assert_eq!(label(Path::new("/x/my model:\u{e4}")), "my_model__");
        assert_eq!(label(Path::new("/x/maple.gguf")), "maple");
    }
}
