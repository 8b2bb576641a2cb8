//! The loader reads files, so each input becomes one.

use std::path::PathBuf;
use std::sync::LazyLock;

use model::load::{LoadOptions, Silent, load};

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = base.join(format!("maple-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for inputs can be made");
    folder
});

/// Loads the bytes as a file of that name. An error is as good as weights; a panic is not.
pub fn load_as(name: &str, bytes: &[u8]) {
    let path = FOLDER.join(name);
    std::fs::write(&path, bytes).expect("an input can be written");
    let options = LoadOptions {
        threads: 1,
        ..Default::default()
    };
    let _ = load(&path, &options, &Silent);
}
