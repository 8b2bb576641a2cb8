//! The only place where the model's errors become JavaScript's.
//!
//! The message starts with the stable code and a colon: Node-API hands a promise's rejection over as text, and the
//! package's TypeScript side splits it again.

use std::borrow::Borrow;
use std::fmt::Display;

use napi::{Error, Status};

/// A coded error, from the model's own.
pub fn to_js(error: impl Borrow<model::error::Error>) -> Error {
    let error = error.borrow();
    coded(error.code(), error)
}

/// A coded error.
pub fn coded(code: &str, message: impl Display) -> Error {
    Error::new(Status::GenericFailure, format!("{code}: {message}"))
}

/// An argument that is not what it must be.
pub fn invalid(argument: &str, expected: impl Display, found: impl Display) -> Error {
    coded(
        "INVALID_ARGUMENT",
        format_args!("`{argument}` must be {expected}, got {found}"),
    )
}

/// A number that must be whole and within bounds. JavaScript's numbers are checked here rather than by Node-API, whose
/// own conversion wraps silently.
pub fn whole(argument: &str, value: f64, min: usize, max: usize) -> napi::Result<usize> {
    if value.fract() == 0.0 && value >= min as f64 && value <= max as f64 {
        Ok(value as usize)
    } else {
        Err(invalid(
            argument,
            format_args!("a whole number from {min} to {max}"),
            value,
        ))
    }
}

/// [`whole`], where it is given.
pub fn whole_or(
    argument: &str,
    value: Option<f64>,
    min: usize,
    max: usize,
    absent: usize,
) -> napi::Result<usize> {
    value.map_or(Ok(absent), |value| whole(argument, value, min, max))
}
