//! The GGUF container: header, keys and tensor infos, read from untrusted bytes.
//!
//! Every count, length and offset is compared with the bytes that are really there before it is used, so a
//! hostile header can neither read past the file nor make us allocate more than a small multiple of it.
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::blocks::{Defect, GgmlType};

/// Why a header could not be read.
#[derive(Debug)]
pub(super) struct Stop {
    pub problem: Defect,
    /// The bytes given ended too early: with more of the file it may go on.
    pub cut_short: bool,
}

impl From<Defect> for Stop {
    fn from(problem: Defect) -> Self {
        Stop {
            problem,
            cut_short: false,
        }
    }
}

/// Arrays of arrays deeper than this are refused; no key of any model nests at all.
const MAX_NESTING: u32 = 4;
/// Longest key or tensor name, in bytes (the format's own limit for keys is 65535).
const MAX_NAME: u64 = 65_535;
/// Most bytes of keys and infos before the data; real files need about 10 MB, most of it the tokenizer.
pub(super) const MAX_HEADER: u64 = 1 << 30;

/// One value of the key table. Arrays are kept as the place where their elements lie.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Any of the eight integer types.
    Int(i128),
    /// `f32` or `f64`.
    Float(f64),
    /// One byte, 0 or 1.
    Bool(bool),
    /// UTF-8 text.
    Text(String),
    /// Element type, count, and the bytes of the elements within the file.
    Array(u32, u64, Range<usize>),
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Bool(_) => "a bool",
            Value::Text(_) => "a string",
            Value::Array(..) => "an array",
        }
    }
}

/// Where one tensor lies and what it is.
#[derive(Debug, Clone)]
pub(super) struct TensorInfo {
    pub name: String,
    /// Sizes as the file gives them: the fastest first.
    pub dims: Vec<u64>,
    pub ty: GgmlType,
    /// Bytes of the file that hold the tensor.
    pub bytes: Range<usize>,
}

/// A whole validated header.
#[derive(Debug, Default)]
pub(super) struct Header {
    keys: HashMap<String, Value>,
    /// In the order of the file.
    pub tensors: Vec<TensorInfo>,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Length of the whole file, of which `bytes` is the beginning.
    file_len: u64,
}

impl<'a> Cursor<'a> {
    /// Bytes of the file that follow.
    fn left(&self) -> u64 {
        self.file_len - self.at as u64
    }

    fn take(&mut self, n: u64, what: &str) -> Result<&'a [u8], Stop> {
        if n > (self.bytes.len() - self.at) as u64 {
            return Err(Stop {
                problem: format!(
                    "truncated: {what} at byte {} needs {n} bytes, {} are left",
                    self.at,
                    self.left()
                ),
                cut_short: n <= self.left(),
            });
        }
        let start = self.at;
        self.at += n as usize;
        Ok(&self.bytes[start..self.at])
    }

    fn u32(&mut self, what: &str) -> Result<u32, Stop> {
        let b = self.take(4, what)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn u64(&mut self, what: &str) -> Result<u64, Stop> {
        let mut b = [0; 8];
        b.copy_from_slice(self.take(8, what)?);
        Ok(u64::from_le_bytes(b))
    }

    /// A count of things that each take at least `least` bytes.
    fn count(&mut self, least: u64, what: &str) -> Result<u64, Stop> {
        let n = self.u64(what)?;
        if n > self.left() / least {
            return Err(Stop::from(format!(
                "the {what} is {n}, but only {} bytes are left and each takes at least {least}",
                self.left()
            )));
        }
        Ok(n)
    }

    fn text(&mut self, what: &str) -> Result<&'a str, Stop> {
        let at = self.at;
        let n = self.u64(what)?;
        let bytes = self.take(n, what)?;
        std::str::from_utf8(bytes)
            .map_err(|_| Stop::from(format!("{what} at byte {at} is not UTF-8")))
    }

    fn name(&mut self, what: &str) -> Result<String, Stop> {
        let at = self.at;
        let text = self.text(what)?;
        if text.is_empty() || text.len() as u64 > MAX_NAME {
            return Err(Stop::from(format!(
                "{what} at byte {at} has {} bytes, expected 1 to {MAX_NAME}",
                text.len()
            )));
        }
        Ok(text.to_owned())
    }

    fn value(&mut self, ty: u32, key: &str, depth: u32) -> Result<Value, Stop> {
        let what = format!("the value of key {key:?}");
        Ok(match ty {
            8 => Value::Text(self.text(&what)?.to_owned()),
            9 => {
                if depth == MAX_NESTING {
                    return Err(Stop::from(format!(
                        "{what} nests arrays deeper than {MAX_NESTING}"
                    )));
                }
                let element = self.u32(&what)?;
                let least = match element {
                    8 => 8,
                    9 => 12,
                    other => scalar_size(other).ok_or_else(|| unknown_type(key, other))?,
                };
                let n = self.count(least, &format!("element count of key {key:?}"))?;
                let start = self.at;
                match element {
                    8 => {
                        for _ in 0..n {
                            self.text(&what)?;
                        }
                    }
                    9 => {
                        for _ in 0..n {
                            self.value(9, key, depth + 1)?;
                        }
                    }
                    _ => {
                        self.take(n * least, &what)?;
                    }
                }
                Value::Array(element, n, start..self.at)
            }
            _ => {
                let size = scalar_size(ty).ok_or_else(|| unknown_type(key, ty))?;
                scalar(ty, self.take(size, &what)?)
                    .ok_or_else(|| format!("{what} is a bool that is neither 0 nor 1"))?
            }
        })
    }
}

