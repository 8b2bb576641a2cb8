//! Files that change while they are loaded: noticed, and nothing is kept of what was read.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use model::error::{Defect, Error};
use model::load::{LoadOptions, Phase, Progress, Silent, load, pack};

use crate::gguf::good;
use crate::maker::*;
use crate::mlx::{mlx_config, mlx_tensors};

/// Does something once, when the headers have been read and the weights have not.
struct Meanwhile<'a> {
    work: &'a (dyn Fn() + Sync),
    done: AtomicBool,
}

impl Progress for Meanwhile<'_> {
    fn report(&self, _: Phase, _: u64, _: u64) {
        if !self.done.swap(true, Ordering::Relaxed) {
            (self.work)();
        }
    }
}

/// A checkpoint of each layout: what is loaded, and the file with its weights.
fn checkpoints() -> Vec<(TempFolder, PathBuf, PathBuf)> {
    let hf = hf_folder(&config(), &hf_tensors(&parsed(&config())));
    let mlx = hf_folder(&mlx_config(), &mlx_tensors(&parsed(&mlx_config())));
    let packed = TempFolder::new();
    let destination = packed.path().join("packed");
    pack(mlx.path(), &destination, &LoadOptions::default(), &Silent).unwrap();
    let (gguf, file) = good().write();
    let folder = |folder: TempFolder, path: PathBuf| {
        let weights = path.join("model.safetensors");
        (folder, path, weights)
    };
    let (hf_path, mlx_path) = (hf.path().to_owned(), mlx.path().to_owned());
    vec![
        folder(hf, hf_path),
        folder(mlx, mlx_path),
        folder(packed, destination),
        (gguf, file.clone(), file),
    ]
}

fn replace(file: &Path) {
    let copy = file.with_extension("copy");
    fs::copy(file, &copy).unwrap();
    fs::rename(copy, file).unwrap();
}

fn grow(file: &Path) {
    let bytes = fs::read(file).unwrap();
    fs::write(file, [&bytes[..], b"more"].concat()).unwrap();
}

fn remove(file: &Path) {
    fs::remove_file(file).unwrap();
}

/// Not for files that are mapped, which must not be cut.
fn cut(file: &Path) {
    let length = fs::metadata(file).unwrap().len();
    let open = fs::File::options().write(true).open(file).unwrap();
    open.set_len(length / 2).unwrap();
}

#[test]
fn a_change_is_noticed_and_no_packed_copy_is_kept() {
    type Change = fn(&Path);
    let changes: [(&str, Change, bool); 5] = [
        ("replaced", replace, true),
        ("replaced, read", replace, false),
        ("grown", grow, false),
        ("removed", remove, true),
        ("cut", cut, false),
    ];
    for (what, change, map) in changes {
        for with_cache in [false, true] {
            for (_folder, path, weights) in checkpoints() {
                let cache = TempFolder::new();
                let options = LoadOptions {
                    map,
                    cache_folder: with_cache.then(|| cache.path().to_owned()),
                    ..Default::default()
                };
                let meanwhile = Meanwhile {
                    work: &|| change(&weights),
                    done: AtomicBool::new(false),
                };
                match load(&path, &options, &meanwhile) {
                    Err(Error::Checkpoint {
                        file,
                        defect: Defect::Changed,
                    }) => assert_eq!(file.file_name(), weights.file_name()),
                    Err(other) => panic!("{what}, {}: {other}", path.display()),
                    Ok(_) => panic!("{what}, {}: not noticed", path.display()),
                }
                let kept = fs::read_dir(cache.path()).unwrap();
                let kept: Vec<_> = kept
                    .map(|entry| entry.unwrap().path())
                    .filter(|path| path.extension().is_some_and(|ending| ending != "lock"))
                    .collect();
                assert!(kept.is_empty(), "{what}: {kept:?}");
            }
        }
    }
}
