//! The MLX layout, well-formed: every form a matrix can have, against the values the formulas give.

use kernels::Mat;
use model::config::Config;
use model::slots::MatrixSlot;
use model::weights::{Matrix, Weights};
use serde_json::{Value, json};

use crate::hf::{matrix, values};
use crate::maker::*;

pub fn mlx_config() -> Value {
    let mut config = config();
    config["quantization"] = json!({ "bits": 2, "group_size": 32, "mode": "affine",
        "lm_head": { "bits": 4, "group_size": 32 }, "model.word_embeddings": { "bits": 8 } });
    config
}

/// Codes of a width packed into words, first in the lowest bits.
pub fn words(rows: usize, cols: usize, bits: usize, code: impl Fn(usize) -> u32) -> Vec<u32> {
    let per_word = 32 / bits;
    let words = cols.div_ceil(per_word);
    let word = |at: usize| {
        let (row, first) = (at / words, at % words * per_word);
        (first..(first + per_word).min(cols))
            .map(|c| code(row * cols + c) << (bits * (c - first)))
            .sum()
    };
    (0..rows * words).map(word).collect()
}

/// Codes with a scale and a bias for each group of 32, noise in all of them.
fn affine(name: &str, rows: usize, cols: usize, bits: usize) -> [(String, Tensor); 3] {
    let codes = words(rows, cols, bits, |at| any_code(at, bits));
    let width = codes.len() / rows;
    let float = |seed: usize| Tensor::bf16(&[rows, cols / 32], move |at| noise(seed, at) / 64.0);
    [
        (
            format!("{name}.weight"),
            Tensor::u32(&[rows, width], |at| codes[at]),
        ),
        (format!("{name}.scales"), float(1)),
        (format!("{name}.biases"), float(2)),
    ]
}

fn any_code(at: usize, bits: usize) -> u32 {
    ((noise(9, at) + 1.0) * 0.499_999 * (1u32 << bits) as f32) as u32
}

fn affine_value(at: usize, cols: usize, bits: usize) -> f32 {
    let group = at / cols * (cols / 32) + at % cols / 32;
    let bf16 = |v: f32| f32::from_bits(v.to_bits() & 0xffff_0000);
    any_code(at, bits) as f32 * bf16(noise(1, group) / 64.0) + bf16(noise(2, group) / 64.0)
}

/// The weights of [`hf_tensors`] in this layout: experts and attention as codes with `row_alpha`, experts stacked.
pub fn mlx_tensors(config: &Config) -> Tensors {
    let mut tensors = Tensors::new();
    let mut stacks: std::collections::BTreeMap<String, (Vec<u8>, Vec<u8>)> = Default::default();
    for slot in MatrixSlot::all(config) {
        let ((rows, cols), name) = (slot.shape(config), slot.to_string());
        if !slot.is_expert() && !slot.is_attention() {
            let bits = match slot {
                MatrixSlot::Embedding => 8,
                MatrixSlot::Head => 4,
                _ => 0,
            };
            if bits > 0 {
                tensors.extend(affine(&name, rows, cols, bits));
                continue;
            }
        }
        let packed = words(rows, cols, 2, |at| code(&name, at));
        let weight = Tensor::u32(&[rows, packed.len() / rows], |at| packed[at]);
        let alphas = Tensor::bf16(&[rows], |row| alpha(&name, row));
        match slot {
            MatrixSlot::Expert(l, _, p) => {
                let (codes, scales) = stacks
                    .entry(format!("model.layers.{l}.mlp.switch_mlp.{}", p.name()))
                    .or_default();
                codes.extend(weight.data);
                scales.extend(alphas.data);
                let stack = |dtype, shape: &[usize], data: &Vec<u8>| Tensor {
                    dtype,
                    shape: shape.to_vec(),
                    data: data.clone(),
                };
                let experts = codes.len() / (4 * packed.len());
                let name = format!("model.layers.{l}.mlp.switch_mlp.{}", p.name());
                tensors.insert(
                    format!("{name}.weight"),
                    stack("U32", &[experts, rows, packed.len() / rows], codes),
                );
                tensors.insert(
                    format!("{name}.row_alpha"),
                    stack("BF16", &[experts, rows], scales),
                );
            }
            MatrixSlot::Router(_) => {
                tensors.insert(
                    format!("{name}.weight"),
                    hf_tensors(config)[&format!("{name}.weight")].clone(),
                );
            }
            _ => {
                tensors.insert(format!("{name}.weight"), weight);
                tensors.insert(format!("{name}.row_alpha"), alphas);
            }
        }
    }
    tensors.extend(
        hf_tensors(config)
            .into_iter()
            .filter(|(name, _)| name.contains("norm")),
    );
    tensors
}

