//! The defects of the safetensors container, each in a plain, an MLX and a packed checkpoint: none is a way around the checks.

use std::fs;
use std::path::PathBuf;

use model::error::{Defect, Error};
use model::load::{LoadOptions, Silent, load, pack};
use serde_json::{Map, Value, json};

use crate::maker::*;
use crate::mlx::{mlx_config, mlx_tensors};

/// A sound checkpoint of one layout, whose weights file is then replaced.
struct Layout {
    name: &'static str,
    /// Removed at the end of the test.
    _folder: TempFolder,
    place: PathBuf,
    header: Map<String, Value>,
    data: Vec<u8>,
}

fn layouts() -> Vec<Layout> {
    let hf = hf_folder(&config(), &hf_tensors(&parsed(&config())));
    let mlx = hf_folder(&mlx_config(), &mlx_tensors(&parsed(&mlx_config())));
    let place = TempFolder::new();
    let packed = place.path().join("packed");
    pack(mlx.path(), &packed, &LoadOptions::default(), &Silent).unwrap();
    let (hf_path, mlx_path) = (hf.path().to_owned(), mlx.path().to_owned());
    [
        ("plain", hf, hf_path),
        ("mlx", mlx, mlx_path),
        ("packed", place, packed),
    ]
    .map(|(name, folder, place)| {
        let bytes = fs::read(place.join("model.safetensors")).unwrap();
        let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        Layout {
            name,
            _folder: folder,
            place,
            header: serde_json::from_slice(&bytes[8..data]).unwrap(),
            data: bytes[data..].to_vec(),
        }
    })
    .into()
}

impl Layout {
    fn weights(&self) -> PathBuf {
        self.place.join("model.safetensors")
    }

    /// The name of a tensor that has data: the last one in the file.
    fn last(&self) -> String {
        let end = |entry: &Value| entry["data_offsets"][1].as_u64();
        let tensors = self
            .header
            .iter()
            .filter(|(name, _)| *name != "__metadata__");
        tensors
            .max_by_key(|(_, entry)| end(entry))
            .unwrap()
            .0
            .clone()
    }

    /// What loading ends with when the weights file has these bytes.
    #[track_caller]
    fn defect(&self, bytes: &[u8]) -> Defect {
        // What may still be mapped is not changed but replaced.
        fs::remove_file(self.weights()).unwrap();
        fs::write(self.weights(), bytes).unwrap();
        match load(&self.place, &LoadOptions::default(), &Silent) {
            Err(Error::Checkpoint { file, defect }) => {
                assert!(file.ends_with("model.safetensors"), "{}", self.name);
                defect
            }
            Err(other) => panic!("{}: {other}", self.name),
            Ok(_) => panic!("{}: accepted", self.name),
        }
    }

    /// The same after a change of the header, or of one tensor's entry.
    #[track_caller]
    fn changed(&self, change: impl FnOnce(&mut Map<String, Value>)) -> Defect {
        let mut header = self.header.clone();
        change(&mut header);
        self.defect(&raw_safetensors(
            &Value::Object(header).to_string(),
            &self.data,
        ))
    }

    #[track_caller]
    fn entry(&self, change: impl FnOnce(&mut Value)) -> Defect {
        let last = self.last();
        self.changed(|header| change(header.get_mut(&last).unwrap()))
    }
}

fn kind(defect: &Defect) -> String {
    let text = format!("{defect:?}");
    text.split([' ', '{', '(']).next().unwrap().to_owned()
}

#[test]
fn lengths_and_json() {
    for layout in layouts() {
        let text = Value::Object(layout.header.clone()).to_string();
        let whole = raw_safetensors(&text, &layout.data);
        let with_length = |length: u64| [&length.to_le_bytes(), &whole[8..]].concat();
        let is = |bytes: &[u8], expected: &str| {
            assert_eq!(kind(&layout.defect(bytes)), expected, "{}", layout.name);
        };
        is(&[], "TooShort");
        is(&whole[..7], "TooShort");
        is(&with_length(u64::MAX), "HeaderTooLarge");
        is(&with_length(1 << 63), "HeaderTooLarge");
        is(&with_length(whole.len() as u64 - 7), "HeaderPastEnd");
        is(&raw_safetensors("[]", &layout.data), "Json");
        is(
            &raw_safetensors(&text[..text.len() - 1], &layout.data),
            "Json",
        );
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100), "]".repeat(100));
        is(&raw_safetensors(&deep, &layout.data), "TooDeep");
        let last = layout.last();
        let entry = &layout.header[&last];
        let twice = format!("{{\"{last}\":{entry},{}", &text[1..]);
        is(&raw_safetensors(&twice, &layout.data), "DuplicateName");
        is(&[&whole[..], b"x"].concat(), "TrailingBytes");
        for cut in (0..40).map(|part| whole.len() * part / 40) {
            layout.defect(&whole[..cut]);
        }
        is(&whole[..whole.len() - 1], "PastEnd");
    }
}

