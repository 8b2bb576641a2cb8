//! Checkpoints whose files are sound and whose tensors are not what config.json describes.

use model::error::{Defect, Error};
use serde_json::json;

use crate::maker::*;
use crate::mlx::{mlx_config, mlx_tensors, with_groups};

fn name(text: &str) -> String {
    text.to_owned()
}

/// The defect of the plain checkpoint after a change.
#[track_caller]
fn hf_defect(change: impl FnOnce(&mut Tensors)) -> Defect {
    let mut tensors = hf_tensors(&parsed(&config()));
    change(&mut tensors);
    defect(&hf_folder(&config(), &tensors)).1
}

/// The defect of the MLX checkpoint after a change.
#[track_caller]
fn mlx_defect(change: impl FnOnce(&mut Tensors)) -> Defect {
    let mut tensors = mlx_tensors(&parsed(&mlx_config()));
    change(&mut tensors);
    defect(&hf_folder(&mlx_config(), &tensors)).1
}

fn missing(tensor: &str) -> Defect {
    Defect::Missing {
        tensor: name(tensor),
        hint: String::new(),
    }
}

#[test]
fn every_tensor_is_needed_and_no_other_is_wanted() {
    for tensor in hf_tensors(&parsed(&config())).keys() {
        let found = hf_defect(|tensors| drop(tensors.remove(tensor)));
        assert!(
            matches!(&found, Defect::Missing { tensor: found, .. } if found == tensor),
            "{found:?}"
        );
    }
    for tensor in mlx_tensors(&parsed(&mlx_config())).keys() {
        let found = mlx_defect(|tensors| drop(tensors.remove(tensor)));
        let Defect::Missing {
            tensor: found,
            hint,
        } = found
        else {
            panic!("{tensor}: {found:?}")
        };
        // Without the scales it may be either form that is incomplete; the stack is looked for by its name.
        let stem = |name: &str| name.rsplit_once('.').unwrap().0.to_owned();
        assert!(
            stem(&found) == stem(tensor) || hint.is_empty() && found.contains("experts"),
            "{tensor}: {found}"
        );
    }
    for extra in [
        "model.layers.2.input_layernorm.weight",
        "model.layers.0.mlp.experts.3.up_proj.weight",
        "lm_head.bias",
        "x",
    ] {
        let tensor = Tensor::bf16(&[2], |_| 0.0);
        assert_eq!(
            hf_defect(|tensors| drop(tensors.insert(name(extra), tensor))),
            Defect::Unexpected {
                tensor: name(extra)
            }
        );
    }
    let extra = "model.layers.0.self_attn.q_proj.bias";
    let found =
        mlx_defect(|tensors| drop(tensors.insert(name(extra), Tensor::bf16(&[128], |_| 0.0))));
    assert_eq!(
        found,
        Defect::Unexpected {
            tensor: name(extra)
        }
    );
}

#[test]
fn shapes_and_dtypes_are_those_of_the_configuration() {
    let q = "model.layers.0.self_attn.q_proj.weight";
    let shape = |found: &[u64]| Defect::Shape {
        tensor: name(q),
        expected: vec![128, 96],
        found: found.to_vec(),
    };
    for wrong in [&[96, 128][..], &[128 * 96], &[128, 96, 1], &[127, 96]] {
        let tensor = Tensor::bf16(wrong, |_| 0.0);
        let wrong: Vec<u64> = wrong.iter().map(|&n| n as u64).collect();
        assert_eq!(
            hf_defect(|tensors| drop(tensors.insert(name(q), tensor))),
            shape(&wrong)
        );
    }
    for (dtype, size) in [
        ("F64", 8),
        ("I32", 4),
        ("U8", 1),
        ("BOOL", 1),
        ("F8_E4M3", 1),
        ("I64", 8),
    ] {
        for tensor in [q, "model.norm.weight", "model.word_embeddings.weight"] {
            let found = hf_defect(|tensors| {
                let tensor = tensors.get_mut(tensor).unwrap();
                tensor.dtype = dtype;
                tensor.data = vec![0; tensor.shape.iter().product::<usize>() * size];
            });
            assert_eq!(
                found,
                Defect::Dtype {
                    tensor: name(tensor),
                    expected: "BF16, F16 or F32",
                    found: dtype
                }
            );
        }
    }
}

