//! The loader reads files, so each input becomes one.
#![allow(dead_code, reason = "each target takes what it needs")]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use model::load::{LoadOptions, Silent, load};

/// Where inputs are written: in memory, where the system has such a folder.
pub static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = base.join(format!("maple-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for inputs can be made");
    folder
});

/// Makes the bytes a file of that name.
pub fn write(name: &str, bytes: &[u8]) {
    std::fs::write(FOLDER.join(name), bytes).expect("an input can be written");
}

/// Loads the bytes as a file of that name. An error is as good as weights; a panic is not.
pub fn load_as(name: &str, bytes: &[u8]) {
    write(name, bytes);
    load_path(&FOLDER.join(name));
}

/// Loads what is at the path.
pub fn load_path(path: &Path) {
    let options = LoadOptions {
        threads: 1,
        ..Default::default()
    };
    let _ = load(path, &options, &Silent);
}
