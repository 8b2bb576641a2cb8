//! Safetensors files with something wrong: each defect its own error.

use std::path::Path;

use model::error::{Defect, Error};
use model::load::safetensors::{MAX_HEADER, header_len, parse_header};
use serde_json::{Value, json};

use crate::maker::*;

/// What a file with this header and so many bytes of data is refused for.
#[track_caller]
fn header_defect(header: &str, data: usize) -> Defect {
    let file_len = (8 + header.len() + data) as u64;
    match parse_header(Path::new("f"), header.as_bytes(), file_len) {
        Err(Error::Checkpoint { defect, .. }) => defect,
        other => panic!("expected a defect in {header}, got {other:?}"),
    }
}

#[test]
fn header_lengths_are_bounded_before_anything_is_allocated() {
    let cases = [
        (vec![], 0, Defect::TooShort { length: 0 }),
        (vec![1; 7], 7, Defect::TooShort { length: 7 }),
        (
            vec![0xff; 8],
            8,
            Defect::HeaderTooLarge {
                length: u64::MAX,
                limit: MAX_HEADER,
            },
        ),
        (
            (1u64 << 63).to_le_bytes().to_vec(),
            1 << 40,
            Defect::HeaderTooLarge {
                length: 1 << 63,
                limit: MAX_HEADER,
            },
        ),
        (
            (MAX_HEADER + 1).to_le_bytes().to_vec(),
            1 << 40,
            Defect::HeaderTooLarge {
                length: MAX_HEADER + 1,
                limit: MAX_HEADER,
            },
        ),
        (
            9u64.to_le_bytes().to_vec(),
            16,
            Defect::HeaderPastEnd {
                length: 9,
                available: 8,
            },
        ),
    ];
    for (start, file_len, expected) in cases {
        match header_len(Path::new("f"), &start, file_len) {
            Err(Error::Checkpoint { defect, .. }) => assert_eq!(defect, expected),
            other => panic!("{other:?}"),
        }
        // And through the door.
        let folder = TempFolder::new();
        folder.write("config.json", config().to_string());
        folder.write("model.safetensors", &start);
        let (file, defect) = defect(&folder);
        assert_eq!(file, "model.safetensors");
        assert!(matches!(
            defect,
            Defect::TooShort { .. } | Defect::HeaderTooLarge { .. } | Defect::HeaderPastEnd { .. }
        ));
    }
    assert_eq!(
        header_len(Path::new("f"), &8u64.to_le_bytes(), 16).unwrap(),
        8
    );
}

#[test]
fn headers_must_be_one_json_object() {
    for header in [
        "",
        " {}",
        "[]",
        "null",
        "{",
        "{}}",
        "{\"a\":}",
        "\u{feff}{}",
    ] {
        assert!(
            matches!(header_defect(header, 0), Defect::Json { .. }),
            "{header}"
        );
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
    assert_eq!(header_defect(&deep, 0), Defect::TooDeep { limit: 64 });
    let entry = r#"{"dtype":"U8","shape":[4],"data_offsets":[0,4]}"#;
    let twice = format!(r#"{{"a":{entry},"a":{entry}}}"#);
    assert_eq!(
        header_defect(&twice, 4),
        Defect::DuplicateName { name: name("a") }
    );
    assert!(parse_header(Path::new("f"), b"{}   ", 13).is_ok());
}

#[test]
fn header_entries_must_have_their_form() {
    let cases = [
        (
            r#"{"__metadata__":[]}"#,
            "__metadata__",
            "must be an object",
        ),
        (
            r#"{"__metadata__":{"format":1}}"#,
            "__metadata__",
            "`format` must be text, found 1",
        ),
        (r#"{"a":[]}"#, "a", "must be an object"),
        (
            r#"{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}}"#,
            "a",
            "unknown member `x`",
        ),
        (
            r#"{"a":{"shape":[0],"data_offsets":[0,0]}}"#,
            "a",
            "`dtype` must be text, found nothing",
        ),
        (
            r#"{"a":{"dtype":8,"shape":[0],"data_offsets":[0,0]}}"#,
            "a",
            "`dtype` must be text, found 8",
        ),
        (
            r#"{"a":{"dtype":"U8","data_offsets":[0,0]}}"#,
            "a",
            "`shape` must be a list of whole numbers, found nothing",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":4,"data_offsets":[0,0]}}"#,
            "a",
            "found 4",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}}"#,
            "a",
            "found -1",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,0]}}"#,
            "a",
            "found 1.5",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":["4"],"data_offsets":[0,0]}}"#,
            "a",
            "found \"4\"",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,0]}}"#,
            "a",
            "`shape`",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}}"#,
            "a",
            "must be two numbers, found 1",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}}"#,
            "a",
            "must be two numbers, found 3",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[0],"data_offsets":{"a":0}}}"#,
            "a",
            "`data_offsets`",
        ),
    ];
    for (header, entry, words) in cases {
        match header_defect(header, 0) {
            Defect::HeaderEntry {
                entry: found,
                problem,
            } => {
                assert_eq!(found, entry);
                assert!(problem.contains(words), "{words:?} in {problem:?}");
            }
            other => panic!("{header}: {other:?}"),
        }
    }
    let unknown = r#"{"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}"#;
    assert_eq!(
        header_defect(unknown, 2),
        Defect::UnknownDtype {
            tensor: name("a"),
            found: name("F4")
        }
    );
}

/// A header of U8 tensors with these ranges.
fn ranges(ranges: &[(u64, u64)]) -> String {
    let entry = |(i, (begin, end)): (usize, &(u64, u64))| {
        (
            format!("t{i}"),
            json!({ "dtype": "U8", "shape": [end.saturating_sub(*begin)], "data_offsets": [begin, end] }),
        )
    };
    Value::Object(ranges.iter().enumerate().map(entry).collect()).to_string()
}