#[test]
fn numbers_must_be_finite_and_the_place_is_named() {
    let place = |value, index: &[u64], tensor: &str| Defect::NotFinite {
        tensor: name(tensor),
        value,
        index: index.to_vec(),
    };
    let values = [
        (0x7fc0u16, "NaN"),
        (0xff81, "NaN"),
        (0x7f80, "inf"),
        (0xff80, "-inf"),
    ];
    let tensors = [
        ("model.word_embeddings.weight", 96),
        ("lm_head.weight", 96),
        ("model.layers.0.self_attn.k_proj.weight", 96),
        ("model.layers.1.mlp.gate.weight", 96),
        ("model.layers.1.mlp.experts.2.down_proj.weight", 32),
    ];
    for (bits, value) in values {
        for (tensor, cols) in tensors {
            for at in [0, cols + 5, 2 * cols - 1] {
                let found = hf_defect(|tensors| {
                    tensors.get_mut(tensor).unwrap().data[2 * at..][..2]
                        .copy_from_slice(&bits.to_le_bytes());
                });
                assert_eq!(
                    found,
                    place(value, &[(at / cols) as u64, (at % cols) as u64], tensor)
                );
            }
        }
        let norm = "model.layers.0.self_attn.q_norm.weight";
        let found = hf_defect(|tensors| {
            tensors.get_mut(norm).unwrap().data[2 * 31..].copy_from_slice(&bits.to_le_bytes())
        });
        assert_eq!(found, place(value, &[31], norm));
    }
    let up = "model.layers.0.mlp.experts.0.up_proj.weight";
    let found = hf_defect(|tensors| {
        *tensors.get_mut(up).unwrap() =
            Tensor::f32(&[32, 96], |at| if at == 100 { f32::NAN } else { 0.0 });
    });
    assert_eq!(found, place("NaN", &[1, 4], up));
    let found = hf_defect(|tensors| {
        let data = (0..32 * 96)
            .flat_map(|at| if at == 95 { [0x00, 0xfc] } else { [0, 0] })
            .collect();
        *tensors.get_mut(up).unwrap() = Tensor {
            dtype: "F16",
            shape: vec![32, 96],
            data,
        };
    });
    assert_eq!(found, place("-inf", &[0, 95], up));
}

#[test]
fn mlx_scales_must_be_finite_and_in_range() {
    let place = |tensor: &str, value, index: &[u64]| Defect::NotFinite {
        tensor: name(tensor),
        value,
        index: index.to_vec(),
    };
    let spoil = |tensor: &'static str, at: usize, bits: u16| {
        move |tensors: &mut Tensors| {
            tensors.get_mut(tensor).unwrap().data[2 * at..][..2]
                .copy_from_slice(&bits.to_le_bytes())
        }
    };
    let stack = "model.layers.0.mlp.switch_mlp.up_proj.row_alpha";
    assert_eq!(
        mlx_defect(spoil(stack, 2 * 32 + 7, 0x7fc0)),
        place(stack, "NaN", &[2, 7])
    );
    let alpha = "model.layers.1.self_attn.o_proj.row_alpha";
    assert_eq!(
        mlx_defect(spoil(alpha, 95, 0xff80)),
        place(alpha, "-inf", &[95])
    );
    for tensor in ["lm_head.scales", "model.word_embeddings.biases"] {
        assert_eq!(
            mlx_defect(spoil(tensor, 3 * 3 + 2, 0x7f80)),
            place(tensor, "inf", &[3, 2])
        );
    }
    // Finite, but fifteen times it is not.
    assert_eq!(
        mlx_defect(spoil("lm_head.scales", 0, 0x7f00)),
        place("lm_head.scales", "inf", &[0, 0])
    );
}

