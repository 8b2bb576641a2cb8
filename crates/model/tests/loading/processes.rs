//! The packed cache shared by processes, some of which die.

use std::fs;
use std::process::{Child, Command};
use std::time::Duration;

use model::load::{LoadOptions, Silent, load};
use serde_json::json;

use crate::hf::values;
use crate::maker::*;

/// What [`child`] loads, and with which cache.
const MODEL: &str = "MAPLE_TEST_MODEL";
const CACHE: &str = "MAPLE_TEST_CACHE";

fn options(cache: &std::path::Path) -> LoadOptions {
    LoadOptions {
        cache_folder: Some(cache.to_owned()),
        threads: 1,
        ..Default::default()
    }
}

#[test]
#[ignore = "run by the other tests here, in processes of their own"]
fn child() {
    let path = |name| std::path::PathBuf::from(std::env::var_os(name).unwrap());
    let weights = load(&path(MODEL), &options(&path(CACHE)), &Silent).unwrap();
    assert!(
        weights.summary.packed_file.is_some(),
        "{:?}",
        weights.summary.warnings
    );
}

fn start(model: &TempFolder, cache: &TempFolder) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::child", "--ignored", "--quiet"])
        .env(MODEL, model.path())
        .env(CACHE, cache.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Large enough that a conversion takes a moment: 20 MB.
fn model() -> TempFolder {
    let mut config = config();
    for (name, size) in [
        ("hidden_size", 256),
        ("moe_intermediate_size", 128),
        ("num_experts", 48),
    ] {
        config[name] = json!(size);
    }
    hf_folder(&config, &hf_tensors(&parsed(&config)))
}

fn check(model: &TempFolder, cache: &TempFolder) {
    let (cached, plain) = (
        load(model.path(), &options(cache.path()), &Silent).unwrap(),
        load_folder(model).unwrap(),
    );
    assert_eq!(cached.summary.mapped_bytes, cached.summary.bytes);
    for (cached, plain) in cached.layers.iter().zip(&plain.layers) {
        for (cached, plain) in cached.experts.iter().zip(&plain.experts) {
            assert_eq!(values(&cached.gate), values(&plain.gate));
            assert_eq!(values(&cached.down), values(&plain.down));
        }
    }
    let names: Vec<String> = fs::read_dir(cache.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let ending = |ending: &str| names.iter().filter(|name| name.ends_with(ending)).count();
    assert_eq!(
        (ending(".safetensors"), ending(".tmp")),
        (1, 0),
        "{names:?}"
    );
}

#[test]
fn ten_at_once_all_load() {
    let (model, cache) = (model(), TempFolder::new());
    let mut children: Vec<Child> = (0..10).map(|_| start(&model, &cache)).collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    check(&model, &cache);
}

#[test]
fn killed_at_any_moment_the_next_start_gets_it_right() {
    let (model, cache) = (model(), TempFolder::new());
    let mut killed_early = 0;
    for round in 0..20u64 {
        // Two at a time, so that one of them may take over from the other.
        let mut children = [start(&model, &cache), start(&model, &cache)];
        std::thread::sleep(Duration::from_millis(5 + round * 7));
        for child in &mut children {
            child.kill().unwrap();
            killed_early += u32::from(!child.wait().unwrap().success());
        }
        if round % 5 == 4 {
            check(&model, &cache);
        }
        for entry in fs::read_dir(cache.path()).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|ending| ending == "safetensors")
            {
                fs::remove_file(path).unwrap();
            }
        }
    }
    assert!(killed_early > 0);
    check(&model, &cache);
}