#[test]
fn ranges_must_tile_the_data() {
    assert_eq!(
        header_defect(&ranges(&[(4, 0)]), 4),
        Defect::OffsetsReversed {
            tensor: name("t0"),
            begin: 4,
            end: 0
        }
    );
    assert_eq!(
        header_defect(&ranges(&[(0, 5)]), 4),
        Defect::PastEnd {
            tensor: name("t0"),
            end: 5,
            available: 4
        }
    );
    let far = u64::MAX;
    assert_eq!(
        header_defect(&ranges(&[(0, far)]), 4),
        Defect::PastEnd {
            tensor: name("t0"),
            end: far,
            available: 4
        }
    );
    for (at, overlapping) in [
        [(0, 3), (2, 4)],
        [(0, 4), (0, 4)],
        [(0, 4), (1, 2)],
        [(2, 4), (0, 3)],
    ]
    .iter()
    .enumerate()
    {
        let Defect::Overlap { .. } = header_defect(&ranges(overlapping), 4) else {
            panic!("{at}")
        };
    }
    assert_eq!(
        header_defect(&ranges(&[(1, 4)]), 4),
        Defect::Hole {
            tensor: name("t0"),
            begin: 0,
            end: 1
        }
    );
    assert_eq!(
        header_defect(&ranges(&[(0, 1), (2, 4)]), 4),
        Defect::Hole {
            tensor: name("t1"),
            begin: 1,
            end: 2
        }
    );
    assert_eq!(
        header_defect(&ranges(&[(0, 3)]), 4),
        Defect::TrailingBytes { count: 1 }
    );
    assert_eq!(header_defect("{}", 4), Defect::TrailingBytes { count: 4 });
    // In any order, and with empty ones between, they are fine.
    for good in [
        &[(2, 4), (0, 2)][..],
        &[(0, 0), (0, 4), (4, 4)],
        &[(0, 2), (2, 2), (2, 4)],
    ] {
        let header = ranges(good);
        assert!(
            parse_header(
                Path::new("f"),
                header.as_bytes(),
                (12 + header.len()) as u64
            )
            .is_ok(),
            "{header}"
        );
    }
}

#[test]
fn shapes_must_fit_their_ranges_even_where_products_wrap() {
    let header = |dtype: &str, shape: &[u64], end: u64| {
        json!({ "a": { "dtype": dtype, "shape": shape, "data_offsets": [0, end] } }).to_string()
    };
    assert_eq!(
        header_defect(&header("BF16", &[3, 2], 8), 8),
        Defect::ByteLength {
            tensor: name("a"),
            dtype: "BF16",
            shape: vec![3, 2],
            expected: 12,
            found: 8
        }
    );
    // Each of these products is 0 or 8 in 64 wrapping bits.
    for shape in [
        vec![1 << 32, 1 << 32],
        vec![1 << 63, 2],
        vec![1 << 62, 1 << 62, 16],
        vec![(1 << 61) + 1, 8],
        vec![1 << 63],
    ] {
        let end = if shape[0] % 2 == 1 { 8 } else { 0 };
        let found = header_defect(&header("BF16", &shape, end), end as usize);
        assert_eq!(
            found,
            Defect::ShapeOverflow {
                tensor: name("a"),
                shape
            }
        );
    }
    // A zero makes any shape empty.
    let empty = header("F32", &[u64::MAX, 0, u64::MAX], 0);
    assert!(parse_header(Path::new("f"), empty.as_bytes(), 8 + empty.len() as u64).is_ok());
}

#[test]
fn a_checkpoint_cut_anywhere_is_refused() {
    let (config, tensors) = (config(), hf_tensors(&parsed(&config())));
    let bytes = safetensors(&tensors);
    let folder = hf_folder(&config, &tensors);
    let cuts = (0..200)
        .chain((200..bytes.len()).step_by(3001))
        .chain([bytes.len() - 1]);
    for cut in cuts {
        folder.write("model.safetensors", &bytes[..cut]);
        let (file, _) = defect(&folder);
        assert_eq!(file, "model.safetensors");
    }
    folder.write("model.safetensors", [&bytes[..], b"x"].concat());
    assert_eq!(defect(&folder).1, Defect::TrailingBytes { count: 1 });
}

/// Changes one random byte or a few; what comes out must be an answer.
#[test]
fn damaged_headers_end_in_an_answer() {
    let tensors: Tensors = hf_tensors(&parsed(&config())).into_iter().take(6).collect();
    let bytes = safetensors(&tensors);
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = &bytes[8..8 + length];
    let digits = b"0123456789{}[]\",:-.eE\\ uU\x00\xff";
    for round in 0..20_000usize {
        let mut damaged = header.to_vec();
        for change in 0..1 + round % 3 {
            let random = |n: usize| {
                (((noise(round, 2 * change + n) + 1.0) * 5e5) as usize).wrapping_mul(7919)
            };
            let at = random(0) % damaged.len();
            match round % 4 {
                0 => damaged[at] = digits[random(1) % digits.len()],
                1 => damaged.insert(at, digits[random(1) % digits.len()]),
                2 => drop(damaged.remove(at)),
                _ => damaged[at] = random(1) as u8,
            }
        }
        if let Ok(header) = parse_header(Path::new("f"), &damaged, bytes.len() as u64) {
            // What is accepted is inside the file and tiles it.
            let mut at = 8 + damaged.len() as u64;
            for tensor in header.tensors {
                assert_eq!(tensor.begin, at);
                at = tensor.end;
            }
            assert_eq!(at, bytes.len() as u64);
        }
    }
}
