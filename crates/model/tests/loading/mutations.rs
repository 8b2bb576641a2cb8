//! Files of every layout with random damage, the same at each run: all end in an answer, none in a panic or in a large
//! allocation. The fuzz targets beside this crate go on where this ends.

use std::fs;
use std::path::Path;

use model::load::{LoadOptions, Silent, load, pack};
use serde_json::{Map, Value, json};

use crate::allocations::largest;
use crate::gguf::{good, split};
use crate::maker::*;
use crate::mlx::{mlx_config, mlx_tensors};

/// Nothing a loader does needs more at once, beside the file itself.
const ALLOWANCE: usize = 4 << 20;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

/// One damage; most of them where lengths, names and offsets are.
fn damage(bytes: &mut Vec<u8>, header: usize, random: &mut Random) {
    let reach = if random.below(8) == 0 {
        bytes.len()
    } else {
        header
    };
    let at = random.below(reach.min(bytes.len()).max(1));
    let numbers = [0, 1, 7, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX];
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.below(256) as u8,
        2 => bytes[at] = b"0123456789\"{}[]:,-.e"[random.below(20)],
        3 => bytes.insert(at, b"0123456789\"{}[]:,-.e"[random.below(20)]),
        4 => drop(bytes.remove(at)),
        5 => bytes.truncate(at),
        6 => {
            let number = numbers[random.below(numbers.len())].to_le_bytes();
            let width = [4, 8][random.below(2)].min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
        _ => {
            let from = random.below(header);
            let len = random.below(64).min(header - from).min(bytes.len() - at);
            let piece = bytes[from..from + len].to_vec();
            bytes[at..at + len].copy_from_slice(&piece);
        }
    }
}

/// Loads `path` again and again with `bytes` damaged; the first bytes up to `header` most of all.
fn all_end_in_an_answer(path: &Path, file: &Path, bytes: &[u8], header: usize, rounds: u64) {
    let options = LoadOptions {
        threads: 1,
        ..Default::default()
    };
    let mut refused = 0;
    for round in 0..rounds {
        let mut random = Random(round);
        let mut damaged = bytes.to_vec();
        for _ in 0..=random.below(3) {
            if damaged.len() > 1 {
                let header = header.min(damaged.len());
                damage(&mut damaged, header, &mut random);
            }
        }
        // What is still mapped somewhere is not rewritten but replaced.
        let _ = fs::remove_file(file);
        fs::write(file, &damaged).unwrap();
        let (result, largest) = largest(|| load(path, &options, &Silent));
        assert!(
            largest <= bytes.len() + ALLOWANCE,
            "round {round} allocated {largest} bytes"
        );
        if let Err(error) = result {
            assert!(!error.to_string().is_empty());
            refused += 1;
        }
    }
    // Damage that is not noticed is in weights, where any number is as good as another.
    assert!(refused > rounds / 3, "{refused} of {rounds} refused");
}

fn safetensors_header(bytes: &[u8]) -> usize {
    8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize
}

/// A checkpoint in memory, its weights in one file.
fn folder(config: &Value, weights: &[u8]) -> TempFolder {
    let folder = TempFolder::in_memory();
    folder.write("config.json", config.to_string());
    folder.write("model.safetensors", weights);
    folder
}

#[test]
fn gguf_files() {
    let bytes = good().bytes();
    let header = bytes.len() - good().tensors.iter().map(|t| t.data.len()).sum::<usize>();
    let folder = TempFolder::in_memory();
    let path = folder.path().join("model.gguf");
    all_end_in_an_answer(&path, &path, &bytes, header, 2000);
}

#[test]
fn split_gguf_files() {
    let folder = TempFolder::in_memory();
    let parts = split(good(), 9).map(|part| part.bytes());
    let files =
        ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"].map(|name| folder.path().join(name));
    for damaged in [0, 1] {
        for (file, bytes) in files.iter().zip(&parts) {
            fs::write(file, bytes).unwrap();
        }
        all_end_in_an_answer(&files[0], &files[damaged], &parts[damaged], 1500, 500);
    }
}

