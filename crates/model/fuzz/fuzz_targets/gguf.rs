//! Any bytes as a GGUF file: opened, checked and loaded, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod file;

fuzz_target!(|bytes: &[u8]| file::load_as("model.gguf", bytes));