#[test]
fn entries_and_ranges() {
    for layout in layouts() {
        let is = |found: Defect, expected: &str| {
            assert_eq!(kind(&found), expected, "{}: {found:?}", layout.name);
        };
        for broken in [
            |entry: &mut Value| *entry = json!([]),
            |entry: &mut Value| entry["more"] = json!(1),
            |entry: &mut Value| entry["dtype"] = json!(8),
            |entry: &mut Value| entry["shape"] = json!([-1]),
            |entry: &mut Value| entry["shape"] = json!([1.5]),
            |entry: &mut Value| entry["shape"] = json!("4"),
            |entry: &mut Value| entry["data_offsets"] = json!([0]),
            |entry: &mut Value| entry["data_offsets"] = json!([0, 1, 2]),
        ] {
            is(layout.entry(broken), "HeaderEntry");
        }
        is(layout.entry(|e| e["dtype"] = json!("F4")), "UnknownDtype");
        is(layout.entry(|e| e["shape"] = json!([1])), "ByteLength");
        is(
            layout.entry(|e| e["shape"] = json!([1u64 << 63, 2])),
            "ShapeOverflow",
        );
        let moved = |by: i64, both: bool| {
            layout.entry(|entry| {
                let ends = [0, 1].map(|i| entry["data_offsets"][i].as_i64().unwrap());
                let begin = if both { ends[0] + by } else { ends[0] };
                entry["data_offsets"] = json!([begin, ends[1] + by]);
            })
        };
        is(moved(64, true), "PastEnd");
        is(moved(-4, true), "Overlap");
        is(moved(64, false), "PastEnd");
        is(
            layout.entry(|e| e["data_offsets"] = json!([8, 4])),
            "OffsetsReversed",
        );
        is(
            layout.entry(|e| e["data_offsets"] = json!([0, u64::MAX])),
            "PastEnd",
        );
        let last = layout.last();
        is(
            layout.changed(|header| drop(header.remove(&last))),
            "TrailingBytes",
        );
        // A tensor of the middle is gone: its data is a hole.
        let first = |header: &Map<String, Value>| {
            let begins = |entry: &Value| entry["data_offsets"][0].as_u64() == Some(0);
            let found = header.iter().find(|(_, entry)| begins(entry));
            found.unwrap().0.clone()
        };
        let name = first(&layout.header);
        is(layout.changed(|header| drop(header.remove(&name))), "Hole");
    }
}

#[test]
#[cfg(unix)]
fn links_that_lead_out_folders_and_pipes() {
    let outside = TempFolder::new();
    for layout in layouts() {
        let target = outside.path().join(layout.name);
        fs::rename(layout.weights(), &target).unwrap();
        std::os::unix::fs::symlink(&target, layout.weights()).unwrap();
        let defect = || match load(&layout.place, &LoadOptions::default(), &Silent) {
            Err(Error::Checkpoint { defect, .. }) => kind(&defect),
            other => panic!("{}: {other:?}", layout.name),
        };
        assert_eq!(defect(), "LeadsOut");
        fs::remove_file(layout.weights()).unwrap();
        fs::create_dir(layout.weights()).unwrap();
        assert_eq!(defect(), "NotAFile");
        fs::remove_dir(layout.weights()).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(layout.weights())
            .status();
        assert!(made.unwrap().success());
        assert_eq!(defect(), "NotAFile");
    }
}

#[test]
fn an_mlx_index_must_agree_with_its_shards() {
    let tensors = mlx_tensors(&parsed(&mlx_config()));
    let map: Map<String, Value> = tensors
        .keys()
        .map(|name| (name.clone(), json!("a.safetensors")))
        .collect();
    let with = |change: fn(&mut Map<String, Value>)| {
        let folder = TempFolder::new();
        folder.write("config.json", mlx_config().to_string());
        folder.write("a.safetensors", safetensors(&tensors));
        let mut map = map.clone();
        change(&mut map);
        let index = json!({ "weight_map": map }).to_string();
        folder.write("model.safetensors.index.json", index);
        load_folder(&folder).map_err(|error| match error {
            Error::Checkpoint { defect, .. } => kind(&defect),
            other => other.code().to_owned(),
        })
    };
    assert!(with(|_| {}).is_ok());
    let refused = |change, expected: &str| assert_eq!(with(change).unwrap_err(), expected);
    let alpha = "model.layers.0.self_attn.q_proj.row_alpha";
    assert!(map.contains_key(alpha));
    refused(
        |map| drop(map.remove("model.layers.0.self_attn.q_proj.row_alpha")),
        "NotInIndex",
    );
    refused(
        |map| drop(map.insert("x".into(), json!("a.safetensors"))),
        "NotInShard",
    );
    refused(
        |map| drop(map.insert("lm_head.scales".into(), json!("../a.safetensors"))),
        "ShardName",
    );
    refused(
        |map| drop(map.insert("lm_head.scales".into(), json!("b.safetensors"))),
        "MODEL_NOT_FOUND",
    );
}
