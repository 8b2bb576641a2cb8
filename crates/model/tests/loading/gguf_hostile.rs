//! GGUF files with something wrong: a clear word for each.

use model::error::{Defect, Error};
use model::load::{LoadOptions, Silent, load};

use crate::gguf::{good, load_gguf, says};
use crate::gguf_maker::*;
use crate::maker::*;

/// Changes a good file; the error must say all of `words`.
#[track_caller]
fn refused(change: impl FnOnce(&mut Gguf), words: &[&str]) {
    let mut file = good();
    change(&mut file);
    says(load_gguf(&file), words);
}

#[test]
fn a_file_cut_at_any_section_is_refused() {
    let bytes = good().bytes();
    let data = good().tensors.iter().map(|t| t.data.len()).sum::<usize>();
    let folder = TempFolder::in_memory();
    // Everywhere in the header, here and there in the data.
    let cuts = (0..bytes.len() - data)
        .chain((bytes.len() - data..bytes.len()).step_by(19_997))
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
    let folder = TempFolder::in_memory();
    for at in (0..header).step_by(5) {
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
    refused(|f| f.counts.1 = Some(2), &[]);
    refused(
        |f| f.keys.push(f.keys[0].clone()),
        &["general.architecture", "twice"],
    );
    refused(
        |f| f.tensors.push(f.tensors[3].clone()),
        &["is there twice"],
    );
    refused(
        |f| {
            f.set("a", 13, [0; 4]);
        },
        &["unknown value type 13"],
    );
    refused(
        |f| {
            f.set("a", ARRAY, array(77, 1, &[0; 4]));
        },
        &["unknown value type 77"],
    );
    refused(
        |f| {
            f.set("a", ARRAY, array(U32, 1 << 62, &[0; 4]));
        },
        &["element count of key \"a\" is 4611686018427387904"],
    );
    refused(
        |f| {
            f.set("a", ARRAY, array(STRING, 1, &u64::MAX.to_le_bytes()));
        },
        &["needs 18446744073709551615 bytes"],
    );
    refused(
        |f| {
            f.set("a", STRING, (1u64 << 40).to_le_bytes());
        },
        &["needs 1099511627776 bytes"],
    );
    refused(
        |f| {
            f.set("a", STRING, [1, 0, 0, 0, 0, 0, 0, 0, 0xff]);
        },
        &["not UTF-8"],
    );
    refused(
        |f| {
            f.set("a", BOOL, [2]);
        },
        &["neither 0 nor 1"],
    );
    let nested = (0..6).fold(array(U32, 0, &[]), |inner, _| array(ARRAY, 1, &inner));
    refused(
        |f| {
            f.set("a", ARRAY, nested);
        },
        &["nests arrays deeper than 4"],
    );
    for alignment in [0, 7, 12] {
        refused(
            |f| {
                f.u32("general.alignment", alignment);
            },
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
        refused(
            |f| {
                f.remove(&key(name));
            },
            &[name, "missing"],
        );
        refused(
            |f| {
                f.set(&key(name), STRING, text("many"));
            },
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
            |f| {
                f.u32(&key(name), 0);
            },
            &[name, "is 0, expected 1 to"],
        );
        refused(
            |f| {
                f.u32(&key(name), u32::MAX);
            },
            &[name, "4294967295"],
        );
        refused(
            |f| {
                f.set(&key(name), 5, (-3i32).to_le_bytes());
            },
            &[name, "is -3"],
        );
    }
    refused(
        |f| {
            f.u32(&key("attention.head_count"), 7);
        },
        &["multiple of head_count_kv, 2"],
    );
    refused(
        |f| {
            f.u32(&key("expert_used_count"), 4);
        },
        &["at most expert_count, 3"],
    );
    refused(
        |f| {
            f.u32(&key("attention.value_length"), 64);
        },
        &["value_length", "the key length, 32"],
    );
    refused(
        |f| {
            f.u32(&key("rope.dimension_count"), 15);
        },
        &["even"],
    );
    refused(
        |f| {
            f.set(&key("rope.freq_base"), F32, f32::NAN.to_le_bytes());
        },
        &["finite"],
    );
    refused(
        |f| {
            f.set(
                &key("attention.layer_norm_rms_epsilon"),
                F32,
                2f32.to_le_bytes(),
            );
        },
        &["below 1"],
    );
    refused(
        |f| {
            f.set(&key("swiglu_clamp_exp"), ARRAY, array(F32, 1, &[0; 4]));
        },
        &["1 elements, expected 2"],
    );
    refused(
        |f| {
            f.set(&key("swiglu_clamp_exp"), ARRAY, array(F32, 2, &[0; 8]));
        },
        &["positive floats"],
    );
    refused(
        |f| {
            f.u32(&key("expert_shared_count"), 1);
        },
        &["expert_shared_count"],
    );
    refused(
        |f| {
            f.set(&key("rope.scaling.type"), STRING, text("yarn"));
        },
        &["rope.scaling.type"],
    );
    refused(
        |f| {
            f.u32("tokenizer.ggml.eos_token_id", 70);
        },
        &["eos_token_id", "is 70, expected 0 to 69"],
    );
    refused(
        |f| {
            f.set("general.architecture", STRING, text("llama"));
        },
        &["\"llama\"", "\"maple\""],
    );
    refused(
        |f| {
            f.remove("general.architecture");
        },
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
        |f| {
            f.u32("maple.vocab_size", 71);
        },
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
