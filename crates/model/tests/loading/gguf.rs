//! GGUF files: the same weights as from the other layouts, and a clear word for each thing that can be wrong.

use model::config::LayerKind;
use model::error::{Defect, Error};
use model::load::{LoadOptions, Silent, load};
use model::slots::MatrixSlot;
use model::weights::{Format, Matrix, Weights};

use crate::gguf_maker::*;
use crate::hf::{matrix, values};
use crate::maker::*;

fn good() -> Gguf {
    gguf(&parsed(&gguf_config()))
}

fn load_gguf(file: &Gguf) -> Result<Weights, Error> {
    let (_folder, path) = file.write();
    load(&path, &LoadOptions::default(), &Silent)
}

/// Changes a good file; the error must say all of `words`.
#[track_caller]
fn refused(change: impl FnOnce(&mut Gguf), words: &[&str]) {
    let mut file = good();
    change(&mut file);
    says(load_gguf(&file), words);
}

#[track_caller]
fn says(result: Result<Weights, Error>, words: &[&str]) {
    let message = match result {
        Ok(_) => panic!("expected an error with {words:?}"),
        Err(error) => error.to_string(),
    };
    assert!(message.contains(".gguf"), "names the file: {message}");
    for word in words {
        assert!(message.contains(word), "{word:?} in {message:?}");
    }
}

#[test]
fn the_same_weights_as_from_safetensors_bit_for_bit() {
    let (config, tensors) = (gguf_config(), hf_tensors(&parsed(&gguf_config())));
    let hf = load_folder(&hf_folder(&config, &tensors)).unwrap();
    let (_folder, path) = good().write();
    for map in [true, false] {
        let options = LoadOptions {
            map,
            ..Default::default()
        };
        let own = load(&path, &options, &Silent).unwrap();
        assert_eq!(own.summary.format, Format::Gguf);
        assert_eq!(own.summary.packed_experts, hf.summary.packed_experts);
        for slot in MatrixSlot::all(&hf.config) {
            match (matrix(&own, slot), matrix(&hf, slot)) {
                (
                    Matrix::Ternary { tiles, scales, .. },
                    Matrix::Ternary {
                        tiles: hf_tiles,
                        scales: hf_scales,
                        ..
                    },
                ) => assert!(
                    tiles[..] == hf_tiles[..] && scales[..] == hf_scales[..],
                    "{slot}"
                ),
                (own, hf) => assert_eq!(values(own), values(hf), "{slot}"),
            }
        }
        assert_eq!(own.norm, hf.norm);
        assert_eq!(own.layers[1].k_norm, hf.layers[1].k_norm);
        let mut expected = hf.config.clone();
        expected.bos = None;
        assert_eq!(own.config, expected);
    }
}

#[test]
fn blocks_that_differ_and_codes_of_plus_two_keep_their_values() {
    let name = "blk.0.attn_output.weight";
    let clean = values(&load_gguf(&good()).unwrap().layers[0].o);
    // The scale of the first row's first block (256 columns), doubled.
    let mut file = good();
    let scale = kernels::half::f16_to_f32(u16::from_le_bytes([
        file.tensor(name).data[64],
        file.tensor(name).data[65],
    ]));
    file.tensor(name).data[64..66]
        .copy_from_slice(&kernels::half::f32_to_f16(2.0 * scale).to_le_bytes());
    let weights = load_gguf(&file).unwrap();
    assert!(
        weights.layers[0].o.is_ternary(),
        "one block a row here: still row-ternary"
    );
    let doubled = values(&weights.layers[0].o);
    assert!(
        doubled[..256]
            .iter()
            .zip(&clean)
            .all(|(a, b)| *a == 2.0 * b)
            && doubled[256..] == clean[256..]
    );

    let mut file = good();
    file.tensor(name).data[0] |= 3;
    let weights = load_gguf(&file).unwrap();
    assert!(!weights.layers[0].o.is_ternary());
    let mut expected = clean.clone();
    expected[0] = 2.0 * scale;
    assert_eq!(values(&weights.layers[0].o), expected);
}

