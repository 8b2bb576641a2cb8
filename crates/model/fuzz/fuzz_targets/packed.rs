//! Any bytes as a packed file, which is safetensors with everything in its metadata.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod file;

fuzz_target!(|bytes: &[u8]| file::load_as("model.safetensors", bytes));
