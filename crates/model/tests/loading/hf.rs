//! The Hugging Face layout, well-formed: what is packed, what is kept, and that every weight keeps its value.

use kernels::Mat;
use model::load::{LoadOptions, Silent, load};
use model::slots::{MatrixSlot, NormSlot, Projection};
use model::weights::{Matrix, Weights};
use serde_json::json;

use crate::maker::*;

/// The matrix in a place.
pub fn matrix(weights: &Weights, slot: MatrixSlot) -> &Matrix {
    match slot {
        MatrixSlot::Embedding => &weights.embedding,
        MatrixSlot::Head => weights.head.as_ref().unwrap(),
        MatrixSlot::Query(l) => &weights.layers[l].q,
        MatrixSlot::Key(l) => &weights.layers[l].k,
        MatrixSlot::Value(l) => &weights.layers[l].v,
        MatrixSlot::Output(l) => &weights.layers[l].o,
        MatrixSlot::Router(l) => &weights.layers[l].router,
        MatrixSlot::Expert(l, e, Projection::Gate) => &weights.layers[l].experts[e].gate,
        MatrixSlot::Expert(l, e, Projection::Up) => &weights.layers[l].experts[e].up,
        MatrixSlot::Expert(l, e, Projection::Down) => &weights.layers[l].experts[e].down,
    }
}

/// Its values, row after row.
pub fn values(matrix: &Matrix) -> Vec<f32> {
    let view = matrix.view();
    view.check().unwrap();
    let mut values = vec![0.0; view.rows() * view.cols()];
    for (r, row) in values.chunks_mut(view.cols()).enumerate() {
        view.row_to_f32(r, row);
    }
    values
}

fn source_values(tensor: &Tensor) -> Vec<f32> {
    match tensor.dtype {
        "F32" => tensor
            .data
            .as_chunks()
            .0
            .iter()
            .map(|&b| f32::from_le_bytes(b))
            .collect(),
        "BF16" => tensor
            .data
            .as_chunks()
            .0
            .iter()
            .map(|&b| kernels::half::bf16_to_f32(u16::from_le_bytes(b)))
            .collect(),
        "F16" => tensor
            .data
            .as_chunks()
            .0
            .iter()
            .map(|&b| kernels::half::f16_to_f32(u16::from_le_bytes(b)))
            .collect(),
        other => panic!("{other}"),
    }
}

/// Every weight is what the checkpoint says.
fn check_values(weights: &Weights, tensors: &Tensors) {
    for slot in MatrixSlot::all(&weights.config) {
        assert_eq!(
            values(matrix(weights, slot)),
            source_values(&tensors[&format!("{slot}.weight")]),
            "{slot}"
        );
    }
    let norms = |slot| match slot {
        NormSlot::Final => &weights.norm,
        NormSlot::Input(l) => &weights.layers[l].input_norm,
        NormSlot::Query(l) => &weights.layers[l].q_norm,
        NormSlot::Key(l) => &weights.layers[l].k_norm,
        NormSlot::PostAttention(l) => &weights.layers[l].post_norm,
    };
    for slot in NormSlot::all(&weights.config) {
        assert_eq!(
            *norms(slot),
            source_values(&tensors[&format!("{slot}.weight")]),
            "{slot}"
        );
    }
}

#[test]
fn ternary_matrices_are_packed_and_all_values_stay() {
    let (config, tensors) = (config(), hf_tensors(&parsed(&config())));
    let weights = load_folder(&hf_folder(&config, &tensors)).unwrap();
    check_values(&weights, &tensors);
    for slot in MatrixSlot::all(&weights.config) {
        assert_eq!(
            matrix(&weights, slot).is_ternary(),
            slot.is_expert() || slot.is_attention(),
            "{slot}"
        );
    }
    assert_eq!(weights.summary.packed_experts, 6);
    assert!(
        weights.summary.mapped_bytes > 0 && weights.summary.warnings.is_empty(),
        "{:?}",
        weights.summary
    );
}

#[test]
fn nearly_ternary_matrices_are_kept_as_they_are() {
    let config = config();
    for (at, change) in [(5, 0x3f80u16), (96 * 32 - 1, 0x0001), (0, 0xbd01)] {
        let mut tensors = hf_tensors(&parsed(&config));
        let name = "model.layers.1.mlp.experts.2.gate_proj.weight";
        tensors.get_mut(name).unwrap().data[2 * at..][..2].copy_from_slice(&change.to_le_bytes());
        let weights = load_folder(&hf_folder(&config, &tensors)).unwrap();
        check_values(&weights, &tensors);
        let gate = &weights.layers[1].experts[2].gate;
        assert!(matches!(gate.view(), Mat::Dense(_)), "{at}");
        assert_eq!(weights.summary.packed_experts, 5);
    }
}

