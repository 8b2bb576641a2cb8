//! GGUF files, well-formed: the same weights as from the other layouts, in all the forms files come in.

use std::sync::LazyLock;

use model::config::LayerKind;
use model::error::Error;
use model::load::{LoadOptions, Silent, load};
use model::slots::MatrixSlot;
use model::weights::{DenseType, Format, Matrix, Weights};

use crate::gguf_maker::*;
use crate::hf::{matrix, values};
use crate::maker::*;

/// A sound file, made once.
pub fn good() -> Gguf {
    static GOOD: LazyLock<Gguf> = LazyLock::new(|| gguf(&parsed(&gguf_config())));
    GOOD.clone()
}

pub fn load_gguf(file: &Gguf) -> Result<Weights, Error> {
    let (_folder, path) = file.write();
    load(&path, &LoadOptions::default(), &Silent)
}

#[track_caller]
pub fn says(result: Result<Weights, Error>, words: &[&str]) {
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
fn routers_of_32_bits_take_half_where_that_loses_nothing() {
    let exact = |at: usize| ((at % 200) as f32 - 100.0) / 64.0;
    let inexact = |at: usize| if at == 7 { 0.1 } else { exact(at) };
    for (value, dtype) in [
        (&exact as &dyn Fn(usize) -> f32, DenseType::Bf16),
        (&inexact, DenseType::F32),
    ] {
        let mut file = good();
        let router = file.tensor("blk.1.ffn_gate_inp.weight");
        let count = router.dims.iter().product::<u64>() as usize;
        let numbers: Vec<f32> = (0..count).map(value).collect();
        router.ty = 0;
        router.data = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let weights = load_gguf(&file).unwrap();
        let router = &weights.layers[1].router;
        assert!(matches!(router, Matrix::Dense { dtype: found, .. } if *found == dtype));
        assert_eq!(values(router), numbers);
        let (_folder, path) = file.write();
        let as_it_is = LoadOptions {
            pack_experts: false,
            ..Default::default()
        };
        let weights = load(&path, &as_it_is, &Silent).unwrap();
        let router = &weights.layers[1].router;
        assert!(matches!(
            router,
            Matrix::Dense {
                dtype: DenseType::F32,
                ..
            }
        ));
        assert_eq!(values(router), numbers);
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

/// Two parts, the first with so many of the tensors.
pub fn split(mut first: Gguf, tensors: usize) -> [Gguf; 2] {
    let mut second = first.clone();
    let count = first.tensors.len() as u32;
    second.tensors = first.tensors.split_off(tensors);
    second.keys.clear();
    for (no, part) in [&mut first, &mut second].into_iter().enumerate() {
        part.u32("split.no", no as u32)
            .u32("split.count", 2)
            .u32("split.tensors.count", count);
    }
    [first, second]
}

#[test]
fn split_files_load_by_the_first_part() {
    let whole = load_gguf(&good()).unwrap();
    let [mut first, mut second] = split(good(), 9);
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
        &["this is part 2 of 2; name the first one"],
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
    second.tensors.pop();
    second.tensors.pop();
    folder.write("m-00002-of-00002.gguf", second.bytes());
    says(
        load(&path, &LoadOptions::default(), &Silent),
        &["m-00001-of-00002.gguf", "split.tensors.count is"],
    );
    first.u32("split.count", 1 << 31);
    folder.write("m-00001-of-00002.gguf", first.bytes());
    says(
        load(&path, &LoadOptions::default(), &Silent),
        &["split.count"],
    );
    first.u32("split.count", 2);
    let renamed = folder.write("m.gguf", first.bytes());
    says(
        load(&renamed, &LoadOptions::default(), &Silent),
        &["m.gguf", "-00001-of-00002.gguf"],
    );
}
