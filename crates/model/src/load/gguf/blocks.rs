//! The block types of GGUF tensors: sizes, and their exact values.
//!
//! Bit orders follow the `gguf` Python package; a test compares every decoder here with it.

use kernels::layout::{GroupedLayout, ScaleFormat};

/// What is wrong with a file, in words; the caller adds the file's name.
pub(super) type Defect = String;

/// Tensor types this loader reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GgmlType {
    F32,
    F16,
    Bf16,
    Q8_0,
    Q4_0,
    Q4K,
    Q6K,
    Tq1_0,
    Tq2_0,
    Q2_0,
}

use GgmlType::*;

/// Type, id in the file, name, weights a block, bytes a block.
const TYPES: [(GgmlType, u32, &str, u64, u64); 10] = [
    (F32, 0, "F32", 1, 4),
    (F16, 1, "F16", 1, 2),
    (Bf16, 30, "BF16", 1, 2),
    (Q8_0, 8, "Q8_0", 32, 34),
    (Q4_0, 2, "Q4_0", 32, 18),
    (Q4K, 12, "Q4_K", 256, 144),
    (Q6K, 14, "Q6_K", 256, 210),
    (Tq1_0, 34, "TQ1_0", 256, 54),
    (Tq2_0, 35, "TQ2_0", 256, 66),
    (Q2_0, 42, "Q2_0", 64, 18),
];

impl GgmlType {
    fn row(self) -> &'static (GgmlType, u32, &'static str, u64, u64) {
        &TYPES[TYPES
            .iter()
            .position(|t| t.0 == self)
            .expect("every type is in the table")]
    }

    pub fn from_id(id: u32) -> Option<GgmlType> {
        TYPES.iter().find(|t| t.1 == id).map(|t| t.0)
    }

    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Weights in a block.
    pub fn block(self) -> usize {
        self.row().3 as usize
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        self.row().4 as usize
    }

    /// All names, for messages.
    pub fn list() -> String {
        TYPES.map(|t| format!("{} ({})", t.2, t.1)).join(", ")
    }

    /// Bytes of a tensor of these sizes (fastest first, none of them 0).
    pub fn bytes_of(self, dims: &[u64]) -> Result<u64, Defect> {
        let (_, _, name, block, bytes) = *self.row();
        if !dims[0].is_multiple_of(block) {
            return Err(format!(
                "rows of {} weights cannot be {name}, whose blocks hold {block}",
                dims[0]
            ));
        }
        dims[1..]
            .iter()
            .try_fold(dims[0] / block, |n, d| n.checked_mul(*d))
            .and_then(|n| n.checked_mul(bytes))
            .ok_or_else(|| format!("sizes {dims:?} have more weights than fit in 64 bits"))
    }

    /// True for the types that hold codes {-1, 0, +1} (and perhaps +2) times a scale.
    pub fn is_ternary(self) -> bool {
        matches!(self, Tq1_0 | Tq2_0 | Q2_0)
    }
}

/// IEEE half precision to single; exact.
pub(super) fn f16(bytes: &[u8]) -> f32 {
    let h = u32::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    let sign = (h & 0x8000) << 16;
    let (exponent, mantissa) = ((h >> 10) & 31, h & 0x3ff);
    match exponent {
        // A subnormal is mantissa * 2^-24, exactly.
        0 => f32::from_bits(sign | (mantissa as f32 * f32::from_bits(0x3380_0000)).to_bits()),
        31 => f32::from_bits(sign | 0x7f80_0000 | mantissa << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | mantissa << 13),
    }
}

/// Scale and codes (0 = -1, 1 = 0, 2 = +1, 3 = +2) of one block of a ternary type.
pub(super) fn ternary_block(ty: GgmlType, block: &[u8], codes: &mut [u8]) -> f32 {
    match ty {
        Tq2_0 => {
            for (half, bytes) in block[..64].chunks_exact(32).enumerate() {
                for (m, b) in bytes.iter().enumerate() {
                    for field in 0..4 {
                        codes[128 * half + 32 * field + m] = b >> (2 * field) & 3;
                    }
                }
            }
            f16(&block[64..])
        }
        Q2_0 => {
            for (m, b) in block[2..18].iter().enumerate() {
                for field in 0..4 {
                    codes[4 * m + field] = b >> (2 * field) & 3;
                }
            }
            f16(block)
        }
        Tq1_0 => {
            // Three runs: 32 bytes of five trits, 16 bytes of five, 4 bytes of four; trit n of a byte is the top
            // digit of byte * 3^n mod 256.
            let mut out = codes.iter_mut();
            for (bytes, trits) in [(&block[..32], 5), (&block[32..48], 5), (&block[48..52], 4)] {
                let mut power = 1u8;
                for _ in 0..trits {
                    for (b, o) in bytes.iter().zip(&mut out) {
                        *o = ((u16::from(b.wrapping_mul(power)) * 3) >> 8) as u8;
                    }
                    power = power.wrapping_mul(3);
                }
            }
            f16(&block[52..])
        }
        _ => unreachable!("not a ternary type"),
    }
}

