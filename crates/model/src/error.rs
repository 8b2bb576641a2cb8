//! What can go wrong, each defect on its own, in words for people.
//!
//! Two levels: [`Error`] says which kind of trouble (and carries the stable [`Error::code`] that programs branch on);
//! [`Defect`] says what exactly is wrong inside a checkpoint file: what was expected, what was found.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the language model, from loading to generation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder, or a file that a checkpoint cannot be without, is not there.
    #[error("{}: {needed}", .path.display())]
    ModelNotFound {
        /// Where it was looked for.
        path: PathBuf,
        /// What is needed there, and what to do.
        needed: String,
    },

    /// Another architecture, or a setting that this program does not run.
    #[error("{}: `{field}` is {found}, but only {expected} is supported", .file.display())]
    Unsupported {
        /// The file that holds the setting.
        file: PathBuf,
        /// The setting.
        field: String,
        /// What is supported.
        expected: String,
        /// What the file says.
        found: String,
    },

    /// A field of a JSON file is missing, or does not hold what it must.
    #[error("{}: `{field}` must be {expected}, found {found}", .file.display())]
    Field {
        /// The file that holds the field.
        file: PathBuf,
        /// The field, with dots between levels.
        field: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },

    /// A checkpoint's file is damaged, incomplete or contradicts the configuration.
    #[error("{}: {defect}", .file.display())]
    Checkpoint {
        /// The damaged file.
        file: PathBuf,
        /// What is wrong with it.
        defect: Defect,
    },

    /// A file is there but cannot be read.
    #[error("{}: cannot be read: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A file or folder cannot be written.
    #[error("{}: cannot be written: {source}", .file.display())]
    Write {
        /// The file or folder.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The disk has no room for a file that was to be written.
    #[error("{}: the disk is full: {} are needed there, {} are free; free some space or choose another folder", .folder.display(), ByteSize(*.needed), ByteSize(*.free))]
    DiskFull {
        /// The folder on that disk.
        folder: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
    },

    /// The machine has too little memory for what was asked.
    #[error("not enough memory {purpose}: {} are needed, {} are available; {advice}", ByteSize(*.needed), ByteSize(*.available))]
    OutOfMemory {
        /// What the memory is for, as in "for the weights".
        purpose: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        available: u64,
        /// What to do about it.
        advice: String,
    },

    /// An argument of a call is out of its range.
    #[error("`{argument}` must be {expected}, got {found}")]
    InvalidArgument {
        /// The argument's name.
        argument: &'static str,
        /// What it must be.
        expected: String,
        /// What it was.
        found: String,
    },

    /// The prompt and what was to follow do not fit the context.
    #[error(
        "the prompt of {prompt} tokens and {wanted} to generate exceed the context length of {context}"
    )]
    ContextLengthExceeded {
        /// Tokens in the prompt.
        prompt: usize,
        /// Tokens to be generated.
        wanted: usize,
        /// The context length.
        context: usize,
    },

    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,

    /// The model was disposed of before or during the call.
    #[error("the model has been disposed of")]
    Disposed,

    /// The numbers of one sequence left the range of 32-bit floats; others are not affected.
    #[error(
        "the model's numbers overflowed {place}, at position {position}, so there is nothing to go on with; others go on. The checkpoint's weights are too large there: compare it with its source, or try another `dtype`"
    )]
    NumbersOverflowed {
        /// Where, as in "in layer 3".
        place: String,
        /// Which position of prompt and answer.
        position: usize,
    },

    /// The engine broke; it answers nothing more.
    #[error("the engine failed and must be loaded again: {reason}")]
    EngineFailed {
        /// What happened.
        reason: String,
    },
}