#[test]
fn a_row_of_blocks_with_scales_of_their_own_is_kept_exactly() {
    // Two blocks a row: 512 columns. The second row's second block has no +-1, so its scale does not matter.
    let mut config = gguf_config();
    config["hidden_size"] = serde_json::json!(512);
    let mut file = gguf(&parsed(&config));
    let tensor = file.tensor("blk.1.attn_k.weight");
    let row = 2 * 66;
    tensor.data[row + 66..row + 130].fill(0x55);
    tensor.data[row + 130..row + 132].copy_from_slice(&0x3c00u16.to_le_bytes());
    let same = load_gguf(&file).unwrap();
    assert!(same.layers[1].k.is_ternary());
    let before = values(&same.layers[1].k);
    file.tensor("blk.1.attn_k.weight").data[130..132].copy_from_slice(&0x3c00u16.to_le_bytes());
    let weights = load_gguf(&file).unwrap();
    assert!(matches!(weights.layers[1].k, Matrix::Grouped { .. }));
    let after = values(&weights.layers[1].k);
    assert_eq!(
        (&after[..256], &after[512..]),
        (&before[..256], &before[512..])
    );
    for (a, b) in after[256..512].iter().zip(&before[256..512]) {
        assert_eq!(*a, b.signum() * f32::from(u8::from(*b != 0.0)));
    }
}

#[test]
fn fused_projections_and_tied_heads_and_single_widths_are_read() {
    let clean = load_gguf(&good()).unwrap();
    let mut file = good();
    let parts =
        ["attn_q", "attn_k", "attn_v"].map(|p| file.tensor(&format!("blk.1.{p}.weight")).clone());
    file.tensors
        .retain(|t| !parts.iter().any(|p| p.name == t.name) && t.name != "output.weight");
    file.tensors.push(GgufTensor {
        name: "blk.1.attn_qkv.weight".into(),
        dims: vec![256, parts.iter().map(|p| p.dims[1]).sum()],
        ty: 35,
        data: parts.iter().flat_map(|p| p.data.clone()).collect(),
        offset: None,
    });
    file.set(
        "maple.swiglu_clamp_exp",
        ARRAY,
        array(F32, 2, &[7f32.to_le_bytes(), 5.5f32.to_le_bytes()].concat()),
    );
    file.set(
        "maple.expert_feed_forward_length",
        ARRAY,
        array(
            U32,
            2,
            &[256u32.to_le_bytes(), 256u32.to_le_bytes()].concat(),
        ),
    );
    file.set("maple.rope.freq_base_swa", F32, 500f32.to_le_bytes());
    let weights = load_gguf(&file).unwrap();
    for (own, expected) in [
        (&weights.layers[1].q, &clean.layers[1].q),
        (&weights.layers[1].k, &clean.layers[1].k),
        (&weights.layers[1].v, &clean.layers[1].v),
    ] {
        assert_eq!(values(own), values(expected));
    }
    assert!(weights.head.is_none() && weights.config.tied);
    assert_eq!(weights.config.swiglu_limit, [7.0, 5.5]);
    assert_eq!(weights.config.rope_theta, 500.0);
    assert_eq!(weights.config.layers, [LayerKind::Sliding, LayerKind::Full]);
}