/// As [`ternary_block`], with 16 codes a word, the first in the lowest bits.
pub(super) fn ternary_words(ty: GgmlType, block: &[u8], words: &mut [u32]) -> f32 {
    if ty == Tq2_0 {
        // Two codes of a byte lie 32 columns apart, so the same field of 16 neighbouring bytes makes a word.
        for (half, bytes) in block[..64].chunks_exact(32).enumerate() {
            for (part, bytes) in bytes.chunks_exact(16).enumerate() {
                let [low, high] = [&bytes[..8], &bytes[8..]]
                    .map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
                for field in 0..4 {
                    words[8 * half + 2 * field + part] =
                        gather(low >> (2 * field)) | gather(high >> (2 * field)) << 16;
                }
            }
        }
        return f16(&block[64..]);
    }
    let mut codes = [0u8; 256];
    let codes = &mut codes[..ty.block()];
    let d = ternary_block(ty, block, codes);
    for (word, codes) in words.iter_mut().zip(codes.chunks_exact(16)) {
        *word = codes
            .iter()
            .rev()
            .fold(0, |word, &code| word << 2 | u32::from(code));
    }
    d
}

/// The two low bits of each of eight bytes, side by side.
fn gather(bytes: u64) -> u32 {
    let mut x = bytes & 0x0303_0303_0303_0303;
    x = (x | x >> 6) & 0x000f_000f_000f_000f;
    x = (x | x >> 12) & 0x0000_00ff_0000_00ff;
    ((x | x >> 24) & 0xffff) as u32
}

/// Scales of one block of an affine type, in the form its [`affine_layout`] takes.
#[derive(Default)]
pub(super) struct BlockScales {
    /// Of a two-level type: the factors of the block's bytes.
    pub upper: (f32, f32),
    /// Of a two-level type: scale and bias of each group.
    pub lower: [(i8, i8); 16],
    /// Of a one-level type, whose blocks are one group: scale and bias.
    pub pair: (f32, f32),
}

/// The form in which an affine type is kept: exact, and hardly larger than in the file.
pub(super) fn affine_layout(ty: GgmlType) -> Option<GroupedLayout> {
    let (bits, group, scales) = match ty {
        Q8_0 => (8, 32, ScaleFormat::F32),
        Q4_0 => (4, 32, ScaleFormat::F32),
        Q4K => (4, 32, ScaleFormat::TwoLevel),
        Q6K => (8, 16, ScaleFormat::TwoLevel),
        _ => return None,
    };
    Some(GroupedLayout {
        bits,
        group,
        scales,
    })
}

/// Codes and scales of one block of an affine type: `w = code * scale + bias`, scales exact in `f32`.
pub(super) fn affine_block(ty: GgmlType, block: &[u8], codes: &mut [u8]) -> BlockScales {
    let mut scales = BlockScales::default();
    match ty {
        Q8_0 => {
            let d = f16(block);
            for (b, code) in block[2..34].iter().zip(codes) {
                *code = b ^ 0x80;
            }
            scales.pair = (d, -128.0 * d);
        }
        Q4_0 => {
            let d = f16(block);
            for (m, b) in block[2..18].iter().enumerate() {
                codes[m] = b & 15;
                codes[16 + m] = b >> 4;
            }
            scales.pair = (d, -8.0 * d);
        }
        Q4K => {
            q4k_codes(block, codes);
            scales.upper = (f16(block), -f16(&block[2..]));
            for (lower, (scale, min)) in scales.lower.iter_mut().zip(q4k_scales(&block[4..16])) {
                *lower = (scale as i8, min as i8);
            }
        }
        Q6K => {
            q6k_codes(block, codes);
            let d = f16(&block[208..]);
            scales.upper = (d, -32.0 * d);
            for (lower, &scale) in scales.lower.iter_mut().zip(&block[192..208]) {
                *lower = (scale as i8, scale as i8);
            }
        }
        _ => unreachable!("not an affine type"),
    }
    scales
}

/// Scale and minimum, six bits each, of the eight groups of a Q4_K block.
fn q4k_scales(s: &[u8]) -> [(u8, u8); 8] {
    std::array::from_fn(|g| {
        if g < 4 {
            (s[g] & 63, s[g + 4] & 63)
        } else {
            (
                s[g + 4] & 15 | s[g - 4] >> 6 << 4,
                s[g + 4] >> 4 | s[g] >> 6 << 4,
            )
        }
    })
}