#[test]
fn f16_and_f32_sources_are_packed_in_their_own_precision() {
    let config = config();
    let mut tensors = hf_tensors(&parsed(&config));
    for (name, tensor) in &mut tensors {
        let values = source_values(tensor);
        if name.contains("experts.0") || name.contains("word_embeddings") {
            // A scale that bf16 could not hold.
            *tensor = Tensor::f32(&tensor.shape, |at| values[at] * 1.000_001);
        } else if name.contains("experts.1") || name.contains("gate.weight") {
            let data = values
                .iter()
                .flat_map(|&v| kernels::half::f32_to_f16(v * 1.01).to_le_bytes())
                .collect();
            *tensor = Tensor {
                dtype: "F16",
                shape: tensor.shape.clone(),
                data,
            };
        }
    }
    let weights = load_folder(&hf_folder(&config, &tensors)).unwrap();
    check_values(&weights, &tensors);
    assert_eq!(weights.summary.packed_experts, 6);
}

#[test]
fn rows_of_zeros_and_of_one_sign_are_ternary() {
    let config = config();
    let mut tensors = hf_tensors(&parsed(&config));
    let name = "model.layers.0.mlp.experts.0.down_proj.weight";
    *tensors.get_mut(name).unwrap() = Tensor::bf16(&[96, 32], |at| match at / 32 {
        0 => 0.0,
        1 => -0.0,
        2 => -0.5,
        3 if at % 32 == 31 => 0.25,
        3 => 0.0,
        _ => [-1.5, 0.0, 1.5][at % 3],
    });
    let weights = load_folder(&hf_folder(&config, &tensors)).unwrap();
    check_values(&weights, &tensors);
    assert!(weights.layers[0].experts[0].down.is_ternary());
}

#[test]
fn packing_can_be_declined_and_so_can_mapping() {
    let (config, tensors) = (config(), hf_tensors(&parsed(&config())));
    let folder = hf_folder(&config, &tensors);
    let options = LoadOptions {
        pack_experts: false,
        ..Default::default()
    };
    let weights = load(folder.path(), &options, &Silent).unwrap();
    check_values(&weights, &tensors);
    assert_eq!(
        (
            weights.summary.packed_experts,
            weights.summary.ternary_weights
        ),
        (0, 0)
    );

    let options = LoadOptions {
        map: false,
        threads: 3,
        ..Default::default()
    };
    let weights = load(folder.path(), &options, &Silent).unwrap();
    check_values(&weights, &tensors);
    assert_eq!(weights.summary.mapped_bytes, 0);
}

#[test]
fn attention_can_be_made_ternary_by_the_rule_of_training() {
    let config = config();
    let mut tensors = hf_tensors(&parsed(&config));
    let name = "model.layers.0.self_attn.q_proj.weight";
    *tensors.get_mut(name).unwrap() = Tensor::bf16(&[128, 96], |at| noise(3, at));
    let folder = hf_folder(&config, &tensors);
    assert!(!load_folder(&folder).unwrap().layers[0].q.is_ternary());

    let options = LoadOptions {
        ternarize_attention: true,
        ..Default::default()
    };
    let weights = load(folder.path(), &options, &Silent).unwrap();
    let (made, source) = (values(&weights.layers[0].q), source_values(&tensors[name]));
    for (r, (made, source)) in made.chunks(96).zip(source.chunks(96)).enumerate() {
        let threshold = 0.7 * source.iter().map(|w| w.abs()).sum::<f32>() / 96.0;
        let kept: Vec<f32> = source
            .iter()
            .copied()
            .filter(|w| w.abs() > threshold)
            .collect();
        let mean = kept.iter().map(|w| w.abs()).sum::<f32>() / kept.len() as f32;
        for (&made, &source) in made.iter().zip(source) {
            let expected = if source.abs() > threshold {
                source.signum() * mean
            } else {
                0.0
            };
            assert!(
                (made - expected).abs() <= mean / 256.0,
                "row {r}: {made} for {source}, expected {expected}"
            );
        }
    }
    // What was ternary already has not changed.
    assert_eq!(
        values(&weights.layers[1].q),
        source_values(&tensors["model.layers.1.self_attn.q_proj.weight"])
    );
}