#[test]
fn mlx_code_three_is_no_ternary_value() {
    let weight = "model.layers.1.self_attn.v_proj.weight";
    let found =
        mlx_defect(|tensors| tensors.get_mut(weight).unwrap().data[4 * (6 * 10 + 2) + 1] |= 0x0c);
    assert_eq!(
        found,
        Defect::Code {
            tensor: name(weight),
            index: vec![10, 37]
        }
    );
    let stack = "model.layers.0.mlp.switch_mlp.down_proj.weight";
    let found = mlx_defect(|tensors| {
        tensors.get_mut(stack).unwrap().data[4 * (96 * 2 + 2 * 95 + 1)] |= 0x03
    });
    assert_eq!(
        found,
        Defect::Code {
            tensor: name(stack),
            index: vec![1, 95, 16]
        }
    );
}

#[test]
fn mlx_forms_must_be_whole_and_one() {
    let q = "model.layers.0.self_attn.q_proj";
    let part = |part: &str| format!("{q}.{part}");
    let both = |second: &str| Defect::BothForms {
        first: part("row_alpha"),
        second: part(second),
    };
    for other in ["scales", "biases"] {
        let tensor = Tensor::bf16(&[128, 3], |_| 1.0);
        assert_eq!(
            mlx_defect(|tensors| drop(tensors.insert(part(other), tensor))),
            both(other)
        );
    }
    let neither = Defect::Missing {
        tensor: part("scales"),
        hint: name(", and so is `row_alpha`"),
    };
    assert_eq!(
        mlx_defect(|tensors| drop(tensors.remove(&part("row_alpha")))),
        neither
    );
    for ending in ["scales", "biases"] {
        let mut tensors = with_groups(&mlx_tensors(&parsed(&mlx_config())));
        tensors.remove(&part(ending));
        assert_eq!(
            defect(&hf_folder(&mlx_config(), &tensors)).1,
            missing(&part(ending))
        );
    }
    let shape = |tensor: &str, expected: &[u64], found: &[u64]| Defect::Shape {
        tensor: name(tensor),
        expected: expected.to_vec(),
        found: found.to_vec(),
    };
    let replace =
        |tensor: String, by: Tensor| move |tensors: &mut Tensors| drop(tensors.insert(tensor, by));
    assert_eq!(
        mlx_defect(replace(part("row_alpha"), Tensor::bf16(&[127], |_| 1.0))),
        shape(&part("row_alpha"), &[128], &[127])
    );
    assert_eq!(
        mlx_defect(replace(part("weight"), Tensor::u32(&[128, 12], |_| 0))),
        shape(&part("weight"), &[128, 6], &[128, 12])
    );
    assert_eq!(
        mlx_defect(replace(
            name("lm_head.scales"),
            Tensor::bf16(&[70, 2], |_| 1.0)
        )),
        shape("lm_head.scales", &[70, 3], &[70, 2])
    );
    let as_float = Tensor {
        dtype: "I32",
        ..Tensor::u32(&[128, 6], |_| 0)
    };
    let dtype = Defect::Dtype {
        tensor: part("weight"),
        expected: "U32 (packed codes), BF16, F16 or F32",
        found: "I32",
    };
    assert_eq!(mlx_defect(replace(part("weight"), as_float)), dtype);
    let as_int = Tensor {
        dtype: "U32",
        ..Tensor::u32(&[128], |_| 0)
    };
    let dtype = Defect::Dtype {
        tensor: part("row_alpha"),
        expected: "BF16, F16 or F32",
        found: "U32",
    };
    assert_eq!(mlx_defect(replace(part("row_alpha"), as_int)), dtype);
}