#[test]
fn split_files_load_by_the_first_part() {
    let whole = load_gguf(&good()).unwrap();
    let mut first = good();
    let mut second = first.clone();
    second.tensors = first.tensors.split_off(9);
    second.keys.clear();
    let count = (first.tensors.len() + second.tensors.len()) as u32;
    for (no, part) in [&mut first, &mut second].into_iter().enumerate() {
        part.u32("split.no", no as u32)
            .u32("split.count", 2)
            .u32("split.tensors.count", count);
    }
    let folder = TempFolder::new();
    let path = folder.write("m-00001-of-00002.gguf", first.bytes());
    says(
        load(&path, &LoadOptions::default(), &Silent),
        &["m-00002-of-00002.gguf", "part 2 of 2"],
    );
    let other = folder.write("m-00002-of-00002.gguf", second.bytes());
    let weights = load(&path, &LoadOptions::default(), &Silent).unwrap();
    assert_eq!(values(&weights.layers[1].o), values(&whole.layers[1].o));

    says(
        load(&other, &LoadOptions::default(), &Silent),
        &["m-00002", "expected"],
    );
    second.u32("split.no", 5);
    folder.write("m-00002-of-00002.gguf", second.bytes());
    says(
        load(&path, &LoadOptions::default(), &Silent),
        &["m-00002-of-00002.gguf", "split.no is 5, expected 1"],
    );
    second
        .u32("split.no", 1)
        .tensors
        .push(first.tensors[0].clone());
    folder.write("m-00002-of-00002.gguf", second.bytes());
    says(
        load(&path, &LoadOptions::default(), &Silent),
        &["m-00002-of-00002.gguf", "is also in", "m-00001"],
    );
    let renamed = folder.write("m.gguf", first.bytes());
    says(
        load(&renamed, &LoadOptions::default(), &Silent),
        &["m.gguf", "-00001-of-00002.gguf"],
    );
}

#[test]
fn a_file_cut_at_any_section_is_refused() {
    let bytes = good().bytes();
    let folder = TempFolder::new();
    // Dense in the header, sparse in the data.
    let cuts = (0..300)
        .chain((300..bytes.len()).step_by(997))
        .chain([bytes.len() - 1]);
    for cut in cuts {
        let path = folder.write("cut.gguf", &bytes[..cut]);
        says(load(&path, &LoadOptions::default(), &Silent), &[]);
    }
}

#[test]
fn damage_to_any_byte_of_the_header_neither_panics_nor_allocates_without_bound() {
    let file = good().bytes();
    let header = file.len() - good().tensors.iter().map(|t| t.data.len()).sum::<usize>();
    let folder = TempFolder::new();
    for at in 0..header.min(6000) {
        let mut bytes = file.clone();
        bytes[at] ^= [0xff, 0x80, 0x01][at % 3];
        let path = folder.write("damaged.gguf", &bytes);
        // Some changes are harmless (a name in a message, a float's last bit); all must end in an answer.
        let _ = load(
            &path,
            &LoadOptions {
                threads: 1,
                ..Default::default()
            },
            &Silent,
        );
    }
}

