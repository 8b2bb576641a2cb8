//! Loads a checkpoint and says how long it took and what memory it cost:
//! `cargo run --release -p model --example load -- PATH [--cache FOLDER] [--no-map] [--touch]`.
//!
//! `--touch` reads every weight once afterwards, as a long prompt would.

use std::path::PathBuf;
use std::time::Instant;

use model::load::{LoadOptions, Phase, Progress, load};
use model::weights::{Matrix, Weights};

struct Print;

impl Progress for Print {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        if done == total {
            println!("{phase:?}: {:.2} GB", total as f64 / 1e9);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = LoadOptions::default();
    let (mut path, mut touch) = (None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--cache" => options.cache_folder = arguments.next().map(PathBuf::from),
            "--no-map" => options.map = false,
            "--touch" => touch = true,
            _ => path = Some(PathBuf::from(argument)),
        }
    }
    let path = path.ok_or("usage: load PATH [--cache FOLDER] [--no-map] [--touch]")?;
    let start = Instant::now();
    let weights = load(&path, &options, &Print)?;
    println!("loaded in {:.3} s", start.elapsed().as_secs_f64());
    println!("{:#?}", weights.summary);
    memory();
    if touch {
        let start = Instant::now();
        println!(
            "checksum {:x} in {:.3} s",
            checksum(&weights),
            start.elapsed().as_secs_f64()
        );
        memory();
    }
    Ok(())
}

/// What the system counts as this process's memory, now and at most so far.
fn memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| {
        line.starts_with("VmRSS") || line.starts_with("VmHWM") || line.starts_with("RssAnon")
    }) {
        println!("{line}");
    }
}

fn checksum(weights: &Weights) -> u64 {
    let add = |sum: u64, matrix: &Matrix| {
        let words = |bytes: &[u8]| {
            bytes.as_chunks().0.iter().fold(0u64, |sum, &word| {
                sum.wrapping_add(u64::from_le_bytes(word))
            })
        };
        sum.wrapping_add(match matrix {
            Matrix::Ternary { tiles, scales, .. } => words(tiles).wrapping_add(words(scales)),
            Matrix::Int8 { data, scales, .. } => words(data).wrapping_add(words(scales)),
            Matrix::Grouped { data, .. } | Matrix::Dense { data, .. } => words(data),
        })
    };
    let layers = weights.layers.iter().flat_map(|layer| {
        let experts = layer
            .experts
            .iter()
            .flat_map(|expert| [&expert.gate, &expert.up, &expert.down]);
        [&layer.q, &layer.k, &layer.v, &layer.o, &layer.router]
            .into_iter()
            .chain(experts)
    });
    [&weights.embedding]
        .into_iter()
        .chain(&weights.head)
        .chain(layers)
        .fold(0, add)
}
