//! The packed cache shared by processes, some of which die.

use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

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

/// Waits until a conversion has begun to write, or all have ended.
fn wait_for_writing(cache: &TempFolder, children: &mut [Child]) {
    let running = |child: &mut Child| child.try_wait().unwrap().is_none();
    while unfinished(cache) == 0 && children.iter_mut().any(running) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn unfinished(cache: &TempFolder) -> usize {
    let entries = fs::read_dir(cache.path()).unwrap();
    let is_one = |path: std::path::PathBuf| path.extension().is_some_and(|ending| ending == "tmp");
    entries
        .filter(|entry| is_one(entry.as_ref().unwrap().path()))
        .count()
}

#[test]
fn killed_at_any_moment_the_next_start_gets_it_right() {
    let (model, cache) = (model(), TempFolder::new());
    // How long writing takes here, so that the kills are spread over it.
    let mut undisturbed = [start(&model, &cache)];
    wait_for_writing(&cache, &mut undisturbed);
    let began = Instant::now();
    assert!(undisturbed[0].wait().unwrap().success());
    let writing = began.elapsed();
    let mut interrupted = 0;
    for round in 0..20u32 {
        check(&model, &cache);
        for entry in fs::read_dir(cache.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        // Two at a time, so that one of them may take over from the other.
        let mut children = [start(&model, &cache), start(&model, &cache)];
        wait_for_writing(&cache, &mut children);
        // Steps of the golden ratio: scattered, yet the same at each run.
        std::thread::sleep(writing.mul_f64(f64::from(round) * 0.618_034 % 1.0));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        interrupted += u32::from(unfinished(&cache) > 0);
    }
    assert!(interrupted > 0);
    check(&model, &cache);
}