impl Error {
    /// The stable name of this kind of error, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Error::ModelNotFound { .. } => "MODEL_NOT_FOUND",
            Error::Unsupported { .. } => "UNSUPPORTED_MODEL",
            Error::Field { .. } | Error::Checkpoint { .. } => "INVALID_CHECKPOINT",
            Error::Read { .. } | Error::Write { .. } => "IO",
            Error::DiskFull { .. } => "DISK_FULL",
            Error::OutOfMemory { .. } => "OUT_OF_MEMORY",
            Error::InvalidArgument { .. } => "INVALID_ARGUMENT",
            Error::ContextLengthExceeded { .. } => "CONTEXT_LENGTH_EXCEEDED",
            Error::Cancelled => "CANCELLED",
            Error::Disposed => "DISPOSED",
            Error::NumbersOverflowed { .. } => "NUMBERS_OVERFLOWED",
            Error::EngineFailed { .. } => "ENGINE_FAILED",
        }
    }

    /// Puts a defect and the file it was found in together.
    pub fn defect(file: &Path, defect: Defect) -> Self {
        Error::Checkpoint {
            file: file.to_owned(),
            defect,
        }
    }

    /// A field of a JSON file that does not hold what it must.
    pub fn field(
        file: &Path,
        field: impl Into<String>,
        expected: impl Into<String>,
        found: impl fmt::Display,
    ) -> Self {
        Error::Field {
            file: file.to_owned(),
            field: field.into(),
            expected: expected.into(),
            found: found.to_string(),
        }
    }

    /// A read error.
    pub fn read(file: &Path, source: io::Error) -> Self {
        Error::Read {
            file: file.to_owned(),
            source,
        }
    }

    /// A write error.
    pub fn write(file: &Path, source: io::Error) -> Self {
        Error::Write {
            file: file.to_owned(),
            source,
        }
    }
}