fn unknown_type(key: &str, ty: u32) -> Defect {
    format!("key {key:?} has the unknown value type {ty}; 0 to 12 are known")
}

fn scalar_size(ty: u32) -> Option<u64> {
    Some(match ty {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        10..=12 => 8,
        _ => return None,
    })
}

/// `None`: a bool that is neither 0 nor 1. `b` has the type's size.
fn scalar(ty: u32, b: &[u8]) -> Option<Value> {
    let mut wide = [0; 8];
    wide[..b.len()].copy_from_slice(b);
    let unsigned = u64::from_le_bytes(wide);
    let shift = 64 - 8 * b.len() as u32;
    let signed = ((unsigned << shift) as i64) >> shift;
    Some(match ty {
        6 => Value::Float(f64::from(f32::from_bits(unsigned as u32))),
        12 => Value::Float(f64::from_bits(unsigned)),
        7 => Value::Bool(match unsigned {
            0 => false,
            1 => true,
            _ => return None,
        }),
        1 | 3 | 5 | 11 => Value::Int(signed.into()),
        _ => Value::Int(unsigned.into()),
    })
}

impl Header {
    /// Reads and checks everything before the data, and that every tensor's bytes are there.
    ///
    /// `bytes` are the file's first, at least as many as the header takes.
    pub fn parse(bytes: &[u8], file_len: u64) -> Result<Header, Stop> {
        let mut c = Cursor {
            bytes,
            at: 0,
            file_len,
        };
        let magic = c.take(4, "the magic number")?;
        if magic != b"GGUF" {
            return Err(Stop::from(format!(
                "not a GGUF file: it begins with {magic:02x?}, expected \"GGUF\""
            )));
        }
        let version = c.u32("the version")?;
        if version != 2 && version != 3 {
            let hint = if version.swap_bytes() <= 3 {
                " (a big-endian file?)"
            } else {
                ""
            };
            return Err(Stop::from(format!(
                "GGUF version {version}{hint}; versions 2 and 3 are read"
            )));
        }
        // A tensor info takes at least 8 + 1 + 4 + 8 + 4 + 8 bytes, a key 8 + 1 + 4 + 1.
        let tensor_count = c.count(33, "tensor count")?;
        let key_count = c.count(14, "key count")?;

        let mut keys = HashMap::new();
        for _ in 0..key_count {
            let key = c.name("a key's name")?;
            let ty = c.u32(&format!("the type of key {key:?}"))?;
            let value = c.value(ty, &key, 0)?;
            if keys.insert(key.clone(), value).is_some() {
                return Err(Stop::from(format!("key {key:?} is there twice")));
            }
        }
        let mut infos = Vec::new();
        for _ in 0..tensor_count {
            infos.push(raw_info(&mut c)?);
        }
        let header_end = c.at;

        let mut header = Header {
            keys,
            tensors: Vec::new(),
        };
        let alignment = match header.opt_int("general.alignment", 1, 1 << 20)? {
            None => 32,
            Some(a) if a.is_power_of_two() && a >= 8 => a as usize,
            Some(a) => {
                return Err(Stop::from(format!(
                    "general.alignment is {a}, expected a power of two from 8 up"
                )));
            }
        };
        let data_start = header_end.next_multiple_of(alignment);
        let file_len = usize::try_from(file_len)
            .map_err(|_| "the file is larger than this machine can address".to_owned())?;
        header.place(infos, data_start, alignment, file_len)?;
        Ok(header)
    }

