//! Indices that lie, shards that lead elsewhere, files that are not there.

use std::path::Path;

use model::error::{Defect, Error};
use model::load::{LoadOptions, Silent, load};
use serde_json::{Value, json};

use crate::maker::*;

/// A sharded checkpoint whose index says `weight_map`.
fn with_index(weight_map: Value) -> TempFolder {
    let tensors = hf_tensors(&parsed(&config()));
    let folder = TempFolder::new();
    folder.write("config.json", config().to_string());
    folder.write("a.safetensors", safetensors(&tensors));
    folder.write(
        "model.safetensors.index.json",
        json!({ "weight_map": weight_map }).to_string(),
    );
    folder
}

fn full_map() -> serde_json::Map<String, Value> {
    hf_tensors(&parsed(&config()))
        .into_keys()
        .map(|tensor| (tensor, json!("a.safetensors")))
        .collect()
}

#[test]
fn shards_are_plain_files_of_the_folder() {
    let shards = [
        "../a.safetensors",
        "/etc/passwd",
        "x/a.safetensors",
        "x\\a",
        "C:a",
        "",
        ".",
        "..",
        "a\0b",
        "a\nb",
    ];
    for shard in shards
        .iter()
        .map(|s| s.to_string())
        .chain(["x".repeat(300)])
    {
        let mut map = full_map();
        map.insert(name("lm_head.weight"), json!(shard));
        let (file, defect) = defect(&with_index(Value::Object(map)));
        assert_eq!(file, "model.safetensors.index.json");
        assert!(
            matches!(&defect, Defect::ShardName { name, .. } if *name == shard),
            "{shard:?}: {defect:?}"
        );
    }
    for not_text in [json!(1), json!(null), json!(["a"]), json!({})] {
        let mut map = full_map();
        map.insert(name("lm_head.weight"), not_text);
        let error = load_folder(&with_index(Value::Object(map))).unwrap_err();
        assert!(
            matches!(&error, Error::Field { field, .. } if field == "weight_map.lm_head.weight"),
            "{error}"
        );
    }
    let mut map = full_map();
    map.insert(name("lm_head.weight"), json!("b.safetensors"));
    let error = load_folder(&with_index(Value::Object(map.clone()))).unwrap_err();
    assert!(
        matches!(&error, Error::ModelNotFound { path, .. } if path.ends_with("b.safetensors")),
        "{error}"
    );
    let folder = with_index(Value::Object(map));
    std::fs::create_dir(folder.path().join("b.safetensors")).unwrap();
    assert_eq!(
        defect(&folder),
        (
            name("b.safetensors"),
            Defect::NotAFile { found: "a folder" }
        )
    );
}

#[test]
#[cfg(unix)]
fn links_that_lead_out_and_pipes_are_refused() {
    let (config, tensors) = (config(), hf_tensors(&parsed(&config())));
    let outside = TempFolder::new();
    let target = outside.write("weights", safetensors(&tensors));
    let folder = hf_folder(&config, &tensors);
    let file = folder.path().join("model.safetensors");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&target, &file).unwrap();
    assert!(matches!(defect(&folder).1, Defect::LeadsOut { .. }));
    // A link inside the folder is fine.
    std::fs::remove_file(&file).unwrap();
    folder.write("real", safetensors(&tensors));
    std::os::unix::fs::symlink("real", &file).unwrap();
    assert!(load_folder(&folder).is_ok());
    // Opening a pipe for reading would wait for a writer for ever.
    std::fs::remove_file(&file).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(&file)
        .status()
        .unwrap();
    assert!(made.success());
    assert_eq!(defect(&folder).1, Defect::NotAFile { found: "a pipe" });
}

