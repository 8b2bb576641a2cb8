//! A GGUF file, or all parts of a split one: headers read, tensors put together.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::header::{Header, TensorInfo};
use crate::error::{Defect, Error, Result};
use crate::load::file::SourceFile;

/// More parts than any model has.
const MAX_PARTS: u64 = 9_999;

/// What the parts hold together.
pub(super) struct Parts {
    pub files: Vec<SourceFile>,
    /// File and place of each tensor.
    pub tensors: HashMap<String, (usize, TensorInfo)>,
    /// Of the first part, which has the keys.
    pub header: Header,
    /// The bytes that header was read from.
    pub head: Vec<u8>,
}

/// The file begins as a GGUF file does.
pub(super) fn has_magic(file: &SourceFile) -> bool {
    let mut magic = [0; 4];
    file.len() >= 4 && file.read_at(&mut magic, 0).is_ok() && &magic == b"GGUF"
}

/// Opens the file at `path` and the parts that belong to it.
pub(super) fn open(path: &Path) -> Result<Parts> {
    let defect = |path: &Path, problem| Error::defect(path, Defect::Gguf { problem });
    if !path.exists() {
        return Err(Error::ModelNotFound {
            path: path.to_owned(),
            needed: "there is no such file".to_owned(),
        });
    }
    let file = SourceFile::open(path)?;
    let (mut header, head) = read_header(&file)?;
    let number = |header: &Header, key: &str| header.opt_int(key, 0, u64::MAX);
    let count = number(&header, "split.count")
        .map_err(|p| defect(path, p))?
        .unwrap_or(0);
    if count > MAX_PARTS {
        return Err(defect(
            path,
            format!("split.count is {count}, expected at most {MAX_PARTS}"),
        ));
    }
    let first = number(&header, "split.no")
        .map_err(|p| defect(path, p))?
        .unwrap_or(0);
    if first != 0 {
        return Err(defect(
            path,
            format!(
                "this is part {} of {count}; name the first one, -00001-of-{count:05}.gguf",
                first + 1
            ),
        ));
    }
    let mut parts = Parts {
        files: Vec::new(),
        tensors: HashMap::new(),
        head,
        header: Header::default(),
    };
    add(&mut parts, file, &mut header)?;
    for part in 1..count {
        let sibling = sibling(path, part, count).ok_or_else(|| {
            defect(
                path,
                format!(
                    "split.count is {count}, so the first part's name must end in -00001-of-{count:05}.gguf"
                ),
            )
        })?;
        if !sibling.exists() {
            return Err(Error::ModelNotFound {
                path: sibling,
                needed: format!(
                    "part {} of {count} of this model is not there; download it",
                    part + 1
                ),
            });
        }
        let file = SourceFile::open(&sibling)?;
        let (mut own, _) = read_header(&file)?;
        for (key, expected) in [("split.no", part), ("split.count", count)] {
            let found = number(&own, key).map_err(|p| defect(&sibling, p))?;
            if found != Some(expected) {
                let found = found.map_or("missing".to_owned(), |n| n.to_string());
                return Err(defect(
                    &sibling,
                    format!("{key} is {found}, expected {expected}"),
                ));
            }
        }
        add(&mut parts, file, &mut own)?;
    }
    if count > 0 {
        let told = number(&header, "split.tensors.count").map_err(|p| defect(path, p))?;
        let found = parts.tensors.len() as u64;
        if told.is_some_and(|told| told != found) {
            let told = told.unwrap_or(0);
            return Err(defect(
                path,
                format!("split.tensors.count is {told}, but the parts hold {found} tensors"),
            ));
        }
    }
    parts.header = header;
    Ok(parts)
}

fn add(parts: &mut Parts, file: SourceFile, header: &mut Header) -> Result<()> {
    let number = parts.files.len();
    for info in std::mem::take(&mut header.tensors) {
        let name = info.name.clone();
        if let Some((other, _)) = parts.tensors.insert(name.clone(), (number, info)) {
            return Err(Error::defect(
                file.path(),
                Defect::InTwoFiles {
                    tensor: name,
                    other: parts.files[other].path().display().to_string(),
                },
            ));
        }
    }
    parts.files.push(file);
    Ok(())
}

/// `...-00001-of-00003.gguf` becomes the name of part `number` (counted from 0).
fn sibling(first: &Path, number: u64, count: u64) -> Option<PathBuf> {
    let name = first.file_name()?.to_str()?;
    let stem = name.strip_suffix(&format!("-00001-of-{count:05}.gguf"))?;
    Some(first.with_file_name(format!("{stem}-{:05}-of-{count:05}.gguf", number + 1)))
}

/// Reads as much of the file as the header takes; returns it with the header.
fn read_header(file: &SourceFile) -> Result<(Header, Vec<u8>)> {
    let mut head = Vec::new();
    let mut want = 1 << 20;
    loop {
        let len = file.len().min(want) as usize;
        let old = head.len();
        head.resize(len, 0);
        file.read_at(&mut head[old..], old as u64)?;
        match Header::parse(&head, file.len()) {
            Ok(header) => return Ok((header, head)),
            Err(stop)
                if stop.cut_short
                    && (len as u64) < file.len()
                    && want < super::header::MAX_HEADER =>
            {
                want *= 4;
            }
            Err(stop) => {
                return Err(Error::defect(
                    file.path(),
                    Defect::Gguf {
                        problem: stop.problem,
                    },
                ));
            }
        }
    }
}
