//! Any bytes as a safetensors file's header. What is accepted must tile the file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use model::load::safetensors::{header_len, parse_header};

fuzz_target!(|bytes: &[u8]| {
    let (path, file_len) = (Path::new("input"), bytes.len() as u64);
    let Ok(length) = header_len(path, &bytes[..bytes.len().min(8)], file_len) else {
        return;
    };
    let end = 8 + length;
    if let Ok(header) = parse_header(path, &bytes[8..end as usize], file_len) {
        let mut at = end;
        for tensor in header.tensors {
            assert_eq!(tensor.begin, at);
            at = tensor.end;
        }
        assert_eq!(at, file_len);
    }
});