/// Replaces the stacked experts of a layer by single ones.
fn unstack(tensors: &mut Tensors, layer: usize) {
    let names: Vec<String> = tensors
        .keys()
        .filter(|name| name.contains(&format!("layers.{layer}.mlp.switch_mlp")))
        .cloned()
        .collect();
    for name in names {
        let stack = tensors.remove(&name).unwrap();
        let (experts, shape) = (stack.shape[0], stack.shape[1..].to_vec());
        for (e, data) in stack.data.chunks(stack.data.len() / experts).enumerate() {
            let name = name.replace("switch_mlp", &format!("experts.{e}"));
            tensors.insert(
                name,
                Tensor {
                    dtype: stack.dtype,
                    shape: shape.clone(),
                    data: data.to_vec(),
                },
            );
        }
    }
}

/// Every packed matrix has the values of the bf16 checkpoint; embedding and head those of their codes.
fn check(weights: &Weights) {
    let hf = load_folder(&hf_folder(&config(), &hf_tensors(&parsed(&config())))).unwrap();
    for slot in MatrixSlot::all(&weights.config) {
        let (found, cols) = (values(matrix(weights, slot)), weights.config.hidden);
        let expected: Vec<f32> = match slot {
            MatrixSlot::Embedding => (0..found.len())
                .map(|at| affine_value(at, cols, 8))
                .collect(),
            MatrixSlot::Head => (0..found.len())
                .map(|at| affine_value(at, cols, 4))
                .collect(),
            _ => values(matrix(&hf, slot)),
        };
        assert_eq!(found, expected, "{slot}");
        // The same bytes for the kernels, so the same outputs bit for bit.
        if slot.is_expert() || slot.is_attention() {
            let parts = |weights| match matrix(weights, slot) {
                Matrix::Ternary { tiles, scales, .. } => (tiles.to_vec(), scales.to_vec()),
                other => panic!("{slot} is {other:?}"),
            };
            assert_eq!(parts(weights), parts(&hf), "{slot}");
        }
        assert_eq!(
            matrix(weights, slot).is_ternary(),
            slot.is_expert() || slot.is_attention(),
            "{slot}"
        );
    }
    assert_eq!(weights.summary.packed_experts, 6);
    assert!(weights.screen.is_none());
}

#[test]
fn codes_with_row_alpha_are_the_same_weights_as_bf16() {
    let config = mlx_config();
    let mut tensors = mlx_tensors(&parsed(&config));
    check(&load_folder(&hf_folder(&config, &tensors)).unwrap());
    // One layer's experts one by one, the other's stacked.
    unstack(&mut tensors, 1);
    check(&load_folder(&hf_folder(&config, &tensors)).unwrap());
    // Other float types for the scales.
    for (name, tensor) in tensors
        .iter_mut()
        .filter(|(name, _)| name.ends_with("row_alpha"))
    {
        let wide: Vec<u8> = tensor
            .data
            .as_chunks()
            .0
            .iter()
            .flat_map(|&[a, b]| [0, 0, a, b])
            .collect();
        if name.contains("q_proj") || name.contains("gate_proj") {
            *tensor = Tensor {
                dtype: "F32",
                shape: tensor.shape.clone(),
                data: wide,
            };
        }
    }
    check(&load_folder(&hf_folder(&config, &tensors)).unwrap());
}

