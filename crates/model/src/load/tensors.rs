//! All tensors of a checkpoint, over one file or the shards of an index, each found exactly once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde_json::Value;

use super::file::SourceFile;
use super::folder::Folder;
use super::safetensors::{self, Dtype, Header, Tensor};
use super::source::Room;
use crate::bytes::Bytes;
use crate::error::{Defect, Error, Result};
use crate::json::{self, describe};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Approximate heads that some checkpoints bring along; not part of the model.
const FLASHHEAD: &str = "model-flashhead.safetensors";

/// The tensors of a checkpoint by name.
pub(crate) struct TensorSet {
    files: Vec<SourceFile>,
    /// Files that decide what the tensors are, beside those that hold them: the index.
    texts: Vec<SourceFile>,
    tensors: HashMap<String, (usize, Tensor)>,
    /// `__metadata__` of the first file.
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) warnings: Vec<String>,
}

impl TensorSet {
    /// Opens the folder's index and shards, or its single file, and reads all headers.
    ///
    /// Errors: [`Error::ModelNotFound`] for a missing file, and every [`Defect`] of headers, names and index.
    pub(crate) fn open(folder: &Folder) -> Result<Self> {
        match folder.read_text(INDEX)? {
            Some((file, text)) => Self::open_sharded(folder, file, &text),
            None => Self::open_single(folder),
        }
    }

    /// One file of that path, outside any folder.
    pub(crate) fn open_file(file: SourceFile) -> Result<Self> {
        let header = read_header(&file)?;
        let tensors = header
            .tensors
            .into_iter()
            .map(|tensor| (tensor.name.clone(), (0, tensor)))
            .collect();
        Ok(TensorSet {
            files: vec![file],
            texts: Vec::new(),
            tensors,
            metadata: header.metadata,
            warnings: Vec::new(),
        })
    }

    fn open_single(folder: &Folder) -> Result<Self> {
        let Some(file) = folder.open_file(SINGLE)? else {
            return Err(Error::ModelNotFound {
                path: folder.path().to_owned(),
                needed: format!(
                    "neither {INDEX} nor {SINGLE} is there; download the checkpoint's missing files"
                ),
            });
        };
        let mut set = Self::open_file(file)?;
        set.warn_of_ignored(folder, &BTreeSet::from([SINGLE]))?;
        Ok(set)
    }

    fn open_sharded(folder: &Folder, index_file: SourceFile, index_text: &[u8]) -> Result<Self> {
        let index = parse_index(index_file.path(), index_text)?;
        let shards: BTreeSet<&str> = index.values().map(String::as_str).collect();
        let mut set = TensorSet {
            files: Vec::new(),
            texts: Vec::new(),
            tensors: HashMap::with_capacity(index.len()),
            metadata: BTreeMap::new(),
            warnings: Vec::new(),
        };
        // All names first: a name that leads elsewhere, or a missing file, is said before anything else.
        let mut files = Vec::with_capacity(shards.len());
        for &shard in &shards {
            let found = folder
                .open_file(shard)
                .map_err(|error| at_index(error, &index_file))?;
            files.push(found.ok_or_else(|| Error::ModelNotFound {
                path: folder.path().join(shard),
                needed: format!("{INDEX} names this file, and it is not there; download it"),
            })?);
        }
        for (file, &shard) in files.into_iter().zip(&shards) {
            let header = read_header(&file)?;
            set.add_shard(file, header, shard, &index)?;
        }
        if let Some((name, shard)) = index
            .iter()
            .find(|(name, _)| !set.tensors.contains_key(*name))
        {
            let file = folder.path().join(shard);
            return Err(Error::defect(
                &file,
                Defect::NotInShard {
                    tensor: name.clone(),
                },
            ));
        }
        set.warn_of_ignored(folder, &shards)?;
        set.texts.push(index_file);
        Ok(set)
    }

    fn add_shard(
        &mut self,
        file: SourceFile,
        header: Header,
        shard: &str,
        index: &BTreeMap<String, String>,
    ) -> Result<()> {
        let number = self.files.len();
        for tensor in header.tensors {
            let placed = index.get(&tensor.name);
            if placed.map(String::as_str) == Some(shard) {
                self.tensors.insert(tensor.name.clone(), (number, tensor));
            } else if tensor.byte_len() > 0 || placed.is_some() {
                let index = placed.map_or("does not list".to_owned(), |other| {
                    format!("places in `{other}`")
                });
                return Err(Error::defect(
                    file.path(),
                    Defect::NotInIndex {
                        tensor: tensor.name,
                        index,
                    },
                ));
            }
        }
        if number == 0 {
            self.metadata = header.metadata;
        }
        self.files.push(file);
        Ok(())
    }

