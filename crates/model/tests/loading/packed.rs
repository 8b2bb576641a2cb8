//! The packed cache, `pack` and `inspect`.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::error::{Defect, Error};
use model::load::{LoadOptions, Phase, Progress, Silent, inspect, load, pack};
use model::slots::MatrixSlot;
use model::weights::{Format, Weights};
use serde_json::{Value, json};

use crate::hf::{matrix, values};
use crate::maker::*;
use crate::mlx::{mlx_config, mlx_tensors, with_groups};

/// Counts conversions, and cancels after some reports.
#[derive(Default)]
struct Watch {
    conversions: AtomicUsize,
    reports: AtomicUsize,
    cancel_after: Option<usize>,
}

impl Progress for Watch {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        assert!(done <= total);
        self.reports.fetch_add(1, Ordering::Relaxed);
        if phase == Phase::Convert && total > 0 && done == total {
            self.conversions.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel_after
            .is_some_and(|after| self.reports.load(Ordering::Relaxed) > after)
    }
}

fn cached(cache: &TempFolder) -> LoadOptions {
    LoadOptions {
        cache_folder: Some(cache.path().to_owned()),
        threads: 2,
        ..Default::default()
    }
}

/// Loads with the cache; returns how often it converted.
fn load_cached(model: &TempFolder, cache: &TempFolder) -> (Weights, usize) {
    let watch = Watch::default();
    let weights = load(model.path(), &cached(cache), &watch).unwrap();
    (weights, watch.conversions.into_inner())
}

fn names(folder: &TempFolder, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.ends_with(ending)).collect()
}

/// The same values in the same forms.
fn check_same(found: &Weights, expected: &Weights) {
    for slot in MatrixSlot::all(&expected.config) {
        let (found, expected) = (matrix(found, slot), matrix(expected, slot));
        assert_eq!(
            std::mem::discriminant(found),
            std::mem::discriminant(expected),
            "{slot}"
        );
        assert_eq!(values(found), values(expected), "{slot}");
    }
    assert_eq!(found.norm, expected.norm);
    for (found, expected) in found.layers.iter().zip(&expected.layers) {
        assert_eq!(found.input_norm, expected.input_norm);
        assert_eq!(found.post_norm, expected.post_norm);
        assert_eq!(
            (&found.q_norm, &found.k_norm),
            (&expected.q_norm, &expected.k_norm)
        );
    }
    assert_eq!(found.config, expected.config);
    assert_eq!(found.screen.is_some(), expected.screen.is_some());
    if let (Some(found), Some(expected)) = (&found.screen, &expected.screen) {
        assert_eq!(values(&found.rows), values(&expected.rows));
        assert_eq!(found.error_norms.as_f32(), expected.error_norms.as_f32());
    }
    assert_eq!(found.summary.format, expected.summary.format);
    assert_eq!(
        found.summary.packed_experts,
        expected.summary.packed_experts
    );
}

/// Checkpoints whose matrices come in every form, sizes that need padding among them.
fn checkpoints() -> Vec<(Value, Tensors)> {
    let hf = hf_tensors(&parsed(&config()));
    let mut odd = config();
    for (name, size) in [
        ("hidden_size", 33),
        ("moe_intermediate_size", 7),
        ("vocab_size", 65),
        ("head_dim", 6),
    ] {
        odd[name] = json!(size);
    }
    odd["partial_rotary_factor"] = json!(0.34);
    odd["tie_word_embeddings"] = json!(true);
    let mut odd_tensors = hf_tensors(&parsed(&odd));
    let dense = odd_tensors
        .get_mut("model.layers.0.mlp.experts.1.up_proj.weight")
        .unwrap();
    *dense = Tensor::f32(&[7, 33], |at| noise(1, at));
    let mlx = mlx_tensors(&parsed(&mlx_config()));
    let mut grouped = with_groups(&mlx);
    grouped
        .get_mut("model.layers.0.self_attn.q_proj.scales")
        .unwrap()
        .data[0] ^= 0x10;
    vec![
        (config(), hf),
        (odd, odd_tensors),
        (mlx_config(), mlx),
        (mlx_config(), grouped),
    ]
}

#[test]
fn a_second_load_maps_what_the_first_packed() {
    for (config, tensors) in checkpoints() {
        let (model, cache) = (hf_folder(&config, &tensors), TempFolder::new());
        let plain = load_folder(&model).unwrap();
        for conversions in [1, 0, 0] {
            let (weights, converted) = load_cached(&model, &cache);
            assert_eq!(converted, conversions);
            check_same(&weights, &plain);
            assert_eq!(weights.summary.mapped_bytes, weights.summary.bytes);
            assert_eq!(
                weights.summary.packed_file.as_ref().unwrap().parent(),
                Some(cache.path())
            );
            assert!(
                weights.summary.warnings.is_empty(),
                "{:?}",
                weights.summary.warnings
            );
        }
        assert_eq!(
            (
                names(&cache, ".safetensors").len(),
                names(&cache, ".tmp").len()
            ),
            (1, 0)
        );
        let unmapped = LoadOptions {
            map: false,
            ..cached(&cache)
        };
        let weights = load(model.path(), &unmapped, &Silent).unwrap();
        check_same(&weights, &plain);
        assert_eq!(weights.summary.mapped_bytes, 0);
    }
}

