//! Files of every layout with random damage, the same at each run: all end in an answer, none in a panic or in a large
//! allocation. The fuzz targets beside this crate go on where this ends.

use std::fs;
use std::path::Path;

use model::load::{LoadOptions, Silent, load, pack};

use crate::allocations::largest;
use crate::gguf::good;
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

#[test]
fn gguf_files() {
    let bytes = good().bytes();
    let header = bytes.len() - good().tensors.iter().map(|t| t.data.len()).sum::<usize>();
    let folder = TempFolder::new();
    let path = folder.path().join("model.gguf");
    all_end_in_an_answer(&path, &path, &bytes, header, 600);
}

#[test]
fn plain_and_mlx_checkpoints() {
    for (config, tensors) in [
        (config(), hf_tensors(&parsed(&config()))),
        (mlx_config(), mlx_tensors(&parsed(&mlx_config()))),
    ] {
        let bytes = safetensors(&tensors);
        let folder = hf_folder(&config, &tensors);
        let file = folder.path().join("model.safetensors");
        let header = safetensors_header(&bytes);
        all_end_in_an_answer(folder.path(), &file, &bytes, header, 600);
    }
}

#[test]
fn packed_files() {
    let folder = TempFolder::new();
    let source = hf_folder(&mlx_config(), &mlx_tensors(&parsed(&mlx_config())));
    let packed = folder.path().join("packed");
    let file = pack(source.path(), &packed, &LoadOptions::default(), &Silent).unwrap();
    let bytes = fs::read(&file).unwrap();
    // The header's room is larger than what is in it.
    let header = bytes.iter().rposition(|&byte| byte == b'}').unwrap_or(0);
    let header = header.min(safetensors_header(&bytes));
    all_end_in_an_answer(&packed, &file, &bytes, header, 600);
    all_end_in_an_answer(&file, &file, &bytes, header, 600);
}

#[test]
fn configurations() {
    for config in [config(), mlx_config()] {
        let tensors = match config.get("quantization") {
            Some(_) => mlx_tensors(&parsed(&config)),
            None => hf_tensors(&parsed(&config)),
        };
        let folder = hf_folder(&config, &tensors);
        let bytes = config.to_string().into_bytes();
        let file = folder.path().join("config.json");
        all_end_in_an_answer(folder.path(), &file, &bytes, bytes.len(), 400);
    }
}
