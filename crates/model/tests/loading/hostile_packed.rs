//! Packed files with something wrong: a user's file is checked like any other.

use std::collections::BTreeMap;
use std::fs;

use model::error::{Defect, Error};
use model::load::{LoadOptions, Silent, load, pack};
use serde_json::{Value, json};

use crate::maker::*;
use crate::mlx::{mlx_config, mlx_tensors};

/// A packed checkpoint taken apart: metadata and tensors.
struct Packed {
    folder: TempFolder,
    metadata: Value,
    tensors: BTreeMap<String, (String, Vec<u64>, Vec<u8>)>,
}

fn packed(config: &Value, tensors: &Tensors) -> Packed {
    let folder = TempFolder::new();
    let destination = folder.path().join("packed");
    pack(
        hf_folder(config, tensors).path(),
        &destination,
        &LoadOptions::default(),
        &Silent,
    )
    .unwrap();
    let bytes = fs::read(destination.join("model.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Map<String, Value> =
        serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let metadata = header.remove("__metadata__").unwrap();
    let tensor = |(name, entry): (String, Value)| {
        let number = |value: &Value| value.as_u64().unwrap();
        let offsets: Vec<usize> = entry["data_offsets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| number(n) as usize)
            .collect();
        let shape = entry["shape"]
            .as_array()
            .unwrap()
            .iter()
            .map(number)
            .collect();
        let data = bytes[8 + length..][offsets[0]..offsets[1]].to_vec();
        (
            name,
            (entry["dtype"].as_str().unwrap().to_owned(), shape, data),
        )
    };
    Packed {
        folder,
        metadata,
        tensors: header.into_iter().map(tensor).collect(),
    }
}

impl Packed {
    /// Puts it together again and loads it.
    fn load(&self) -> Result<model::weights::Weights, Error> {
        let mut header =
            serde_json::Map::from_iter([("__metadata__".to_owned(), self.metadata.clone())]);
        let mut data = Vec::new();
        for (name, (dtype, shape, bytes)) in &self.tensors {
            let begin = data.len();
            data.extend_from_slice(bytes);
            header.insert(
                name.clone(),
                json!({ "dtype": dtype, "shape": shape, "data_offsets": [begin, data.len()] }),
            );
        }
        let destination = self.folder.path().join("packed");
        fs::write(
            destination.join("model.safetensors"),
            raw_safetensors(&Value::Object(header).to_string(), &data),
        )
        .unwrap();
        load(&destination, &LoadOptions::default(), &Silent)
    }

    fn tensor(&mut self, name: &str) -> &mut (String, Vec<u64>, Vec<u8>) {
        self.tensors.get_mut(name).unwrap()
    }
}

fn mlx() -> Packed {
    packed(&mlx_config(), &mlx_tensors(&parsed(&mlx_config())))
}

fn hf() -> Packed {
    packed(&config(), &hf_tensors(&parsed(&config())))
}

#[track_caller]
fn refused(mut file: Packed, change: impl FnOnce(&mut Packed)) -> Defect {
    change(&mut file);
    match file.load() {
        Err(Error::Checkpoint { defect, .. }) => defect,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted"),
    }
}

#[test]
fn untouched_it_loads_wherever_its_data_lies() {
    assert_eq!(mlx().load().unwrap().summary.packed_experts, 6);
    assert_eq!(hf().load().unwrap().summary.packed_experts, 6);
}

#[test]
fn metadata_must_fit() {
    let mismatch = |change: fn(&mut Value)| match refused(mlx(), |file| change(&mut file.metadata))
    {
        Defect::PackedMismatch { field, .. } => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(mismatch(|m| m["layout"] = json!("999")), "layout");
    assert_eq!(
        mismatch(|m| drop(m.as_object_mut().unwrap().remove("layout"))),
        "layout"
    );
    let other_norm = |m: &mut Value| {
        let config = m["config"]
            .as_str()
            .unwrap()
            .replace("\"rms_norm_eps\":", "\"rms_norm_eps\":0.5,\"x\":");
        m["config"] = json!(config);
    };
    assert_eq!(mismatch(other_norm), "config");
    // Broken or absent, the configuration is refused as config.json would be.
    for config in [json!("{"), json!("[]"), json!("{}"), json!("")] {
        let mut file = mlx();
        file.metadata["config"] = config;
        assert!(
            ["INVALID_CHECKPOINT", "UNSUPPORTED_MODEL"].contains(&file.load().unwrap_err().code())
        );
    }
    // Without its mark it is read as the layout it then seems to be.
    assert!(matches!(
        refused(mlx(), |file| file.metadata = json!({})),
        Defect::Missing { .. }
    ));
}

#[test]
fn matrices_must_be_there_once_and_of_their_size() {
    let q = "model.layers.0.self_attn.q_proj";
    let missing = refused(mlx(), |file| {
        drop(file.tensors.remove(&format!("{q}.ternary")))
    });
    assert_eq!(
        missing,
        Defect::Missing {
            tensor: format!("{q}.*"),
            hint: String::new()
        }
    );
    let both = refused(mlx(), |file| {
        let weight = ("F32".to_owned(), vec![128, 96], vec![0; 4 * 128 * 96]);
        file.tensors.insert(format!("{q}.weight"), weight);
    });
    assert_eq!(
        both,
        Defect::BothForms {
            first: format!("{q}.ternary"),
            second: format!("{q}.weight")
        }
    );
    let short = refused(mlx(), |file| {
        let (_, shape, data) = file.tensor(&format!("{q}.ternary"));
        data.truncate(data.len() - 64);
        shape[0] -= 64;
    });
    assert!(matches!(short, Defect::Shape { tensor, .. } if tensor == format!("{q}.ternary")));
    let dtype = refused(mlx(), |file| {
        file.tensor(&format!("{q}.ternary")).0 = "I8".to_owned()
    });
    assert!(matches!(dtype, Defect::Dtype { found: "I8", .. }));
    let extra = refused(mlx(), |file| {
        drop(
            file.tensors
                .insert("x".into(), ("U8".into(), vec![1], vec![0])),
        )
    });
    assert_eq!(extra, Defect::Unexpected { tensor: "x".into() });
    let head = refused(mlx(), |file| {
        let (_, shape, data) = file.tensor("lm_head.q4g32.bf16");
        data.push(0);
        shape[0] += 1;
    });
    assert!(matches!(head, Defect::Shape { .. }));
    let no_screen = refused(hf(), |file| drop(file.tensors.remove("lm_head.screen")));
    assert_eq!(
        no_screen,
        Defect::Missing {
            tensor: "lm_head.screen".into(),
            hint: String::new()
        }
    );
    let norm = refused(hf(), |file| {
        file.tensor("model.norm.weight").0 = "I32".to_owned()
    });
    assert_eq!(
        norm,
        Defect::Dtype {
            tensor: "model.norm.weight".into(),
            expected: "F32",
            found: "I32"
        }
    );
}

#[test]
fn numbers_must_be_finite() {
    let not_finite = |file: Packed, name: &str, at: usize, bytes: &[u8]| {
        refused(file, |file| {
            let data = &mut file.tensor(name).2;
            let at = if at == usize::MAX {
                data.len() - bytes.len()
            } else {
                at
            };
            data[at..][..bytes.len()].copy_from_slice(bytes);
        })
    };
    let nan = f32::NAN.to_le_bytes();
    // Row scales follow the tiles: 2 strips of 6 tiles of 256 bytes.
    let found = not_finite(
        mlx(),
        "model.layers.0.self_attn.q_proj.ternary",
        2 * 6 * 256 + 4 * 9,
        &nan,
    );
    let q = "model.layers.0.self_attn.q_proj.ternary".to_owned();
    assert_eq!(
        found,
        Defect::NotFinite {
            tensor: q,
            value: "NaN",
            index: vec![9]
        }
    );
    // The first scale of the first group.
    let found = not_finite(mlx(), "lm_head.q4g32.bf16", 0, &[0xc0, 0x7f]);
    assert!(
        matches!(found, Defect::NotFinite { value: "NaN", .. }),
        "{found:?}"
    );
    let found = not_finite(hf(), "model.word_embeddings.weight", 2 * 96, &[0x80, 0x7f]);
    assert!(
        matches!(found, Defect::NotFinite { value: "inf", ref index, .. } if index == &[1]),
        "{found:?}"
    );
    let found = not_finite(hf(), "model.norm.weight", 4, &nan);
    assert!(
        matches!(found, Defect::NotFinite { value: "NaN", .. }),
        "{found:?}"
    );
    for bound in [f32::NAN, f32::INFINITY, -1.0] {
        let found = not_finite(hf(), "lm_head.screen", usize::MAX, &bound.to_le_bytes());
        assert!(matches!(found, Defect::Format { .. }), "{found:?}");
    }
}