#[test]
fn mlx_experts_are_stacked_or_single_and_all_there() {
    let stack = "model.layers.0.mlp.switch_mlp.gate_proj";
    let found = mlx_defect(|tensors| {
        let tensor = tensors.get_mut(&format!("{stack}.weight")).unwrap();
        tensor.shape[0] = 2;
        tensor.data.truncate(2 * 32 * 6 * 4);
    });
    let expected = Defect::Shape {
        tensor: format!("{stack}.weight"),
        expected: vec![3, 32, 6],
        found: vec![2, 32, 6],
    };
    assert_eq!(found, expected);
    let single = "model.layers.0.mlp.experts.0.gate_proj.weight";
    let found =
        mlx_defect(|tensors| drop(tensors.insert(name(single), Tensor::u32(&[32, 6], |_| 0))));
    let both = Defect::BothForms {
        first: format!("{stack}.weight"),
        second: name("model.layers.0.mlp.experts.*"),
    };
    assert_eq!(found, both);
    // One projection of a stack is missing: it is asked for by the stack's name.
    let found = mlx_defect(|tensors| tensors.retain(|tensor, _| !tensor.starts_with(stack)));
    assert_eq!(found, missing(&format!("{stack}.weight")));
}

#[test]
fn mlx_settings_must_be_there_and_fit() {
    let refused = |change: fn(&mut serde_json::Value)| {
        let mut config = mlx_config();
        change(&mut config);
        load_folder(&hf_folder(&config, &mlx_tensors(&parsed(&config)))).unwrap_err()
    };
    let field = |change, expected: &str| match refused(change) {
        Error::Field { field, .. } => assert_eq!(field, expected),
        other => panic!("{expected}: {other}"),
    };
    field(
        |c| drop(c.as_object_mut().unwrap().remove("quantization")),
        "quantization",
    );
    field(|c| c["quantization"] = json!("4bit"), "quantization");
    field(
        |c| c["quantization"] = json!({ "group_size": 32 }),
        "quantization.bits",
    );
    field(
        |c| c["quantization"]["bits"] = json!(3),
        "quantization.bits",
    );
    field(
        |c| c["quantization"]["bits"] = json!("2"),
        "quantization.bits",
    );
    field(
        |c| c["quantization"]["group_size"] = json!(16),
        "quantization.group_size",
    );
    field(
        |c| c["quantization"]["lm_head"]["bits"] = json!(5),
        "quantization.lm_head.bits",
    );
    field(
        |c| c["quantization"]["lm_head"] = json!(4),
        "quantization.lm_head",
    );
    field(
        |c| c["quantization"]["lm_head"] = json!(false),
        "quantization.lm_head",
    );
    // Two-bit rows with a scale each cannot have four bits; 96 columns make no groups of 64.
    field(
        |c| c["quantization"]["bits"] = json!(4),
        "quantization.bits",
    );
    field(
        |c| c["quantization"]["lm_head"]["group_size"] = json!(64),
        "quantization.lm_head.group_size",
    );
    let error = refused(|c| c["quantization"]["mode"] = json!("mxfp4"));
    assert!(
        matches!(&error, Error::Unsupported { field, .. } if field == "quantization.mode"),
        "{error}"
    );
    assert_eq!(error.code(), "UNSUPPORTED_MODEL");
    // A head of four bits that is said to have eight.
    let error = refused(|c| c["quantization"]["lm_head"]["bits"] = json!(8));
    assert!(
        matches!(&error, Error::Checkpoint { defect: Defect::Shape { tensor, .. }, .. } if tensor == "lm_head.weight"),
        "{error}"
    );
    // Another library's quantisation of a plain checkpoint.
    let mut config = config();
    config["quantization_config"] = json!({ "quant_method": "fp8" });
    let error = load_folder(&hf_folder(&config, &hf_tensors(&parsed(&config)))).unwrap_err();
    assert!(
        matches!(&error, Error::Unsupported { field, .. } if field == "quantization_config"),
        "{error}"
    );
}