#[test]
fn containers_are_checked() {
    refused(
        |f| f.magic = b"GGML".to_vec(),
        &["not a GGUF file", "expected \"GGUF\""],
    );
    refused(|f| f.version = 1, &["version 1", "2 and 3"]);
    refused(|f| f.version = 3u32.swap_bytes(), &["big-endian"]);
    refused(
        |f| f.counts.0 = Some(1 << 63),
        &["tensor count is 9223372036854775808"],
    );
    refused(
        |f| f.counts.1 = Some(u64::MAX),
        &["key count is 18446744073709551615"],
    );
    refused(|f| f.counts.1 = Some(2), &["at byte"]);
    refused(
        |f| f.keys.push(f.keys[0].clone()),
        &["general.architecture", "twice"],
    );
    refused(
        |f| f.tensors.push(f.tensors[3].clone()),
        &["is there twice"],
    );
    refused(|f| drop(f.set("a", 13, [0; 4])), &["unknown value type 13"]);
    refused(
        |f| drop(f.set("a", ARRAY, array(77, 1, &[0; 4]))),
        &["unknown value type 77"],
    );
    refused(
        |f| drop(f.set("a", ARRAY, array(U32, 1 << 62, &[0; 4]))),
        &["element count of key \"a\" is 4611686018427387904"],
    );
    refused(
        |f| drop(f.set("a", ARRAY, array(STRING, 1, &u64::MAX.to_le_bytes()))),
        &["needs 18446744073709551615 bytes"],
    );
    refused(
        |f| drop(f.set("a", STRING, (1u64 << 40).to_le_bytes())),
        &["needs 1099511627776 bytes"],
    );
    refused(
        |f| drop(f.set("a", STRING, [1, 0, 0, 0, 0, 0, 0, 0, 0xff])),
        &["not UTF-8"],
    );
    refused(|f| drop(f.set("a", BOOL, [2])), &["neither 0 nor 1"]);
    let nested = (0..6).fold(array(U32, 0, &[]), |inner, _| array(ARRAY, 1, &inner));
    refused(
        |f| drop(f.set("a", ARRAY, nested)),
        &["nests arrays deeper than 4"],
    );
    for alignment in [0, 7, 12] {
        refused(
            |f| drop(f.u32("general.alignment", alignment)),
            &["general.alignment"],
        );
    }
    refused(
        |f| f.tensor("output_norm.weight").dims = vec![1; 5],
        &["rank 5, expected 1 to 4"],
    );
    refused(
        |f| f.tensor("output_norm.weight").dims = vec![],
        &["rank 0"],
    );
    refused(
        |f| f.tensor("output_norm.weight").dims = vec![0],
        &["a size of 0"],
    );
    refused(
        |f| f.tensor("output.weight").dims = vec![1 << 33, 1 << 33],
        &["output.weight", "64 bits"],
    );
    refused(
        |f| f.tensor("output.weight").ty = 10,
        &["output.weight", "type 10", "TQ2_0 (35)"],
    );
    refused(
        |f| f.tensor("output.weight").dims = vec![255, 70],
        &["output.weight"],
    );
    refused(
        |f| f.tensor("blk.0.attn_q.weight").dims = vec![255, 256],
        &["255 weights cannot be TQ2_0", "256"],
    );
    refused(
        |f| f.tensor("output.weight").offset = Some(33),
        &["output.weight", "multiple of the alignment 32"],
    );
    refused(
        |f| f.tensor("output.weight").offset = Some(0),
        &["overlaps"],
    );
    refused(
        |f| f.tensor("output.weight").offset = Some(u64::MAX - 31),
        &["truncated", "output.weight"],
    );
    refused(|f| f.tensors[2].data.extend([0; 64]), &["hole of 64 bytes"]);
    refused(
        |f| f.tensors.last_mut().unwrap().data.extend([0; 64]),
        &["bytes follow the last tensor"],
    );
}