/// The 256 codes of a Q4_K block: in each 32 bytes low nibbles come first, then high ones.
fn q4k_codes(block: &[u8], codes: &mut [u8]) {
    for (bytes, out) in block[16..144]
        .chunks_exact(32)
        .zip(codes.chunks_exact_mut(64))
    {
        for (m, b) in bytes.iter().enumerate() {
            out[m] = b & 15;
            out[32 + m] = b >> 4;
        }
    }
}

/// The 256 codes of a Q6_K block: four low bits in one place, two high ones in another.
fn q6k_codes(block: &[u8], codes: &mut [u8]) {
    let (low, high) = (&block[..128], &block[128..192]);
    for half in 0..2 {
        for l in 0..32 {
            let h = high[32 * half + l];
            for quarter in 0..4 {
                let b = low[64 * half + 32 * (quarter & 1) + l];
                let nibble = if quarter < 2 { b & 15 } else { b >> 4 };
                codes[128 * half + 32 * quarter + l] = nibble | ((h >> (2 * quarter)) & 3) << 4;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks and their values as the `gguf` package decodes them; `make_blocks.py` beside it made the file.
    const FIXTURE: &str = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../__test__/fixtures/gguf/blocks.json"
    ));

    fn bytes(hex: &serde_json::Value) -> Vec<u8> {
        let text = hex.as_str().unwrap().as_bytes().chunks_exact(2);
        text.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn every_decoder_equals_the_gguf_package() {
        let fixture: serde_json::Value = serde_json::from_str(FIXTURE).unwrap();
        let mut seen = 0;
        for (ty, _, name, block, size) in TYPES {
            let Some(case) = fixture.get(name) else {
                assert_eq!(block, 1, "{name} is not in the fixture");
                continue;
            };
            let expected: Vec<f32> = bytes(&case["values"])
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                .collect();
            let raw = bytes(&case["blocks"]);
            assert!(raw.len() >= size as usize);
            for (raw, expected) in raw
                .chunks_exact(size as usize)
                .zip(expected.chunks_exact(block as usize))
            {
                let mut codes = vec![0; block as usize];
                let values: Vec<f32> = if ty.is_ternary() {
                    let d = ternary_block(ty, raw, &mut codes);
                    let mut words = vec![0; codes.len() / 16];
                    assert_eq!(ternary_words(ty, raw, &mut words), d);
                    for (c, &code) in codes.iter().enumerate() {
                        assert_eq!(
                            words[c / 16] >> (2 * (c % 16)) & 3,
                            u32::from(code),
                            "{name} {c}"
                        );
                    }
                    codes
                        .iter()
                        .map(|&code| d * (f32::from(code) - 1.0))
                        .collect()
                } else {
                    let layout = affine_layout(ty).unwrap();
                    let scales = affine_block(ty, raw, &mut codes);
                    assert!(codes.iter().all(|&code| u32::from(code) < 1 << layout.bits));
                    let pair = |g: usize| match layout.scales {
                        ScaleFormat::TwoLevel => (
                            scales.upper.0 * f32::from(scales.lower[g].0),
                            scales.upper.1 * f32::from(scales.lower[g].1),
                        ),
                        _ => scales.pair,
                    };
                    let value = |(c, &code): (usize, &u8)| {
                        let (scale, bias) = pair(c / layout.group);
                        if ty == Q4K {
                            // The package rounds the product before it subtracts.
                            return f32::from(code) * scale + bias;
                        }
                        // Exact in f64, so it rounds once, as d * (q - offset) does in f32.
                        (f64::from(code) * f64::from(scale) + f64::from(bias)) as f32
                    };
                    codes.iter().enumerate().map(value).collect()
                };
                assert_eq!(values, expected, "{name}");
                seen += 1;
            }
        }
        assert_eq!(seen, 7 * 6);
    }

    #[test]
    fn half_precision_widens_exactly() {
        for (bits, value) in [
            (0x0001u16, 2f32.powi(-24)),
            (0x83ff, -(1023.0 * 2f32.powi(-24))),
            (0x0400, 2f32.powi(-14)),
            (0x3c00, 1.0),
            (0xfbff, -65504.0),
            (0x8000, -0.0),
        ] {
            assert_eq!(f16(&bits.to_le_bytes()).to_bits(), value.to_bits());
        }
        assert!(f16(&[0, 0x7c]).is_infinite() && f16(&[1, 0x7c]).is_nan());
    }
}
