//! Headers of safetensors files, read strictly.
//!
//! A file is eight bytes of header length (little endian), a JSON header, and the tensors' data. Each header entry gives a
//! tensor's dtype, shape and byte range in the data. The ranges must tile the data: no hole, no overlap, nothing left over.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Defect, Error, Result};
use crate::json::{self, describe};

/// Longest header that is read, in bytes.
pub const MAX_HEADER: u64 = 100_000_000;

/// Element types of the format whose size is a whole number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Dtype {
    Bool,
    U8,
    I8,
    F8E5M2,
    F8E4M3,
    F8E8M0,
    U16,
    I16,
    F16,
    Bf16,
    U32,
    I32,
    F32,
    U64,
    I64,
    F64,
    C64,
}

impl Dtype {
    const ALL: [(Dtype, &'static str, u64); 17] = [
        (Dtype::Bool, "BOOL", 1),
        (Dtype::U8, "U8", 1),
        (Dtype::I8, "I8", 1),
        (Dtype::F8E5M2, "F8_E5M2", 1),
        (Dtype::F8E4M3, "F8_E4M3", 1),
        (Dtype::F8E8M0, "F8_E8M0", 1),
        (Dtype::U16, "U16", 2),
        (Dtype::I16, "I16", 2),
        (Dtype::F16, "F16", 2),
        (Dtype::Bf16, "BF16", 2),
        (Dtype::U32, "U32", 4),
        (Dtype::I32, "I32", 4),
        (Dtype::F32, "F32", 4),
        (Dtype::U64, "U64", 8),
        (Dtype::I64, "I64", 8),
        (Dtype::F64, "F64", 8),
        (Dtype::C64, "C64", 8),
    ];

    fn entry(self) -> &'static (Dtype, &'static str, u64) {
        Self::ALL
            .iter()
            .find(|(dtype, ..)| *dtype == self)
            .expect("every dtype is in the table")
    }

    /// The format's name for it.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Bytes an element takes.
    pub fn size(self) -> u64 {
        self.entry().2
    }

    /// The dtype of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, known, _)| *known == name)
            .map(|(dtype, ..)| *dtype)
    }
}

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// Its shape, outermost first.
    pub shape: Vec<u64>,
    /// First byte, counted from the start of the file.
    pub begin: u64,
    /// One past the last byte, counted from the start of the file.
    pub end: u64,
}

impl Tensor {
    /// Bytes it takes.
    pub fn byte_len(&self) -> u64 {
        self.end - self.begin
    }
}

/// A checked header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The tensors in the order of their data.
    pub tensors: Vec<Tensor>,
    /// `__metadata__`.
    pub metadata: BTreeMap<String, String>,
}

/// The header's length from the first bytes of a file of `file_len` bytes.
///
/// Errors: [`Defect::TooShort`], [`Defect::HeaderTooLarge`], [`Defect::HeaderPastEnd`].
pub fn header_len(file: &Path, start: &[u8], file_len: u64) -> Result<u64> {
    let Some(bytes) = start.first_chunk::<8>() else {
        return Err(Error::defect(file, Defect::TooShort { length: file_len }));
    };
    let length = u64::from_le_bytes(*bytes);
    let available = file_len.saturating_sub(8);
    if length > MAX_HEADER {
        return Err(Error::defect(
            file,
            Defect::HeaderTooLarge {
                length,
                limit: MAX_HEADER,
            },
        ));
    }
    if length > available {
        return Err(Error::defect(
            file,
            Defect::HeaderPastEnd { length, available },
        ));
    }
    Ok(length)
}

/// Reads the JSON `header` of a file that is `file_len` bytes long.
///
/// Errors: one [`Defect`] for everything that may be wrong with it.
pub fn parse_header(file: &Path, header: &[u8], file_len: u64) -> Result<Header> {
    if header.first() != Some(&b'{') {
        return Err(Error::defect(
            file,
            Defect::Json {
                message: "the header does not begin with {".to_owned(),
            },
        ));
    }
    let object = json::parse_object(file, header, "header")?;
    let data_start = 8 + header.len() as u64;
    let available = file_len.saturating_sub(data_start);
    let mut metadata = BTreeMap::new();
    let mut tensors = Vec::with_capacity(object.len());
    for (name, value) in object {
        if name == "__metadata__" {
            metadata =
                parse_metadata(&value).map_err(|problem| entry_error(file, &name, problem))?;
        } else {
            tensors.push(parse_tensor(file, name, &value, available)?);
        }
    }
    check_tiling(file, &mut tensors, available)?;
    for tensor in &mut tensors {
        tensor.begin += data_start;
        tensor.end += data_start;
    }
    Ok(Header { tensors, metadata })
}