#[test]
fn a_changed_checkpoint_is_packed_anew_and_the_old_copy_goes() {
    let (config, mut tensors) = checkpoints().swap_remove(0);
    let (model, cache) = (hf_folder(&config, &tensors), TempFolder::new());
    assert_eq!(load_cached(&model, &cache).1, 1);
    // The same length, put in place by a rename.
    let name = "model.layers.0.mlp.experts.0.up_proj.weight";
    let tensor = tensors.get_mut(name).unwrap();
    *tensor = Tensor::bf16(&tensor.shape, |at| [-0.5, 0.0, 0.5][at % 3]);
    let new = model.write("new", safetensors(&tensors));
    fs::rename(new, model.path().join("model.safetensors")).unwrap();
    let (weights, converted) = load_cached(&model, &cache);
    assert_eq!((converted, names(&cache, ".safetensors").len()), (1, 1));
    check_same(&weights, &load_folder(&model).unwrap());
    // Other options have a copy of their own.
    let options = LoadOptions {
        ternarize_attention: true,
        ..cached(&cache)
    };
    load(model.path(), &options, &Silent).unwrap();
    assert_eq!(names(&cache, ".safetensors").len(), 2);
    assert_eq!(load_cached(&model, &cache).1, 0);
}

#[test]
fn a_damaged_copy_is_made_again() {
    let (config, tensors) = checkpoints().swap_remove(2);
    let (model, cache) = (hf_folder(&config, &tensors), TempFolder::new());
    let file = load_cached(&model, &cache).0.summary.packed_file.unwrap();
    let good = fs::read(&file).unwrap();
    let replaced = |from: &str, to: &str| {
        let at = good
            .windows(from.len())
            .position(|window| window == from.as_bytes())
            .unwrap();
        [&good[..at], to.as_bytes(), &good[at + from.len()..]].concat()
    };
    let version = "\"layout\":\"";
    let damaged = [
        Vec::new(),
        good[..7].to_vec(),
        good[..good.len() / 2].to_vec(),
        good[..good.len() - 1].to_vec(),
        [&good[..], &[0]].concat(),
        replaced("mlx pack=true", "mlx pack=fals"),
        replaced("\\\"head_dim\\\":32", "\\\"head_dim\\\":33"),
        replaced(version, "\"layout\":\"9"),
        replaced("lm_head.q4g32", "lm_head.q4g64"),
        replaced("lm_head.q4g32", "lm_heax.q4g32"),
    ];
    for (i, bytes) in damaged.iter().enumerate() {
        fs::remove_file(&file).unwrap(); // what is mapped must not change under it
        fs::write(&file, bytes).unwrap();
        let (weights, converted) = load_cached(&model, &cache);
        assert_eq!(converted, 1, "damage {i}");
        assert_eq!(fs::read(&file).unwrap(), good, "damage {i}");
        drop(weights);
    }
}

#[test]
fn many_loads_at_once_share_one_conversion() {
    let (config, tensors) = checkpoints().swap_remove(0);
    let (model, cache) = (hf_folder(&config, &tensors), TempFolder::new());
    let plain = load_folder(&model).unwrap();
    let conversions: usize = std::thread::scope(|scope| {
        let loads: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| load_cached(&model, &cache)))
            .collect();
        loads
            .into_iter()
            .map(|load| {
                let (weights, converted) = load.join().unwrap();
                check_same(&weights, &plain);
                converted
            })
            .sum()
    });
    assert_eq!((conversions, names(&cache, ".tmp").len()), (1, 0));
}

