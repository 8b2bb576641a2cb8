//! Any bytes as config.json beside weights that one configuration fits: read, checked against them, or refused.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

mod file;

/// A small checkpoint that comes along.
const WEIGHTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../__test__/fixtures/odd-hf/model.safetensors"
);

static WEIGHTS_ARE_THERE: LazyLock<()> = LazyLock::new(|| {
    std::fs::copy(WEIGHTS, file::FOLDER.join("model.safetensors")).expect("weights can be copied");
});

fuzz_target!(|bytes: &[u8]| {
    LazyLock::force(&WEIGHTS_ARE_THERE);
    file::write("config.json", bytes);
    file::load_path(&file::FOLDER);
});
