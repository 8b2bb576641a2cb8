//! config.json with something wrong: the field is named, and what it must be.

use std::path::Path;

use model::config::{Config, LayerKind};
use model::error::{Defect, Error};
use serde_json::{Value, json};

use crate::maker::*;

fn read(config: &Value) -> Result<Config, Error> {
    Config::from_json(Path::new("config.json"), config.to_string().as_bytes())
}

/// config.json with one field changed (`null` counts as absent; see [`without`] for truly absent).
fn with(field: &str, value: Value) -> Value {
    let mut config = config();
    config[field] = value;
    config
}

fn without(field: &str) -> Value {
    let mut config = config();
    config.as_object_mut().unwrap().remove(field);
    config
}

#[track_caller]
fn bad_field(config: &Value, name: &str) {
    match read(config) {
        Err(error @ Error::Field { .. }) => {
            assert_eq!(error.code(), "INVALID_CHECKPOINT");
            assert!(
                error.to_string().contains(&format!("`{name}` must be ")),
                "{error}"
            );
        }
        other => panic!("{name}: {other:?} in {config}"),
    }
}

#[track_caller]
fn unsupported(config: &Value, name: &str) {
    match read(config) {
        Err(error @ Error::Unsupported { .. }) => {
            assert_eq!(error.code(), "UNSUPPORTED_MODEL");
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
        other => panic!("{name}: {other:?} in {config}"),
    }
}

#[test]
fn sizes_are_required_whole_and_within_reason() {
    let sizes = [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "num_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "vocab_size",
        "sliding_window",
    ];
    for field in sizes {
        bad_field(&without(field), field);
        let bad = [
            json!(null),
            json!(0),
            json!(-1),
            json!(2.5),
            json!("4"),
            json!([4]),
            json!(true),
        ];
        for value in bad
            .into_iter()
            .chain([json!(u64::MAX), json!(1u64 << 40), json!(1e30)])
        {
            bad_field(&with(field, value), field);
        }
    }
    bad_field(
        &with("num_key_value_heads", json!(3)),
        "num_attention_heads",
    );
    bad_field(
        &with("num_experts_per_tok", json!(4)),
        "num_experts_per_tok",
    );
    let mut wide = with("head_dim", json!(16384));
    wide["num_attention_heads"] = json!(4096);
    bad_field(&wide, "head_dim");
}

#[test]
fn layer_types_say_each_layers_kind() {
    bad_field(&without("layer_types"), "layer_types");
    for value in [
        json!("full_attention"),
        json!([]),
        json!(["full_attention"]),
        json!(["full_attention", "full_attention", "full_attention"]),
    ] {
        bad_field(&with("layer_types", value), "layer_types");
    }
    for value in [
        json!(["full_attention", "linear_attention"]),
        json!(["full_attention", null]),
    ] {
        unsupported(&with("layer_types", value), "layer_types[1]");
    }
    // Where no layer slides, no window is needed.
    let mut full = without("sliding_window");
    full["layer_types"] = json!(["full_attention", "full_attention"]);
    assert_eq!(read(&full).unwrap().layers, [LayerKind::Full; 2]);
    assert_eq!(
        read(&config()).unwrap().layers,
        [LayerKind::Sliding, LayerKind::Full]
    );
}

#[test]
fn another_architecture_or_setting_is_refused_by_name() {
    for value in [
        json!(["LlamaForCausalLM"]),
        json!([]),
        json!("MapleForCausalLM"),
        json!(["MapleForCausalLM", "X"]),
    ] {
        unsupported(&with("architectures", value), "architectures");
    }
    unsupported(&with("model_type", json!("llama")), "model_type");
    unsupported(&with("model_type", json!(1)), "model_type");
    let mut nameless = without("architectures");
    assert!(read(&nameless).is_ok());
    nameless["model_type"] = json!(null);
    unsupported(&nameless, "architectures");
    assert!(read(&without("model_type")).is_ok());
    let settings = [
        ("norm_topk_prob", json!(true), json!(false)),
        ("nope_on_global_attention", json!(true), json!(false)),
        ("use_qk_norm", json!(true), json!(false)),
        ("use_bias", json!(false), json!(true)),
        ("hidden_act", json!("silu"), json!("gelu")),
        ("num_shared_experts", json!(0), json!(1)),
        ("first_k_dense_replace", json!(0), json!(1)),
    ];
    for (field, right, wrong) in settings {
        for value in [right, json!(null)] {
            assert!(read(&with(field, value)).is_ok(), "{field}");
        }
        unsupported(&with(field, wrong), field);
        unsupported(&with(field, json!("x")), field);
    }
    unsupported(
        &with("rope_scaling", json!({ "type": "yarn" })),
        "rope_scaling",
    );
    assert!(read(&with("rope_scaling", json!(null))).is_ok());
}

#[test]
fn missing_constants_are_the_published_models_with_a_warning() {
    let fields = [
        "rope_theta",
        "partial_rotary_factor",
        "rms_norm_eps",
        "max_position_embeddings",
    ];
    for field in fields {
        for config in [without(field), with(field, json!(null))] {
            let config = read(&config).unwrap();
            assert_eq!(config.warnings.len(), 1, "{field}");
            assert!(
                config.warnings[0].contains(&format!("`{field}` is missing")),
                "{:?}",
                config.warnings
            );
        }
        bad_field(&with(field, json!("1")), field);
        bad_field(&with(field, json!(-1)), field);
    }
    let mut bare = config();
    fields
        .iter()
        .for_each(|field| drop(bare.as_object_mut().unwrap().remove(*field)));
    let config = read(&bare).unwrap();
    assert_eq!(
        (
            config.rope_theta,
            config.rotated,
            config.rms_eps,
            config.max_positions
        ),
        (1e4, 16, 1e-6, 131_072)
    );
    assert_eq!(config.warnings.len(), 4);
}

#[test]
fn rotation_is_an_even_number_of_dimensions_rounded_down() {
    for (head_dim, factor, rotated) in [
        (32, 0.5, 16),
        (32, 0.0, 0),
        (32, 1.0, 32),
        (24, 0.25, 6),
        (32, 0.53, 16),
        (10, 0.0999, 0),
    ] {
        let mut config = with("head_dim", json!(head_dim));
        config["partial_rotary_factor"] = json!(factor);
        assert_eq!(
            read(&config).unwrap().rotated,
            rotated,
            "{head_dim} {factor}"
        );
    }
    bad_field(
        &with("partial_rotary_factor", json!(0.1)),
        "partial_rotary_factor",
    ); // 3 of 32
    bad_field(
        &with("partial_rotary_factor", json!(1.5)),
        "partial_rotary_factor",
    );
    bad_field(&with("rope_theta", json!(0)), "rope_theta");
}

#[test]
fn nested_rotary_parameters_are_read_and_must_not_contradict() {
    let nested = |parameters: Value| {
        let mut config = without("rope_theta");
        config
            .as_object_mut()
            .unwrap()
            .remove("partial_rotary_factor");
        config["rope_parameters"] = parameters;
        config
    };
    for parameters in [
        json!({ "rope_theta": 5e4, "partial_rotary_factor": 0.25, "rope_type": "default" }),
        json!({ "sliding_attention": { "rope_theta": 5e4, "partial_rotary_factor": 0.25 }, "full_attention": null }),
    ] {
        let config = read(&nested(parameters)).unwrap();
        assert_eq!(
            (config.rope_theta, config.rotated, config.warnings.len()),
            (5e4, 8, 0)
        );
    }
    let mut contradicting = config();
    contradicting["rope_parameters"] = json!({ "rope_theta": 5e4 });
    bad_field(&contradicting, "rope_parameters.rope_theta");
    contradicting["rope_parameters"] = json!({ "rope_theta": 10000.0 });
    assert!(read(&contradicting).is_ok());
    bad_field(&nested(json!(4)), "rope_parameters");
    bad_field(
        &nested(json!({ "rope_theta": "x" })),
        "rope_parameters.rope_theta",
    );
    bad_field(
        &nested(json!({ "sliding_attention": 4 })),
        "rope_parameters.sliding_attention",
    );
    unsupported(
        &nested(json!({ "rope_type": "yarn" })),
        "rope_parameters.rope_type",
    );
}

#[test]
fn end_tokens_are_one_or_a_list_or_none() {
    for (value, ids) in [
        (json!(1), vec![1]),
        (json!([2, 1, 2]), vec![2, 1]),
        (json!(null), vec![]),
        (json!([]), vec![]),
    ] {
        assert_eq!(read(&with("eos_token_id", value)).unwrap().eos, ids);
    }
    let beyond = read(&with("eos_token_id", json!([1, 70]))).unwrap();
    assert_eq!((beyond.eos, beyond.warnings.len()), (vec![1], 1));
    for bad in [json!("1"), json!(-1), json!(1.5), json!([[1]]), json!({})] {
        bad_field(&with("eos_token_id", bad), "eos_token_id");
    }
    bad_field(
        &with("tie_word_embeddings", json!("yes")),
        "tie_word_embeddings",
    );
}

#[test]
fn it_must_be_one_sound_json_object() {
    let file = Path::new("config.json");
    for (bytes, depth) in [
        (&b"{"[..], false),
        (b"", false),
        (b"\xff", false),
        (&[b'['; 4000], true),
    ] {
        match Config::from_json(file, bytes) {
            Err(Error::Checkpoint {
                defect: Defect::TooDeep { .. },
                ..
            }) => assert!(depth),
            Err(Error::Checkpoint {
                defect: Defect::Json { .. },
                ..
            }) => assert!(!depth),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(
        Config::from_json(file, b"[]"),
        Err(Error::Field { .. })
    ));
    let twice = config().to_string().replacen('{', "{\"head_dim\":32,", 1);
    let error = Config::from_json(file, twice.as_bytes()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the name `head_dim` is there twice"),
        "{error}"
    );
}

#[test]
fn what_is_written_reads_back_the_same() {
    let mut odd = config();
    odd["head_dim"] = json!(24);
    odd["partial_rotary_factor"] = json!(0.26);
    odd["rope_theta"] = json!(12345.678);
    odd["rms_norm_eps"] = json!(1.1e-5);
    for config in [
        read(&odd).unwrap(),
        read(&config()).unwrap(),
        Config::maple_preview(),
    ] {
        assert_eq!(read(&config.to_json()).unwrap(), config);
    }
}