/// What is wrong inside a checkpoint file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// The file ends before its eight-byte header length does.
    #[error("too short for a safetensors file: {length} bytes, expected at least 8")]
    TooShort {
        /// The file's length in bytes.
        length: u64,
    },
    /// The header length is above the cap.
    #[error("the header claims {length} bytes; at most {limit} are accepted")]
    HeaderTooLarge {
        /// What the file says.
        length: u64,
        /// The cap.
        limit: u64,
    },
    /// The header would reach past the end of the file.
    #[error(
        "the header claims {length} bytes, but only {available} follow: the file is cut short or not safetensors"
    )]
    HeaderPastEnd {
        /// What the file says.
        length: u64,
        /// What is there.
        available: u64,
    },
    /// JSON nested deeper than the limit.
    #[error("JSON is nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// Not JSON, or not UTF-8.
    #[error("not valid JSON: {message}")]
    Json {
        /// What the parser said.
        message: String,
    },
    /// A JSON object holds a key twice.
    #[error("the name `{name}` is there twice")]
    DuplicateName {
        /// The key, or the tensor's name.
        name: String,
    },
    /// A header entry is not of the form the format asks for.
    #[error("header entry `{entry}`: {problem}")]
    HeaderEntry {
        /// The tensor's name (or `__metadata__`).
        entry: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The dtype's name is unknown.
    #[error("tensor `{tensor}`: unknown dtype `{found}`")]
    UnknownDtype {
        /// The tensor.
        tensor: String,
        /// The name found.
        found: String,
    },
    /// The shape's product does not fit 64 bits.
    #[error("tensor `{tensor}`: shape {shape:?} is larger than any file")]
    ShapeOverflow {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<u64>,
    },
    /// Shape and byte range disagree.
    #[error(
        "tensor `{tensor}`: {dtype} {shape:?} takes {expected} bytes, its offsets hold {found}"
    )]
    ByteLength {
        /// The tensor.
        tensor: String,
        /// Its dtype.
        dtype: &'static str,
        /// Its shape.
        shape: Vec<u64>,
        /// Bytes the shape takes.
        expected: u64,
        /// Bytes between the offsets.
        found: u64,
    },
    /// The begin offset lies behind the end offset.
    #[error("tensor `{tensor}`: offsets [{begin}, {end}] run backwards")]
    OffsetsReversed {
        /// The tensor.
        tensor: String,
        /// Begin offset.
        begin: u64,
        /// End offset.
        end: u64,
    },
    /// The tensor reaches past the end of the file.
    #[error(
        "tensor `{tensor}`: ends at byte {end} of the data, but the file holds {available}: the file is cut short"
    )]
    PastEnd {
        /// The tensor.
        tensor: String,
        /// End offset.
        end: u64,
        /// Data bytes in the file.
        available: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors `{first}` and `{second}` overlap")]
    Overlap {
        /// One tensor.
        first: String,
        /// The other.
        second: String,
    },
    /// Bytes that belong to no tensor.
    #[error("bytes {begin} to {end} of the data belong to no tensor (before `{tensor}`)")]
    Hole {
        /// The tensor that follows the hole.
        tensor: String,
        /// Where the hole begins.
        begin: u64,
        /// Where it ends.
        end: u64,
    },
    /// Bytes after the last tensor.
    #[error("{count} bytes follow the last tensor")]
    TrailingBytes {
        /// How many.
        count: u64,
    },
    /// A tensor the model needs is not there.
    #[error("tensor `{tensor}` is missing{hint}")]
    Missing {
        /// The tensor.
        tensor: String,
        /// What may be the reason; empty, or starting with a separator.
        hint: String,
    },
    /// A tensor the model has no use for.
    #[error("tensor `{tensor}` is not part of the model that config.json describes")]
    Unexpected {
        /// The tensor.
        tensor: String,
    },
    /// One tensor in two files.
    #[error("tensor `{tensor}` is also in `{other}`")]
    InTwoFiles {
        /// The tensor.
        tensor: String,
        /// The other file.
        other: String,
    },
    /// The index says the tensor is in this file, and it is not.
    #[error("the index places tensor `{tensor}` in this file, which does not hold it")]
    NotInShard {
        /// The tensor.
        tensor: String,
    },
    /// A shard holds a tensor that the index does not place there.
    #[error("holds tensor `{tensor}`, which the index {index}")]
    NotInIndex {
        /// The tensor.
        tensor: String,
        /// "does not list", or where it places it.
        index: String,
    },
    /// A shard's name is not a plain file name.
    #[error("shard name `{name}` is refused: {reason}")]
    ShardName {
        /// The name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// A file of the folder is a link to somewhere else.
    #[error("leads out of the model's folder, to {}: refused", .target.display())]
    LeadsOut {
        /// Where it leads.
        target: PathBuf,
    },
    /// Not a regular file.
    #[error("is {found}; expected a regular file: put the checkpoint's file itself in its place")]
    NotAFile {
        /// What it is.
        found: &'static str,
    },
    /// The tensor's dtype is not one that fits its place.
    #[error("tensor `{tensor}`: dtype {found}, expected {expected}")]
    Dtype {
        /// The tensor.
        tensor: String,
        /// The dtypes that fit.
        expected: &'static str,
        /// The dtype found.
        found: &'static str,
    },
    /// The tensor's shape is not the one config.json asks for.
    #[error("tensor `{tensor}`: shape {found:?}, expected {expected:?}")]
    Shape {
        /// The tensor.
        tensor: String,
        /// The shape expected.
        expected: Vec<u64>,
        /// The shape found.
        found: Vec<u64>,
    },
    /// NaN or infinity where a number is due.
    #[error("tensor `{tensor}`: {value} at {index:?}")]
    NotFinite {
        /// The tensor.
        tensor: String,
        /// `NaN`, `inf` or `-inf`.
        value: &'static str,
        /// Where in the tensor, one number for each dimension.
        index: Vec<u64>,
    },
    /// A two-bit code that stands for no ternary value.
    #[error("tensor `{tensor}`: code 3 at {index:?}; only 0, 1 and 2 are ternary")]
    Code {
        /// The tensor.
        tensor: String,
        /// Where in the tensor, counted in codes.
        index: Vec<u64>,
    },
    /// Two forms of one thing, where only one may be there.
    #[error("`{first}` and `{second}` are both there; only one may be")]
    BothForms {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A packed file of another layout, source or configuration.
    #[error("a packed file that does not fit: `{field}` is {found}, expected {expected}")]
    PackedMismatch {
        /// The metadata field.
        field: &'static str,
        /// What this program writes, or the source asks for.
        expected: String,
        /// What the file says.
        found: String,
    },
    /// A defect of a kind that only one file format has.
    #[error("{what}: expected {expected}, found {found}")]
    Format {
        /// The tensor, key or part of the file.
        what: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A GGUF file's header or keys are not what they must be.
    #[error("{problem}")]
    Gguf {
        /// What is wrong, what was expected and what was found.
        problem: String,
    },
    /// The file is not the one it was when loading began.
    #[error("changed while it was being loaded: start again when nothing writes to it")]
    Changed,
}

/// A number of bytes as people read it: `5.3 GB`.
pub(crate) struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => write!(f, "{:.1} GB", n as f64 / 1e9),
            n if n >= 1_000_000 => write!(f, "{:.0} MB", n as f64 / 1e6),
            n if n >= 1_000 => write!(f, "{:.0} kB", n as f64 / 1e3),
            n => write!(f, "{n} bytes"),
        }
    }
}
