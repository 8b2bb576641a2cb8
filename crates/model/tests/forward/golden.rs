//! Golden checkpoints: what each holds, and where it is.

use std::path::{Path, PathBuf};

use model::forward::{Model, ModelOptions};
use model::load::{LoadOptions, Silent, load};
use model::weights::Weights;
use serde_json::Value;

/// One prompt and what must follow.
pub struct Case {
    pub prompt: Vec<u32>,
    pub greedy: Vec<u32>,
    /// Rows of the prompt whose logits are kept.
    pub positions: Vec<usize>,
    /// `[positions][vocab]`.
    pub logits: Vec<Vec<f32>>,
    /// Logits before each greedy token.
    pub greedy_logits: Vec<Vec<f32>>,
}

/// A checkpoint with its expected results.
pub struct Golden {
    /// A folder, or a GGUF file.
    pub path: PathBuf,
    pub cases: Vec<Case>,
    /// Largest allowed difference relative to the row's largest logit.
    pub float32: f32,
    pub int16: f32,
}

fn tensor(file: &[u8], name: &str) -> Vec<Vec<f32>> {
    let header_len = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
    let header: Value = serde_json::from_slice(&file[8..8 + header_len]).expect("a header");
    let number = |v: &Value| v.as_u64().expect("a number") as usize;
    let entry = &header[name];
    assert_eq!(entry["dtype"], "F32", "{name}");
    let (from, to) = (
        number(&entry["data_offsets"][0]),
        number(&entry["data_offsets"][1]),
    );
    let width = 4 * number(&entry["shape"][1]);
    let rows = file[8 + header_len + from..8 + header_len + to].chunks_exact(width);
    rows.map(|row| {
        row.chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().expect("four bytes")))
            .collect()
    })
    .collect()
}

/// The golden checkpoint of that name: from the repository's fixtures, or from a folder of more of them beside the repository.
/// `None`, with a note on the test's output, where this machine has it in neither place.
pub fn golden(name: &'static str) -> Option<Golden> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = std::fs::canonicalize(root).ok()?;
    let beside = ["../shared/golden", "../../shared/golden"].map(|place| root.join(place));
    let places = [root.join("__test__/fixtures")].into_iter().chain(beside);
    // A folder holds its results; a file of several in a folder has them beside it.
    let forms = places.flat_map(|place| {
        let at = |ending: &str| place.join(format!("{name}{ending}"));
        [
            (place.join(name), place.join(name).join("golden")),
            (at(".gguf"), at(".golden")),
        ]
    });
    let ending = |stem: &Path, ending: &str| PathBuf::from(format!("{}.{ending}", stem.display()));
    let Some((path, results)) = forms
        .into_iter()
        .find(|(_, results)| ending(results, "json").is_file())
    else {
        eprintln!("SKIPPED: the golden checkpoint {name} is not on this machine");
        return None;
    };
    let json: Value =
        serde_json::from_slice(&std::fs::read(ending(&results, "json")).expect("results"))
            .expect("JSON");
    let tensors = std::fs::read(ending(&results, "safetensors")).expect("results");
    let ids = |v: &Value| {
        v.as_array()
            .expect("ids")
            .iter()
            .map(|id| id.as_u64().expect("an id") as u32)
            .collect()
    };
    let cases = json["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .map(|case| Case {
            prompt: ids(&case["prompt"]),
            greedy: ids(&case["greedy"]),
            positions: case["positions"]
                .as_array()
                .expect("positions")
                .iter()
                .map(|p| p.as_u64().expect("a row") as usize)
                .collect(),
            logits: tensor(&tensors, case["logits"].as_str().expect("a name")),
            greedy_logits: tensor(&tensors, case["greedy_logits"].as_str().expect("a name")),
        });
    let bound = |mode: &str| json["bounds"][mode].as_f64().expect("a bound") as f32;
    Some(Golden {
        cases: cases.collect(),
        float32: bound("float32"),
        int16: bound("int16"),
        path,
    })
}

impl Golden {
    pub fn weights(&self) -> Weights {
        load(&self.path, &LoadOptions::default(), &Silent).expect("a sound checkpoint")
    }

    pub fn model(&self, options: &ModelOptions) -> Model {
        Model::new(self.weights(), options).expect("a model")
    }
}