    /// Turns offsets into byte ranges: aligned, inside the file, not overlapping, and only padding between them.
    fn place(
        &mut self,
        infos: Vec<RawInfo>,
        data_start: usize,
        alignment: usize,
        file_len: usize,
    ) -> Result<(), Defect> {
        let mut names = HashSet::new();
        for info in infos {
            let RawInfo {
                name,
                dims,
                ty,
                offset,
            } = info;
            if !names.insert(name.clone()) {
                return Err(format!("tensor {name:?} is there twice"));
            }
            let size = ty
                .bytes_of(&dims)
                .map_err(|e| format!("tensor {name:?}: {e}"))?;
            if offset % alignment as u64 != 0 {
                return Err(format!(
                    "tensor {name:?}: offset {offset} is not a multiple of the alignment {alignment}"
                ));
            }
            let end = offset
                .checked_add(size)
                .and_then(|e| e.checked_add(data_start as u64));
            match end {
                Some(end) if end <= file_len as u64 => {
                    let start = data_start + offset as usize;
                    self.tensors.push(TensorInfo {
                        name,
                        dims,
                        ty,
                        bytes: start..end as usize,
                    });
                }
                _ => {
                    return Err(format!(
                        "truncated: tensor {name:?} needs {size} bytes at offset {offset} of the data, which starts \
                         at byte {data_start} of a file of {file_len}"
                    ));
                }
            }
        }
        let mut order: Vec<&TensorInfo> = self.tensors.iter().collect();
        order.sort_by_key(|t| (t.bytes.start, t.bytes.end));
        let mut at = data_start;
        let mut before = "the header";
        for t in order {
            if t.bytes.start < at {
                return Err(format!(
                    "tensor {:?} at bytes {}..{} overlaps {before}, which ends at {at}",
                    t.name, t.bytes.start, t.bytes.end
                ));
            }
            if t.bytes.start - at >= alignment {
                return Err(format!(
                    "a hole of {} bytes lies between {before} and tensor {:?}",
                    t.bytes.start - at,
                    t.name
                ));
            }
            at = t.bytes.end;
            before = &t.name;
        }
        if file_len.saturating_sub(at) >= alignment {
            return Err(format!("{} bytes follow the last tensor", file_len - at));
        }
        Ok(())
    }

    /// The value of a key, if it is there.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.keys.get(key)
    }

    /// A whole number within `low..=high`, or `None` when the key is absent.
    pub fn opt_int(&self, key: &str, low: u64, high: u64) -> Result<Option<u64>, Defect> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Int(v)) if (i128::from(low)..=i128::from(high)).contains(v) => {
                Ok(Some(*v as u64))
            }
            Some(Value::Int(v)) => Err(format!("key {key:?} is {v}, expected {low} to {high}")),
            Some(v) => Err(wrong_type(key, "a whole number", v)),
        }
    }

    /// As [`Header::opt_int`], for a key that must be there.
    pub fn int(&self, key: &str, low: u64, high: u64) -> Result<u64, Defect> {
        self.opt_int(key, low, high)?
            .ok_or_else(|| format!("key {key:?} is missing; expected a whole number"))
    }

    /// A finite number.
    pub fn opt_float(&self, key: &str) -> Result<Option<f64>, Defect> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Float(v)) if v.is_finite() => Ok(Some(*v)),
            Some(Value::Float(v)) => Err(format!("key {key:?} is {v}, expected a finite number")),
            Some(v) => Err(wrong_type(key, "a float", v)),
        }
    }

    /// Text.
    pub fn opt_text(&self, key: &str) -> Result<Option<&str>, Defect> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Text(t)) => Ok(Some(t)),
            Some(v) => Err(wrong_type(key, "a string", v)),
        }
    }

    /// The scalars of an array of exactly `len` elements. `file` are the bytes the header was parsed from.
    pub fn opt_array(
        &self,
        key: &str,
        len: usize,
        file: &[u8],
    ) -> Result<Option<Vec<Value>>, Defect> {
        let (ty, n, range) = match self.get(key) {
            None => return Ok(None),
            Some(Value::Array(ty, n, range)) => (*ty, *n, range.clone()),
            Some(v) => return Err(wrong_type(key, "an array", v)),
        };
        if n != len as u64 {
            return Err(format!("key {key:?} has {n} elements, expected {len}"));
        }
        let size = scalar_size(ty)
            .ok_or_else(|| format!("key {key:?} is not an array of numbers or bools"))?;
        file[range]
            .chunks_exact(size as usize)
            .map(|b| {
                scalar(ty, b)
                    .ok_or_else(|| format!("key {key:?} holds a bool that is neither 0 nor 1"))
            })
            .collect::<Result<Vec<_>, _>>()
            .map(Some)
    }
}

pub(super) fn wrong_type(key: &str, expected: &str, found: &Value) -> Defect {
    format!("key {key:?} is {}, expected {expected}", found.kind())
}

struct RawInfo {
    name: String,
    dims: Vec<u64>,
    ty: GgmlType,
    offset: u64,
}

fn raw_info(c: &mut Cursor<'_>) -> Result<RawInfo, Stop> {
    let name = c.name("a tensor's name")?;
    let rank = c.u32(&format!("the rank of tensor {name:?}"))?;
    if rank == 0 || rank > 4 {
        return Err(Stop::from(format!(
            "tensor {name:?} has rank {rank}, expected 1 to 4"
        )));
    }
    let mut dims = Vec::with_capacity(rank as usize);
    for _ in 0..rank {
        let d = c.u64(&format!("the sizes of tensor {name:?}"))?;
        if d == 0 {
            return Err(Stop::from(format!("tensor {name:?} has a size of 0")));
        }
        dims.push(d);
    }
    let id = c.u32(&format!("the type of tensor {name:?}"))?;
    let ty = GgmlType::from_id(id).ok_or_else(|| {
        format!(
            "tensor {name:?} has type {id}; the types that are read are {}",
            GgmlType::list()
        )
    })?;
    let offset = c.u64(&format!("the offset of tensor {name:?}"))?;
    Ok(RawInfo {
        name,
        dims,
        ty,
        offset,
    })
}
