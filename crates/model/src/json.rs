//! JSON from files nobody vouches for: bounded depth, no name twice in an object, a byte order mark accepted.

use std::fmt;
use std::path::Path;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::{Defect, Error, Result};

/// How deep arrays and objects may nest.
pub(crate) const MAX_DEPTH: usize = 64;

/// Parses `bytes`, refusing what a careless writer or an attacker may have put there.
///
/// Errors: [`Defect::TooDeep`], [`Defect::DuplicateName`], [`Defect::Json`], naming `file`.
pub(crate) fn parse(file: &Path, bytes: &[u8]) -> Result<Value> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if deeper_than(bytes, MAX_DEPTH) {
        return Err(Error::defect(file, Defect::TooDeep { limit: MAX_DEPTH }));
    }
    match serde_json::from_slice::<Strict>(bytes) {
        Ok(Strict(value)) => Ok(value),
        Err(error) => {
            let message = error.to_string();
            // The visitor can only hand out text, so the duplicate's name travels inside it.
            let defect = match message
                .strip_prefix(DUPLICATE)
                .and_then(|m| m.rsplit_once('\u{1}'))
            {
                Some((name, _)) => Defect::DuplicateName {
                    name: name.to_owned(),
                },
                None => Defect::Json { message },
            };
            Err(Error::defect(file, defect))
        }
    }
}

/// Parses `bytes` as one JSON object; `what` names it in the error.
pub(crate) fn parse_object(file: &Path, bytes: &[u8], what: &str) -> Result<Map<String, Value>> {
    match parse(file, bytes)? {
        Value::Object(map) => Ok(map),
        other => Err(Error::field(file, what, "a JSON object", describe(&other))),
    }
}

/// A value in a few words, for messages: `"silu"`, `12`, `an object`.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Array(items) if items.len() > 4 => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        other => {
            let text = other.to_string();
            if text.chars().count() > 80 {
                text.chars().take(77).chain("...".chars()).collect()
            } else {
                text
            }
        }
    }
}

/// Counts brackets outside strings, so that no recursive parser ever sees a hostile depth.
fn deeper_than(bytes: &[u8], limit: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for &byte in bytes {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

const DUPLICATE: &str = "\u{1}duplicate\u{1}";

/// A [`Value`] in which no object names a member twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> std::result::Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> std::result::Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> std::result::Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if map.contains_key(&name) {
                return Err(de::Error::custom(format_args!("{DUPLICATE}{name}\u{1}")));
            }
            let Strict(value) = access.next_value()?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defect(bytes: &[u8]) -> Defect {
        match parse(Path::new("f"), bytes) {
            Err(Error::Checkpoint { defect, .. }) => defect,
            other => panic!("expected a defect, got {other:?}"),
        }
    }

    #[test]
    fn a_name_twice_is_refused_at_any_level() {
        assert_eq!(
            defect(br#"{"a":1,"a":1}"#),
            Defect::DuplicateName { name: "a".into() }
        );
        assert_eq!(
            defect(br#"[{"x":{"b c":1,"b c":2}}]"#),
            Defect::DuplicateName { name: "b c".into() }
        );
        assert_eq!(
            defect(br#"{"a":1,"\u0061":1}"#),
            Defect::DuplicateName { name: "a".into() }
        );
        assert!(parse(Path::new("f"), br#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
    }

    #[test]
    fn depth_is_bounded_and_brackets_in_strings_do_not_count() {
        let nested = |n: usize| [vec![b'['; n], vec![b']'; n]].concat();
        assert!(parse(Path::new("f"), &nested(MAX_DEPTH)).is_ok());
        assert_eq!(
            defect(&nested(MAX_DEPTH + 1)),
            Defect::TooDeep { limit: MAX_DEPTH }
        );
        assert_eq!(
            defect(&vec![b'{'; 1 << 20]),
            Defect::TooDeep { limit: MAX_DEPTH }
        );
        let text = format!(r#"{{"a":"{}\""}}"#, "[".repeat(200));
        assert!(parse(Path::new("f"), text.as_bytes()).is_ok());
    }

    #[test]
    fn a_byte_order_mark_is_accepted_and_nonsense_is_not() {
        assert!(parse(Path::new("f"), b"\xef\xbb\xbf{}").is_ok());
        for bad in [
            &b""[..],
            b"{",
            b"{} x",
            b"\xff\xfe",
            b"{\"a\":\"\xff\"}",
            b"nul",
        ] {
            assert!(matches!(defect(bad), Defect::Json { .. }), "{bad:?}");
        }
    }
}
