//! Makes small checkpoints on disk, byte by byte as a test wants them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use model::config::Config;
use model::error::{Defect, Error};
use model::load::{LoadOptions, Silent, load};
use model::slots::{MatrixSlot, NormSlot};
use model::weights::Weights;
use serde_json::{Value, json};

/// A folder that is removed at the end of the test.
pub struct TempFolder(PathBuf);

impl TempFolder {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// One on a disk of memory where there is one, for files that are written thousands of times.
    pub fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        match memory.is_dir() {
            true => Self::below(memory),
            false => Self::new(),
        }
    }

    fn below(base: &Path) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "maple-load-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = base.join(name);
        fs::create_dir_all(&path).unwrap();
        TempFolder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A tensor to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub dtype: &'static str,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

impl Tensor {
    pub fn bf16(shape: &[usize], value: impl FnMut(usize) -> f32) -> Self {
        let count = shape.iter().product();
        let data = (0..count)
            .map(value)
            .flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes())
            .collect();
        Tensor {
            dtype: "BF16",
            shape: shape.to_vec(),
            data,
        }
    }

    pub fn f32(shape: &[usize], value: impl FnMut(usize) -> f32) -> Self {
        let count = shape.iter().product();
        Tensor {
            dtype: "F32",
            shape: shape.to_vec(),
            data: (0..count).map(value).flat_map(f32::to_le_bytes).collect(),
        }
    }

    pub fn u32(shape: &[usize], value: impl FnMut(usize) -> u32) -> Self {
        let count = shape.iter().product();
        Tensor {
            dtype: "U32",
            shape: shape.to_vec(),
            data: (0..count).map(value).flat_map(u32::to_le_bytes).collect(),
        }
    }
}

pub type Tensors = BTreeMap<String, Tensor>;

/// A safetensors file with these tensors in the order of their names.
pub fn safetensors(tensors: &Tensors) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, tensor) in tensors {
        let begin = data.len();
        data.extend_from_slice(&tensor.data);
        let entry = json!({ "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [begin, data.len()] });
        header.insert(name.clone(), entry);
    }
    // Padded as writers do, so that the data is aligned.
    let header = Value::Object(header).to_string();
    raw_safetensors(
        &format!("{header:<width$}", width = header.len().next_multiple_of(8)),
        &data,
    )
}

/// A safetensors file with this header, whatever it says.
pub fn raw_safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [
        &(header.len() as u64).to_le_bytes(),
        header.as_bytes(),
        data,
    ]
    .concat()
}

/// A small configuration: 2 layers, 3 experts, no size a multiple of a tile.
pub fn config() -> Value {
    json!({
        "architectures": ["MapleForCausalLM"], "model_type": "maple",
        "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "vocab_size": 70,
        "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4,
        "rope_theta": 10000, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-6, "max_position_embeddings": 256,
        "eos_token_id": 1,
    })
}

pub fn parsed(config: &Value) -> Config {
    Config::from_json(Path::new("config.json"), config.to_string().as_bytes()).unwrap()
}

/// A number from -1 to 1 that depends on the place alone.
pub fn noise(seed: usize, at: usize) -> f32 {
    let mut x = (seed as u64 ^ 0x9e37_79b9) << 32 ^ at as u64;
    for _ in 0..3 {
        x = (x ^ x >> 31).wrapping_mul(0x9fb2_1c65_1e98_df25);
    }
    (x >> 40) as f32 / (1 << 23) as f32 - 1.0
}

fn seed(name: &str) -> usize {
    name.bytes().fold(7, |seed: usize, byte| {
        seed.wrapping_mul(31).wrapping_add(byte.into())
    })
}

/// The code (0, 1, 2) and the positive row scale of a ternary matrix of that name.
pub fn code(name: &str, at: usize) -> u32 {
    ((noise(seed(name), at) + 1.0) * 1.4999) as u32
}

pub fn alpha(name: &str, row: usize) -> f32 {
    let value = 0.01 + 0.05 * noise(seed(name) ^ 0x55, row).abs();
    f32::from_bits(value.to_bits() & 0xffff_0000)
}

/// All tensors of a bf16 checkpoint: experts and attention ternary, the rest noise.
pub fn hf_tensors(config: &Config) -> Tensors {
    let mut tensors = Tensors::new();
    for slot in MatrixSlot::all(config) {
        let ((rows, cols), name) = (slot.shape(config), slot.to_string());
        let ternary = slot.is_expert() || slot.is_attention();
        let value = |at: usize| match ternary {
            true => alpha(&name, at / cols) * (code(&name, at) as f32 - 1.0),
            false => noise(seed(&name), at),
        };
        tensors.insert(format!("{name}.weight"), Tensor::bf16(&[rows, cols], value));
    }
    for slot in NormSlot::all(config) {
        tensors.insert(
            format!("{slot}.weight"),
            Tensor::bf16(&[slot.len(config)], |at| 1.0 + at as f32 / 64.0),
        );
    }
    tensors
}

/// A Hugging Face checkpoint as one file.
pub fn hf_folder(config: &Value, tensors: &Tensors) -> TempFolder {
    let folder = TempFolder::new();
    folder.write("config.json", config.to_string());
    folder.write("model.safetensors", safetensors(tensors));
    folder
}

pub fn load_folder(folder: &TempFolder) -> Result<Weights, Error> {
    load(folder.path(), &LoadOptions::default(), &Silent)
}

/// The defect that loading ends with, and the name of the file it is in.
#[track_caller]
pub fn defect(folder: &TempFolder) -> (String, Defect) {
    match load_folder(folder) {
        Err(Error::Checkpoint { file, defect }) => (
            file.file_name().unwrap().to_string_lossy().into_owned(),
            defect,
        ),
        Err(other) => panic!("expected a defect, got {other}"),
        Ok(_) => panic!("expected a defect, got weights"),
    }
}

pub fn name(text: &str) -> String {
    text.to_owned()
}