#[test]
#[cfg(unix)]
fn every_file_of_a_checkpoint_must_be_a_file() {
    use std::os::unix::{fs::symlink, net::UnixListener};
    let (config, tensors) = (config(), hf_tensors(&parsed(&config())));
    let pipe = |path: &std::path::Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    };
    for file in [
        "config.json",
        "generation_config.json",
        "model.safetensors.index.json",
        "model.safetensors",
    ] {
        let folder = hf_folder(&config, &tensors);
        let path = folder.path().join(file);
        let _ = std::fs::remove_file(&path);
        pipe(&path);
        let found = "a pipe";
        assert_eq!(defect(&folder), (name(file), Defect::NotAFile { found }));
        std::fs::remove_file(&path).unwrap();
        let _listener = UnixListener::bind(&path).unwrap();
        let found = "a socket";
        assert_eq!(defect(&folder), (name(file), Defect::NotAFile { found }));
        // A device comes into a folder by a link.
        std::fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        assert!(matches!(defect(&folder).1, Defect::LeadsOut { .. }));
    }
    let folder = TempFolder::new();
    for file in ["model.gguf", "model.safetensors"] {
        let path = folder.path().join(file);
        pipe(&path);
        let error = load(&path, &LoadOptions::default(), &Silent).unwrap_err();
        assert!(error.to_string().contains("is a pipe"), "{error}");
    }
    let error = load("/dev/zero".as_ref(), &LoadOptions::default(), &Silent).unwrap_err();
    assert!(error.to_string().contains("is a device"), "{error}");
}

#[test]
fn an_index_must_agree_with_its_shards() {
    for weight_map in [Value::Null, json!([]), json!({}), json!("x")] {
        let error = load_folder(&with_index(weight_map)).unwrap_err();
        assert!(
            matches!(&error, Error::Field { field, .. } if field == "weight_map"),
            "{error}"
        );
    }
    let mut map = full_map();
    map.remove("model.norm.weight");
    let not_listed = Defect::NotInIndex {
        tensor: name("model.norm.weight"),
        index: name("does not list"),
    };
    assert_eq!(
        defect(&with_index(Value::Object(map))),
        (name("a.safetensors"), not_listed)
    );

    let mut map = full_map();
    map.insert(name("model.extra"), json!("a.safetensors"));
    let absent = Defect::NotInShard {
        tensor: name("model.extra"),
    };
    assert_eq!(
        defect(&with_index(Value::Object(map))),
        (name("a.safetensors"), absent)
    );

    let mut map = full_map();
    map.insert(name("model.norm.weight"), json!("b.safetensors"));
    let folder = with_index(Value::Object(map));
    let norm = hf_tensors(&parsed(&config()))
        .remove_entry("model.norm.weight")
        .unwrap();
    folder.write("b.safetensors", safetensors(&Tensors::from([norm])));
    let elsewhere = Defect::NotInIndex {
        tensor: name("model.norm.weight"),
        index: name("places in `b.safetensors`"),
    };
    assert_eq!(defect(&folder), (name("a.safetensors"), elsewhere));

    let folder = with_index(Value::Object(full_map()));
    folder.write(
        "model.safetensors.index.json",
        r#"{"weight_map":{"a":"x","a":"y"}}"#,
    );
    assert_eq!(defect(&folder).1, Defect::DuplicateName { name: name("a") });
}

#[test]
fn missing_folders_and_files_are_named() {
    let not_found = |path: &Path| match load(path, &LoadOptions::default(), &Silent) {
        Err(error @ Error::ModelNotFound { .. }) => {
            assert_eq!(error.code(), "MODEL_NOT_FOUND");
            error.to_string()
        }
        other => panic!("{other:?}"),
    };
    let folder = TempFolder::new();
    assert!(
        not_found(&folder.path().join("nowhere"))
            .contains("nowhere: there is no such file or folder")
    );
    assert!(not_found(folder.path()).contains("config.json: a model's folder needs this file"));
    folder.write("config.json", config().to_string());
    assert!(
        not_found(folder.path())
            .contains("neither model.safetensors.index.json nor model.safetensors")
    );
    folder.write("model-00001-of-00002.safetensors", "");
    not_found(folder.path());
    // A shard by itself is no model.
    let shard = folder.write(
        "shard.safetensors",
        safetensors(&hf_tensors(&parsed(&config()))),
    );
    let error = load(&shard, &LoadOptions::default(), &Silent).unwrap_err();
    assert_eq!(error.code(), "INVALID_CHECKPOINT");
}