#[test]
fn shards_with_an_index_give_the_same_weights() {
    let config = config();
    let tensors = hf_tensors(&parsed(&config));
    let folder = TempFolder::new();
    folder.write("config.json", format!("\u{feff}{config}"));
    let mut weight_map = serde_json::Map::new();
    for shard in 0..3 {
        let name = format!("model-0000{}-of-00003.safetensors", shard + 1);
        let part: Tensors = tensors
            .iter()
            .enumerate()
            .filter(|(i, _)| i % 3 == shard)
            .map(|(_, (n, t))| (n.clone(), t.clone()))
            .collect();
        weight_map.extend(part.keys().map(|tensor| (tensor.clone(), json!(name))));
        folder.write(&name, safetensors(&part));
    }
    // A total that is wrong, and files that the index does not name.
    folder.write(
        "model.safetensors.index.json",
        json!({ "metadata": { "total_size": -5 }, "weight_map": weight_map }).to_string(),
    );
    folder.write("model.safetensors", b"junk");
    folder.write("model-flashhead.safetensors", b"junk");
    let weights = load_folder(&folder).unwrap();
    check_values(&weights, &tensors);
    assert_eq!(weights.summary.warnings.len(), 1);
    assert!(weights.summary.warnings[0].contains("model.safetensors: not part of the checkpoint"));
}

#[test]
fn data_at_odd_addresses_is_copied() {
    let config = config();
    let tensors = hf_tensors(&parsed(&config));
    let folder = hf_folder(&config, &tensors);
    let file = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&file).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = String::from_utf8(bytes[8..8 + length].to_vec()).unwrap();
    let padding = if length % 2 == 1 { "" } else { " " };
    let data = &bytes[8 + length..];
    let (odd, even) = (header.clone() + padding, header.clone() + padding + " ");
    assert!(odd.len() % 2 == 1);
    for header in [odd, even] {
        folder.write("model.safetensors", raw_safetensors(&header, data));
        check_values(&load_folder(&folder).unwrap(), &tensors);
    }
}

#[test]
fn a_tied_head_is_the_embedding() {
    let mut config = config();
    config["tie_word_embeddings"] = json!(true);
    let mut tensors = hf_tensors(&parsed(&config));
    let weights = load_folder(&hf_folder(&config, &tensors)).unwrap();
    check_values(&weights, &tensors);
    assert!(
        weights.head.is_none() && weights.screen.is_some() && weights.summary.warnings.is_empty()
    );

    tensors.insert("lm_head.weight".into(), Tensor::bf16(&[3], |_| 0.0));
    tensors.insert(
        "model.rotary_emb.inv_freq".into(),
        Tensor::f32(&[8], |_| 0.0),
    );
    tensors.insert("model.empty".into(), Tensor::f32(&[4, 0], |_| 0.0));
    let weights = load_folder(&hf_folder(&config, &tensors)).unwrap();
    assert_eq!(
        weights.summary.warnings.len(),
        1,
        "{:?}",
        weights.summary.warnings
    );
    assert!(weights.summary.warnings[0].contains("lm_head.weight"));
}

#[test]
fn the_screen_of_a_dense_head_bounds_its_own_error() {
    let (config, tensors) = (config(), hf_tensors(&parsed(&config())));
    let weights = load_folder(&hf_folder(&config, &tensors)).unwrap();
    let screen = weights.screen.as_ref().unwrap();
    let (exact, rounded) = (values(weights.head_matrix()), values(&screen.rows));
    for (r, (exact, rounded)) in exact.chunks(96).zip(rounded.chunks(96)).enumerate() {
        let squares: f64 = exact
            .iter()
            .zip(rounded)
            .map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2))
            .sum();
        assert!(
            squares > 0.0 && squares.sqrt() <= f64::from(screen.error_norms.as_f32()[r]) * 1.000_1,
            "row {r}"
        );
    }
}

#[test]
fn a_folder_of_the_hub_cache_may_link_to_its_own_blobs() {
    #[cfg(unix)]
    {
        let (config, tensors) = (config(), hf_tensors(&parsed(&config())));
        let repository = TempFolder::new();
        let (blobs, snapshot) = (
            repository.path().join("blobs"),
            repository.path().join("snapshots/abc"),
        );
        std::fs::create_dir_all(&blobs).unwrap();
        std::fs::create_dir_all(&snapshot).unwrap();
        for (name, blob, bytes) in [
            ("config.json", "1", config.to_string().into_bytes()),
            ("model.safetensors", "2", safetensors(&tensors)),
        ] {
            std::fs::write(blobs.join(blob), bytes).unwrap();
            std::os::unix::fs::symlink(format!("../../blobs/{blob}"), snapshot.join(name)).unwrap();
        }
        check_values(
            &load(&snapshot, &LoadOptions::default(), &Silent).unwrap(),
            &tensors,
        );
    }
}