#[test]
fn plain_and_mlx_checkpoints() {
    for (config, tensors) in [
        (config(), hf_tensors(&parsed(&config()))),
        (mlx_config(), mlx_tensors(&parsed(&mlx_config()))),
    ] {
        let bytes = safetensors(&tensors);
        let folder = folder(&config, &bytes);
        let file = folder.path().join("model.safetensors");
        let header = safetensors_header(&bytes);
        all_end_in_an_answer(folder.path(), &file, &bytes, header, 2000);
    }
}

#[test]
fn packed_files() {
    let source = hf_folder(&mlx_config(), &mlx_tensors(&parsed(&mlx_config())));
    let folder = TempFolder::in_memory();
    let packed = folder.path().join("packed");
    let file = pack(source.path(), &packed, &LoadOptions::default(), &Silent).unwrap();
    let bytes = fs::read(&file).unwrap();
    // The header's room is larger than what is in it.
    let header = bytes.iter().rposition(|&byte| byte == b'}').unwrap_or(0);
    let header = header.min(safetensors_header(&bytes));
    all_end_in_an_answer(&packed, &file, &bytes, header, 1000);
    all_end_in_an_answer(&file, &file, &bytes, header, 1000);
}

#[test]
fn configurations() {
    for config in [config(), mlx_config()] {
        let tensors = match config.get("quantization") {
            Some(_) => mlx_tensors(&parsed(&config)),
            None => hf_tensors(&parsed(&config)),
        };
        let folder = folder(&config, &safetensors(&tensors));
        let bytes = config.to_string().into_bytes();
        let file = folder.path().join("config.json");
        all_end_in_an_answer(folder.path(), &file, &bytes, bytes.len(), 1000);
    }
}

#[test]
fn files_beside_the_weights() {
    let tensors = hf_tensors(&parsed(&config()));
    let folder = folder(&config(), &[]);
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    folder.write("a.safetensors", safetensors(&tensors));
    let map: Map<String, Value> = tensors
        .keys()
        .map(|name| (name.clone(), json!("a.safetensors")))
        .collect();
    for (name, text) in [
        (
            "model.safetensors.index.json",
            json!({ "metadata": { "total_size": 1 }, "weight_map": map }),
        ),
        (
            "generation_config.json",
            json!({ "eos_token_id": [1, 2], "bos_token_id": 3, "temperature": 0.6 }),
        ),
    ] {
        let bytes = text.to_string().into_bytes();
        let file = folder.path().join(name);
        all_end_in_an_answer(folder.path(), &file, &bytes, bytes.len(), 1000);
        fs::write(&file, &bytes).unwrap();
        load_folder(&folder).unwrap();
    }
}

/// Writes a first input or two for each fuzz target into the folder that `FUZZ_SEEDS` names.
#[test]
#[ignore = "makes files for .github/scripts/fuzz.sh"]
fn seeds() {
    let folder = std::env::var("FUZZ_SEEDS").expect("FUZZ_SEEDS names a folder");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let folder = Path::new(&folder).join(target);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), bytes).unwrap();
    };
    write("gguf", "whole", &good().bytes());
    write("gguf", "part", &split(good(), 9)[0].bytes());
    let configs = [("hf", config()), ("mlx", mlx_config())];
    for (name, config) in &configs {
        write("config", name, config.to_string().as_bytes());
    }
    let odd = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__test__/fixtures/odd-hf");
    write("config", "odd", &fs::read(odd.join("config.json")).unwrap());
    for (name, config, tensors) in [
        ("hf", config(), hf_tensors(&parsed(&config()))),
        ("mlx", mlx_config(), mlx_tensors(&parsed(&mlx_config()))),
    ] {
        write("safetensors", name, &safetensors(&tensors));
        let packed = TempFolder::in_memory();
        let source = hf_folder(&config, &tensors);
        let file = pack(
            source.path(),
            packed.path(),
            &LoadOptions::default(),
            &Silent,
        )
        .unwrap();
        write("packed", name, &fs::read(file).unwrap());
    }
}