#[test]
fn what_a_dead_process_left_is_removed_and_what_a_living_one_writes_is_not() {
    let (config, tensors) = checkpoints().swap_remove(0);
    let (model, other, cache) = (
        hf_folder(&config, &tensors),
        hf_folder(&config, &tensors),
        TempFolder::new(),
    );
    let file = load_cached(&model, &cache).0.summary.packed_file.unwrap();
    let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
    let prefix = stem.rsplit_once('-').unwrap().0;
    cache.write(&format!("{prefix}.999999.abc.0.tmp"), b"half a file");
    cache.write("living-0123.1.2.0.tmp", b"being written");
    let lock = fs::File::create(cache.path().join("living-0123.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(load_cached(&other, &cache).1, 1);
    assert_eq!(names(&cache, ".tmp"), ["living-0123.1.2.0.tmp"]);
    drop(lock);
    fs::remove_file(file).unwrap();
    assert_eq!(load_cached(&model, &cache).1, 1);
    assert!(names(&cache, ".tmp").is_empty());
}

#[test]
fn a_cache_that_cannot_be_written_is_a_warning() {
    let (config, tensors) = checkpoints().swap_remove(0);
    let model = hf_folder(&config, &tensors);
    let file = model.write("a-file", b"");
    for folder in [
        file.clone(),
        file.join("below"),
        PathBuf::from("/proc/maple"),
    ] {
        let options = LoadOptions {
            cache_folder: Some(folder),
            ..Default::default()
        };
        let weights = load(model.path(), &options, &Silent).unwrap();
        check_same(&weights, &load_folder(&model).unwrap());
        assert_eq!(weights.summary.packed_file, None);
        assert!(
            weights.summary.warnings[0].contains("no packed copy is kept"),
            "{:?}",
            weights.summary.warnings
        );
    }
}

#[test]
fn cancelling_leaves_nothing_behind() {
    let (config, tensors) = checkpoints().swap_remove(0);
    let (model, cache) = (hf_folder(&config, &tensors), TempFolder::new());
    for after in [0, 1, 10] {
        let watch = Watch {
            cancel_after: Some(after),
            ..Default::default()
        };
        assert!(matches!(
            load(model.path(), &cached(&cache), &watch),
            Err(Error::Cancelled)
        ));
        assert!(names(&cache, ".tmp").is_empty() && names(&cache, ".safetensors").is_empty());
    }
    assert_eq!(load_cached(&model, &cache).1, 1);
}

#[test]
fn errors_of_the_source_are_not_hidden_by_the_cache() {
    let (config, mut tensors) = checkpoints().swap_remove(0);
    tensors
        .get_mut("model.layers.1.self_attn.k_proj.weight")
        .unwrap()
        .data[5] = 0x7f;
    tensors
        .get_mut("model.layers.1.self_attn.k_proj.weight")
        .unwrap()
        .data[4] = 0xc0;
    let (model, cache) = (hf_folder(&config, &tensors), TempFolder::new());
    match load(model.path(), &cached(&cache), &Silent) {
        Err(Error::Checkpoint {
            defect:
                Defect::NotFinite {
                    value: "NaN",
                    index,
                    ..
                },
            ..
        }) => assert_eq!(index, [0, 2]),
        other => panic!("{other:?}"),
    }
    assert!(names(&cache, ".tmp").is_empty() && names(&cache, ".safetensors").is_empty());
}

#[test]
fn a_packed_folder_is_a_checkpoint_of_its_own() {
    for (config, tensors) in checkpoints() {
        let (model, place) = (hf_folder(&config, &tensors), TempFolder::new());
        model.write("tokenizer.json", "{}");
        model.write("generation_config.json", "{\"eos_token_id\": [1, 2]}");
        let destination = place.path().join("packed");
        let file = pack(model.path(), &destination, &LoadOptions::default(), &Silent).unwrap();
        let plain = load_folder(&model).unwrap();
        assert_eq!(plain.config.eos, [1, 2]);
        // As a folder, with a cache that it does not need, and as a single file.
        let cache = TempFolder::new();
        for path in [&destination, &file] {
            let weights = load(path, &cached(&cache), &Silent).unwrap();
            check_same(&weights, &plain);
            assert_eq!(weights.summary.mapped_bytes, weights.summary.bytes);
        }
        assert!(names(&cache, "").is_empty());
        assert_eq!(
            fs::read_to_string(destination.join("tokenizer.json")).unwrap(),
            "{}"
        );
        // Weights are never overwritten.
        let again = pack(model.path(), &destination, &LoadOptions::default(), &Silent);
        assert!(matches!(
            again,
            Err(Error::InvalidArgument {
                argument: "destination",
                ..
            })
        ));
    }
}

#[test]
fn inspection_says_what_a_checkpoint_is() {
    let hf = hf_folder(&checkpoints()[0].0, &checkpoints()[0].1);
    let info = inspect(hf.path(), &LoadOptions::default()).unwrap();
    let weights = load_folder(&hf).unwrap();
    assert_eq!(
        (info.format, info.packed, info.estimated),
        (Format::HuggingFace, false, false)
    );
    assert_eq!(
        (info.weights, info.ternary_weights),
        (weights.summary.weights, weights.summary.ternary_weights)
    );
    assert_eq!(info.files.len(), 2);
    assert!(info.weight_bytes >= weights.summary.bytes);
    // One full layer with 2 heads of 32, keys and values, 2 bytes each; the sliding one keeps 4 positions.
    assert_eq!((info.kv_bytes_per_token, info.kv_bytes_fixed), (256, 1024));
    let mlx = hf_folder(&checkpoints()[2].0, &checkpoints()[2].1);
    assert_eq!(
        inspect(mlx.path(), &LoadOptions::default()).unwrap().format,
        Format::Mlx
    );
}