    fn warn_of_ignored(&mut self, folder: &Folder, used: &BTreeSet<&str>) -> Result<()> {
        for name in folder.safetensors_names()? {
            if !used.contains(name.as_str()) && name != FLASHHEAD {
                let path = folder.path().join(name);
                self.warnings.push(format!(
                    "{}: not part of the checkpoint, ignored",
                    path.display()
                ));
            }
        }
        Ok(())
    }

    /// The files, for their identities: those with tensors, then the index.
    pub(crate) fn files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().chain(&self.texts)
    }

    /// Some tensor's name fits the test.
    pub(crate) fn any(&self, test: impl Fn(&str, Dtype) -> bool) -> bool {
        self.tensors
            .values()
            .any(|(_, tensor)| test(&tensor.name, tensor.dtype))
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The tensor of that name.
    pub(crate) fn get(&self, name: &str) -> Option<TensorRef<'_>> {
        self.tensors.get(name).map(|(file, tensor)| TensorRef {
            file: &self.files[*file],
            tensor,
        })
    }

    /// All tensors, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TensorRef<'_>> {
        self.tensors.values().map(|(file, tensor)| TensorRef {
            file: &self.files[*file],
            tensor,
        })
    }

    /// The first file's path, for errors about what is in no file.
    pub(crate) fn path(&self) -> &Path {
        self.files[0].path()
    }
}

/// A shard name's defect is the index's.
fn at_index(error: Error, index: &SourceFile) -> Error {
    match error {
        Error::Checkpoint {
            defect: defect @ Defect::ShardName { .. },
            ..
        } => Error::defect(index.path(), defect),
        other => other,
    }
}

fn parse_index(file: &Path, text: &[u8]) -> Result<BTreeMap<String, String>> {
    let object = json::parse_object(file, text, INDEX)?;
    let expected = "an object that names a shard for each tensor";
    let map = match object.get("weight_map") {
        Some(Value::Object(map)) if !map.is_empty() => map,
        Some(Value::Object(_)) => {
            return Err(Error::field(file, "weight_map", expected, "an empty one"));
        }
        other => {
            return Err(Error::field(
                file,
                "weight_map",
                expected,
                other.map_or("nothing".into(), describe),
            ));
        }
    };
    map.iter()
        .map(|(tensor, shard)| match shard {
            Value::String(shard) => Ok((tensor.clone(), shard.clone())),
            other => Err(Error::field(
                file,
                format!("weight_map.{tensor}"),
                "a file name",
                describe(other),
            )),
        })
        .collect()
}

fn read_header(file: &SourceFile) -> Result<Header> {
    let mut start = vec![0; file.len().min(8) as usize];
    file.read_at(&mut start, 0)?;
    let length = safetensors::header_len(file.path(), &start, file.len())?;
    let mut header = vec![0; length as usize];
    file.read_at(&mut header, 8)?;
    safetensors::parse_header(file.path(), &header, file.len())
}

/// A tensor and the file that holds it.
#[derive(Clone, Copy)]
pub(crate) struct TensorRef<'a> {
    file: &'a SourceFile,
    tensor: &'a Tensor,
}

impl<'a> TensorRef<'a> {
    /// A tensor of another kind of file, described in the same words.
    pub(crate) fn new(file: &'a SourceFile, tensor: &'a Tensor) -> Self {
        TensorRef { file, tensor }
    }