#[test]
fn keys_are_checked() {
    let key = |name: &str| format!("maple.{name}");
    for name in [
        "block_count",
        "context_length",
        "embedding_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "rope.dimension_count",
        "expert_count",
        "expert_used_count",
        "expert_feed_forward_length",
    ] {
        refused(|f| drop(f.remove(&key(name))), &[name, "missing"]);
        refused(
            |f| drop(f.set(&key(name), STRING, text("many"))),
            &[name, "a string"],
        );
    }
    for name in [
        "block_count",
        "embedding_length",
        "attention.head_count_kv",
        "expert_count",
    ] {
        refused(
            |f| drop(f.u32(&key(name), 0)),
            &[name, "is 0, expected 1 to"],
        );
        refused(|f| drop(f.u32(&key(name), u32::MAX)), &[name, "4294967295"]);
        refused(
            |f| drop(f.set(&key(name), 5, (-3i32).to_le_bytes())),
            &[name, "is -3"],
        );
    }
    refused(
        |f| drop(f.u32(&key("attention.head_count"), 7)),
        &["multiple of head_count_kv, 2"],
    );
    refused(
        |f| drop(f.u32(&key("expert_used_count"), 4)),
        &["at most expert_count, 3"],
    );
    refused(
        |f| drop(f.u32(&key("attention.value_length"), 64)),
        &["value_length", "the key length, 32"],
    );
    refused(|f| drop(f.u32(&key("rope.dimension_count"), 15)), &["even"]);
    refused(
        |f| drop(f.set(&key("rope.freq_base"), F32, f32::NAN.to_le_bytes())),
        &["finite"],
    );
    refused(
        |f| {
            drop(f.set(
                &key("attention.layer_norm_rms_epsilon"),
                F32,
                2f32.to_le_bytes(),
            ))
        },
        &["below 1"],
    );
    refused(
        |f| drop(f.set(&key("swiglu_clamp_exp"), ARRAY, array(F32, 1, &[0; 4]))),
        &["1 elements, expected 2"],
    );
    refused(
        |f| drop(f.set(&key("swiglu_clamp_exp"), ARRAY, array(F32, 2, &[0; 8]))),
        &["positive floats"],
    );
    refused(
        |f| drop(f.u32(&key("expert_shared_count"), 1)),
        &["expert_shared_count"],
    );
    refused(
        |f| drop(f.set(&key("rope.scaling.type"), STRING, text("yarn"))),
        &["rope.scaling.type"],
    );
    refused(
        |f| drop(f.u32("tokenizer.ggml.eos_token_id", 70)),
        &["eos_token_id", "is 70, expected 0 to 69"],
    );
    refused(
        |f| drop(f.set("general.architecture", STRING, text("llama"))),
        &["\"llama\"", "\"maple\""],
    );
    refused(
        |f| drop(f.remove("general.architecture")),
        &["general.architecture", "missing"],
    );
    let unsupported = {
        let mut file = good();
        file.set("general.architecture", STRING, text("llama"));
        load_gguf(&file).unwrap_err()
    };
    assert_eq!(unsupported.code(), "UNSUPPORTED_MODEL");
}

#[test]
fn tensors_are_checked() {
    refused(
        |f| f.tensors.retain(|t| t.name != "blk.1.ffn_up_exps.weight"),
        &["blk.1.ffn_up_exps.weight", "missing"],
    );
    let extra = GgufTensor {
        name: "blk.2.attn_norm.weight".into(),
        dims: vec![256],
        ty: 0,
        data: vec![0; 1024],
        offset: None,
    };
    refused(
        |f| f.tensors.push(extra),
        &["blk.2.attn_norm.weight", "not part of the model"],
    );
    refused(
        |f| f.tensor("blk.0.attn_norm.weight").dims = vec![64, 4],
        &["shape [4, 64], expected [256]"],
    );
    refused(
        |f| drop(f.u32("maple.vocab_size", 71)),
        &["token_embd.weight", "[70, 256], expected [71, 256]"],
    );
    refused(
        |f| {
            let norm = f.tensor("blk.0.ffn_norm.weight");
            norm.ty = 35;
            norm.data.truncate(66);
        },
        &["blk.0.ffn_norm.weight", "TQ2_0", "F32, F16 or BF16"],
    );
    let nan = |name: &'static str, at: usize| {
        move |f: &mut Gguf| f.tensor(name).data[at..at + 2].copy_from_slice(&[0xff, 0x7f])
    };
    refused(
        nan("output.weight", 512),
        &["output.weight", "NaN at [1, 0]"],
    );
    refused(
        nan("output_norm.weight", 6),
        &["output_norm.weight", "NaN at [3]"],
    );
    // Expert 2, row 1: 256 rows of one block of 66 bytes an expert.
    refused(
        nan("blk.0.ffn_down_exps.weight", (2 * 256 + 1) * 66 + 64),
        &["blk.0.ffn_down_exps.weight", "NaN at [2, 1, 0]"],
    );
    let (_folder, path) = good().write();
    let missing = path.with_file_name("absent.gguf");
    assert_eq!(
        load(&missing, &LoadOptions::default(), &Silent)
            .unwrap_err()
            .code(),
        "MODEL_NOT_FOUND"
    );
    match load_gguf(&{
        let mut file = good();
        file.version = 9;
        file
    }) {
        Err(Error::Checkpoint {
            defect: Defect::Gguf { .. },
            ..
        }) => {}
        other => panic!("{:?}", other.err()),
    }
}