/// Replaces every `row_alpha` by scales and biases of equal groups.
pub fn with_groups(tensors: &Tensors) -> Tensors {
    let mut grouped = Tensors::new();
    for (name, tensor) in tensors {
        let Some(prefix) = name.strip_suffix(".row_alpha") else {
            grouped.insert(name.clone(), tensor.clone());
            continue;
        };
        let cols = tensors[&format!("{prefix}.weight")].shape.last().unwrap() * 16;
        let groups = cols / 32;
        let shape: Vec<usize> = tensor.shape.iter().copied().chain([groups]).collect();
        let repeat = |sign: u8| -> Vec<u8> {
            let of_row =
                |[low, high]: [u8; 2]| std::iter::repeat_n([low, high ^ sign], groups).flatten();
            tensor
                .data
                .as_chunks()
                .0
                .iter()
                .flat_map(|&alpha| of_row(alpha))
                .collect()
        };
        grouped.insert(
            format!("{prefix}.scales"),
            Tensor {
                dtype: "BF16",
                shape: shape.clone(),
                data: repeat(0),
            },
        );
        grouped.insert(
            format!("{prefix}.biases"),
            Tensor {
                dtype: "BF16",
                shape,
                data: repeat(0x80),
            },
        );
    }
    grouped
}

#[test]
fn equal_groups_are_row_ternary() {
    let config = mlx_config();
    let tensors = with_groups(&mlx_tensors(&parsed(&config)));
    check(&load_folder(&hf_folder(&config, &tensors)).unwrap());
}

#[test]
fn unequal_groups_and_code_three_are_a_general_affine_matrix() {
    let config = mlx_config();
    let plain = with_groups(&mlx_tensors(&parsed(&config)));
    let name = "model.layers.0.self_attn.q_proj";
    let alphas: Vec<f32> = (0..128).map(|row| alpha(name, row)).collect();
    // A group of its own scale; a bias that is not the negative; code 3 for 2 alpha.
    for (change, row, col, value) in [
        ("scales", 7, 40, None),
        ("biases", 127, 95, None),
        ("weight", 3, 16, Some(2.0 * alphas[3])),
    ] {
        let mut tensors = plain.clone();
        let tensor = tensors.get_mut(&format!("{name}.{change}")).unwrap();
        match change {
            "weight" => tensor.data[4 * (row * 6 + 1)] |= 3,
            _ => tensor.data[2 * (row * 3 + col / 32)] ^= 0x10,
        }
        let weights = load_folder(&hf_folder(&config, &tensors)).unwrap();
        let (q, values) = (&weights.layers[0].q, values(&weights.layers[0].q));
        assert!(matches!(q.view(), Mat::Grouped(_)), "{change}");
        for (at, &found) in values.iter().enumerate() {
            let (r, c) = (at / 96, at % 96);
            let ternary = alphas[r] * (code(name, at) as f32 - 1.0);
            match value {
                Some(value) if (r, c) == (row, col) => assert_eq!(found, value),
                None if r == row && c / 32 == col / 32 => {
                    assert!((found - ternary).abs() < alphas[r])
                }
                _ => assert_eq!(found, ternary, "{change} {r} {c}"),
            }
        }
        // The others are packed as ever.
        assert!(weights.layers[0].k.is_ternary() && weights.summary.packed_experts == 6);
    }
}

#[test]
fn plain_matrices_among_them_are_kept_or_packed_as_in_the_plain_layout() {
    let config = mlx_config();
    let hf = hf_tensors(&parsed(&config));
    let mut tensors = mlx_tensors(&parsed(&config));
    for name in ["lm_head", "model.layers.0.self_attn.q_proj"] {
        tensors.retain(|tensor, _| !tensor.starts_with(name));
        tensors.insert(
            format!("{name}.weight"),
            hf[&format!("{name}.weight")].clone(),
        );
    }
    let weights = load_folder(&hf_folder(&config, &tensors)).unwrap();
    assert!(weights.layers[0].q.is_ternary() && weights.screen.is_some());
    assert!(matches!(
        weights.head.as_ref().unwrap().view(),
        Mat::Dense(_)
    ));
}

#[test]
fn an_override_for_no_matrix_is_said() {
    let mut config = mlx_config();
    config["quantization"]["model.embed_tokens"] = json!({ "bits": 4 });
    let weights = load_folder(&hf_folder(&config, &mlx_tensors(&parsed(&config)))).unwrap();
    assert_eq!(weights.summary.warnings.len(), 1);
    assert!(weights.summary.warnings[0].contains("quantization.model.embed_tokens"));
}