fn entry_error(file: &Path, entry: &str, problem: String) -> Error {
    Error::defect(
        file,
        Defect::HeaderEntry {
            entry: entry.to_owned(),
            problem,
        },
    )
}

fn parse_metadata(value: &Value) -> std::result::Result<BTreeMap<String, String>, String> {
    let object = value
        .as_object()
        .ok_or_else(|| format!("must be an object, found {}", describe(value)))?;
    object
        .iter()
        .map(|(key, value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            other => Err(format!("`{key}` must be text, found {}", describe(other))),
        })
        .collect()
}

/// One entry; offsets are still those of the header, counted from the data's start.
fn parse_tensor(file: &Path, name: String, value: &Value, available: u64) -> Result<Tensor> {
    let problem = |problem: String| entry_error(file, &name, problem);
    let object = value
        .as_object()
        .ok_or_else(|| problem(format!("must be an object, found {}", describe(value))))?;
    if let Some(key) = object
        .keys()
        .find(|key| !["dtype", "shape", "data_offsets"].contains(&key.as_str()))
    {
        return Err(problem(format!("unknown member `{key}`")));
    }
    let dtype = match object.get("dtype") {
        Some(Value::String(dtype)) => Dtype::from_name(dtype).ok_or_else(|| {
            Error::defect(
                file,
                Defect::UnknownDtype {
                    tensor: name.clone(),
                    found: dtype.clone(),
                },
            )
        })?,
        other => {
            return Err(problem(format!(
                "`dtype` must be text, found {}",
                other.map_or("nothing".into(), describe)
            )));
        }
    };
    let shape = whole_numbers(object, "shape").map_err(&problem)?;
    let offsets = whole_numbers(object, "data_offsets").map_err(&problem)?;
    let [begin, end] = offsets[..] else {
        return Err(problem(format!(
            "`data_offsets` must be two numbers, found {}",
            offsets.len()
        )));
    };
    if begin > end {
        return Err(Error::defect(
            file,
            Defect::OffsetsReversed {
                tensor: name,
                begin,
                end,
            },
        ));
    }
    if end > available {
        return Err(Error::defect(
            file,
            Defect::PastEnd {
                tensor: name,
                end,
                available,
            },
        ));
    }
    // A zero anywhere makes the product zero, whatever the other sizes multiply to.
    let elements = match shape.contains(&0) {
        true => Some(0),
        false => shape
            .iter()
            .try_fold(1u64, |product, &size| product.checked_mul(size)),
    };
    let Some(expected) = elements.and_then(|n| n.checked_mul(dtype.size())) else {
        return Err(Error::defect(
            file,
            Defect::ShapeOverflow {
                tensor: name,
                shape,
            },
        ));
    };
    let found = end - begin;
    if found != expected {
        return Err(Error::defect(
            file,
            Defect::ByteLength {
                tensor: name,
                dtype: dtype.name(),
                shape,
                expected,
                found,
            },
        ));
    }
    Ok(Tensor {
        name,
        dtype,
        shape,
        begin,
        end,
    })
}

fn whole_numbers(object: &Map<String, Value>, key: &str) -> std::result::Result<Vec<u64>, String> {
    let expected =
        |found: String| format!("`{key}` must be a list of whole numbers, found {found}");
    let value = object
        .get(key)
        .ok_or_else(|| expected("nothing".to_owned()))?;
    let list = value.as_array().ok_or_else(|| expected(describe(value)))?;
    list.iter()
        .map(|item| item.as_u64().ok_or_else(|| expected(describe(item))))
        .collect()
}

/// Sorts the tensors by their place in the data, which they must cover exactly.
fn check_tiling(file: &Path, tensors: &mut [Tensor], available: u64) -> Result<()> {
    tensors.sort_by(|a, b| (a.begin, a.end, &a.name).cmp(&(b.begin, b.end, &b.name)));
    let mut covered = 0;
    let mut previous: Option<&Tensor> = None;
    for tensor in tensors.iter() {
        if tensor.begin < covered {
            let first = previous.map_or_else(String::new, |t| t.name.clone());
            return Err(Error::defect(
                file,
                Defect::Overlap {
                    first,
                    second: tensor.name.clone(),
                },
            ));
        }
        if tensor.begin > covered {
            let (begin, end) = (covered, tensor.begin);
            return Err(Error::defect(
                file,
                Defect::Hole {
                    tensor: tensor.name.clone(),
                    begin,
                    end,
                },
            ));
        }
        covered = tensor.end;
        if tensor.byte_len() > 0 {
            previous = Some(tensor);
        }
    }
    match available - covered {
        0 => Ok(()),
        count => Err(Error::defect(file, Defect::TrailingBytes { count })),
    }
}