    pub(crate) fn name(&self) -> &'a str {
        &self.tensor.name
    }

    pub(crate) fn dtype(&self) -> Dtype {
        self.tensor.dtype
    }

    pub(crate) fn shape(&self) -> &'a [u64] {
        &self.tensor.shape
    }

    pub(crate) fn byte_len(&self) -> u64 {
        self.tensor.byte_len()
    }

    pub(crate) fn path(&self) -> &'a Path {
        self.file.path()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tensor.shape.contains(&0)
    }

    /// A defect of this tensor's file.
    pub(crate) fn error(&self, defect: Defect) -> Error {
        Error::defect(self.path(), defect)
    }

    /// The dtype is one of `fits`, which `expected` says in words.
    pub(crate) fn expect_dtype(&self, fits: &[Dtype], expected: &'static str) -> Result<()> {
        if fits.contains(&self.dtype()) {
            return Ok(());
        }
        let found = self.dtype().name();
        Err(self.error(Defect::Dtype {
            tensor: self.name().to_owned(),
            expected,
            found,
        }))
    }

    pub(crate) fn expect_shape(&self, expected: &[u64]) -> Result<()> {
        if self.shape() == expected {
            return Ok(());
        }
        let (expected, found) = (expected.to_vec(), self.shape().to_vec());
        Err(self.error(Defect::Shape {
            tensor: self.name().to_owned(),
            expected,
            found,
        }))
    }

    /// Reads into `buffer` from byte `offset` of the tensor on.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        debug_assert!(offset + buffer.len() as u64 <= self.byte_len());
        self.file.read_at(buffer, self.tensor.begin + offset)
    }

    /// `len` bytes of the tensor from byte `offset` on: mapped where the room allows it and they are aligned for their
    /// dtype, else a copy.
    pub(crate) fn bytes(&self, offset: usize, len: usize, room: &Room<'_>) -> Result<Bytes> {
        self.bytes_aligned(offset, len, self.dtype().size() as usize, room)
    }

    /// As [`TensorRef::bytes`], with an alignment of the caller's choice.
    pub(crate) fn bytes_aligned(
        &self,
        offset: usize,
        len: usize,
        alignment: usize,
        room: &Room<'_>,
    ) -> Result<Bytes> {
        if room.map && len > 0 {
            let bytes = self
                .file
                .map()?
                .slice(self.tensor.begin as usize + offset, len);
            if bytes.is_aligned(alignment) {
                return Ok(bytes);
            }
        }
        let mut copy = room.arena.take(len)?;
        self.read_at(&mut copy, offset as u64)?;
        Ok(copy.freeze())
    }
}

/// Keeps account of which tensors the model has taken, so that none is left over.
pub(crate) struct Account<'a> {
    set: &'a TensorSet,
    taken: HashSet<&'a str>,
}

impl<'a> Account<'a> {
    pub(crate) fn new(set: &'a TensorSet) -> Self {
        Account {
            set,
            taken: HashSet::new(),
        }
    }

    /// Takes a tensor the model cannot do without.
    ///
    /// Errors: [`Defect::Missing`].
    pub(crate) fn take(&mut self, name: &str) -> Result<TensorRef<'a>> {
        self.take_or(name, "")
    }

    /// As [`Account::take`]; `hint` is appended to the error.
    pub(crate) fn take_or(&mut self, name: &str, hint: &str) -> Result<TensorRef<'a>> {
        let missing = || {
            Error::defect(
                self.set.path(),
                Defect::Missing {
                    tensor: name.to_owned(),
                    hint: hint.to_owned(),
                },
            )
        };
        let tensor = self.set.get(name).ok_or_else(missing)?;
        self.taken.insert(tensor.name());
        Ok(tensor)
    }

    /// A defect of the checkpoint as a whole, named by its first file.
    pub(crate) fn error(&self, defect: Defect) -> Error {
        Error::defect(self.set.path(), defect)
    }

    /// There is such a tensor, taken or not.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.set.contains(name)
    }

    /// Takes a tensor that may be there and is of no use.
    pub(crate) fn skip(&mut self, name: &str) -> bool {
        self.set
            .get(name)
            .is_some_and(|tensor| self.taken.insert(tensor.name()))
    }

    /// Nothing is left, save tensors without elements and the rotary tables that old exports carry.
    ///
    /// Errors: [`Defect::Unexpected`], naming the first in the order of names.
    pub(crate) fn finish(self) -> Result<()> {
        let left = self
            .set
            .iter()
            .filter(|tensor| !self.taken.contains(tensor.name()))
            .filter(|tensor| !tensor.is_empty() && !tensor.name().ends_with(".inv_freq"))
            .min_by_key(|tensor| tensor.name());
        match left {
            Some(tensor) => Err(tensor.error(Defect::Unexpected {
                tensor: tensor.name().to_owned(),
            })),
            None => Ok(()),
        }
    }
}
