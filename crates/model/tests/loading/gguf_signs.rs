//! GGUF files whose ternary weights were written in wider codes: packed where every value is -s, 0 or s, else kept exactly.

use kernels::half::f32_to_f16;
use model::load::{LoadOptions, Silent, inspect, load};
use model::slots::{MatrixSlot, Projection};
use model::weights::{Matrix, Weights};

use crate::gguf::{good, load_gguf, says};
use crate::gguf_maker::*;
use crate::hf::{matrix, values};
use crate::maker::*;

const Q4_0: u32 = 2;
const Q8_0: u32 = 8;
const Q6_K: u32 = 14;

/// A block of 32 codes around 0 with its scale, as Q8_0.
fn q8_0(codes: &[i8], scale: f32) -> Vec<u8> {
    let codes = codes.iter().map(|&code| code as u8);
    f32_to_f16(scale)
        .to_le_bytes()
        .into_iter()
        .chain(codes)
        .collect()
}

/// As [`q8_0`], of codes from -8 to 7.
fn q4_0(codes: &[i8], scale: f32) -> Vec<u8> {
    let nibble = |at: usize| (codes[at] + 8) as u8;
    let bytes = (0..16).map(|m| nibble(m) | nibble(16 + m) << 4);
    f32_to_f16(scale)
        .to_le_bytes()
        .into_iter()
        .chain(bytes)
        .collect()
}

/// A block of 256 codes from -32 to 31, and the factors of its groups of 16.
fn q6_k(codes: &[i8], factors: [i8; 16], scale: f32) -> Vec<u8> {
    let mut block = vec![0u8; 192];
    for (at, code) in codes.iter().map(|&code| (code + 32) as u8).enumerate() {
        let (half, quarter, l) = (at / 128, at % 128 / 32, at % 32);
        block[64 * half + 32 * (quarter & 1) + l] |= (code & 15) << (4 * (quarter / 2));
        block[128 + 32 * half + l] |= (code >> 4) << (2 * quarter);
    }
    block.extend(factors.map(|factor| factor as u8));
    block.extend(f32_to_f16(scale).to_le_bytes());
    block
}

/// The sign of a weight of the test's tensors: all of -1, 0 and 1, and whole blocks of 0.
fn sign(at: usize) -> i8 {
    if at / 32 % 5 == 3 {
        0
    } else {
        ((at * at + at / 7) % 3) as i8 - 1
    }
}

/// [`good`] with every expert and every attention matrix written in another type, block by block: `block` gets the tensor's
/// number of weights so far and the signs of the block's.
fn rewritten(ty: u32, width: usize, block: impl Fn(usize, &[i8]) -> Vec<u8>) -> Gguf {
    let mut file = good();
    for tensor in file.tensors.iter_mut().filter(|tensor| tensor.ty == 35) {
        let count = tensor.dims.iter().product::<u64>() as usize;
        let signs: Vec<i8> = (0..count).map(sign).collect();
        let blocks = signs.chunks_exact(width).enumerate();
        tensor.data = blocks
            .flat_map(|(b, signs)| block(b * width, signs))
            .collect();
        tensor.ty = ty;
    }
    file
}

fn scaled(signs: &[i8], size: i8) -> Vec<i8> {
    signs.iter().map(|sign| sign * size).collect()
}

/// The scale of the row that holds a weight: no two alike nearby, none of them a power of two.
fn row_scale(at: usize) -> f32 {
    0.001 + 0.0003 * (at / 256 % 17) as f32
}

/// What is written by the converters people use: the largest code for every weight, zeros in a block of their own with scale 0.
fn usual(at: usize, signs: &[i8]) -> Vec<u8> {
    let zeros = signs.iter().all(|&sign| sign == 0);
    q8_0(&scaled(signs, 127), if zeros { 0.0 } else { row_scale(at) })
}

fn kept_as_it_is(file: &Gguf) -> Weights {
    let (_folder, path) = file.write();
    let options = LoadOptions {
        pack_experts: false,
        ..Default::default()
    };
    load(&path, &options, &Silent).unwrap()
}

fn packable(weights: &Weights) -> impl Iterator<Item = MatrixSlot> {
    MatrixSlot::all(&weights.config).filter(|slot| slot.is_expert() || slot.is_attention())
}

#[test]
fn ternary_weights_are_packed_whatever_codes_they_are_written_in() {
    let forms: [(&str, Gguf); 5] = [
        ("Q8_0 of -127, 0, 127", rewritten(Q8_0, 32, usual)),
        (
            "Q8_0 of other codes, of scales below 0, and of other scales where the product is the same",
            rewritten(Q8_0, 32, |at, signs| {
                let (size, scale) = [(64, 1.0), (32, 2.0), (-64, 1.0), (-64, -1.0)][at / 32 % 4];
                let zeros = signs.iter().all(|&sign| sign == 0);
                q8_0(
                    &scaled(signs, size),
                    if zeros { 9.0 } else { scale / 1024.0 },
                )
            }),
        ),
        (
            "rows of zeros",
            rewritten(Q8_0, 32, |at, signs| {
                let kept = i8::from(at / 256 % 3 > 0);
                q8_0(&scaled(signs, 100 * kept), row_scale(at))
            }),
        ),
        (
            "Q4_0",
            rewritten(Q4_0, 32, |at, signs| {
                q4_0(&scaled(signs, -7), row_scale(at))
            }),
        ),
        (
            "Q6_K with factors of both signs",
            rewritten(Q6_K, 256, |at, signs| {
                let factors = std::array::from_fn(|g| if g % 3 == 0 { -90 } else { 90 });
                q6_k(&scaled(signs, 31), factors, row_scale(at))
            }),
        ),
    ];
    for (name, file) in forms {
        let (plain, packed) = (kept_as_it_is(&file), load_gguf(&file).unwrap());
        // The same values as plain 32-bit numbers: what those become is what these must become, bit for bit.
        let config = gguf_config();
        let mut tensors = hf_tensors(&parsed(&config));
        for slot in packable(&plain) {
            let (rows, cols) = slot.shape(&plain.config);
            let values = values(matrix(&plain, slot));
            let tensor = Tensor::f32(&[rows, cols], |at| values[at]);
            tensors.insert(format!("{slot}.weight"), tensor);
        }
        let floats = load_folder(&hf_folder(&config, &tensors)).unwrap();
        for slot in packable(&plain) {
            let wide = matrix(&plain, slot);
            assert!(matches!(wide, Matrix::Grouped { .. }), "{name}: {slot}");
            match (matrix(&packed, slot), matrix(&floats, slot)) {
                (
                    Matrix::Ternary { tiles, scales, .. },
                    Matrix::Ternary {
                        tiles: expected_tiles,
                        scales: expected_scales,
                        ..
                    },
                ) => assert!(
                    tiles[..] == expected_tiles[..] && scales[..] == expected_scales[..],
                    "{name}: {slot}"
                ),
                (found, expected) => panic!("{name}: {slot}: {found:?}, {expected:?}"),
            }
            assert_eq!(
                values(matrix(&packed, slot)),
                values(wide),
                "{name}: {slot}"
            );
        }
        let experts = packed.config.layers.len() * packed.config.experts;
        assert_eq!(packed.summary.packed_experts, experts, "{name}");
    }
}

#[test]
fn what_is_said_of_such_a_file_beforehand_is_what_loading_makes_of_it() {
    let file = rewritten(Q8_0, 32, usual);
    let (_folder, path) = file.write();
    let info = inspect(&path, &LoadOptions::default()).unwrap();
    let weights = load_gguf(&file).unwrap();
    assert_eq!(info.ternary_weights, weights.summary.ternary_weights);
    let kept = LoadOptions {
        pack_experts: false,
        ..Default::default()
    };
    let saved = inspect(&path, &kept).unwrap().weight_bytes - info.weight_bytes;
    // A code of 8 bits and its share of a scale of 32 became 2 bits.
    assert!(saved > info.ternary_weights * 6 / 8, "{saved} bytes saved");
}

#[test]
fn a_single_weight_of_another_size_keeps_its_matrix_as_it_was() {
    let name = "blk.1.ffn_up_exps.weight";
    let slot = |expert| MatrixSlot::Expert(1, expert, Projection::Up);
    let clean = rewritten(Q8_0, 32, usual);
    let blocks = clean
        .tensors
        .iter()
        .find(|tensor| tensor.name == name)
        .unwrap();
    let experts = *blocks.dims.last().unwrap() as usize;
    let per_expert = blocks.data.len() / experts;
    type Change = (&'static str, fn(&mut [u8]));
    let changes: [Change; 4] = [
        ("one code less", |block| {
            let at = 2 + block[2..].iter().position(|&code| code == 127).unwrap();
            block[at] = 126;
        }),
        ("one step from zero", |block| {
            let at = 2 + block[2..].iter().position(|&code| code == 0).unwrap();
            block[at] = 1;
        }),
        ("-128, which has no counterpart", |block| {
            let at = 2 + block[2..].iter().position(|&code| code == 129).unwrap();
            block[at] = 128;
        }),
        ("the next scale of 16 bits", |block| block[0] ^= 1),
    ];
    for (what, change) in changes {
        // In the first block of the matrix, and in the last whose weights are not all 0.
        for last in [false, true] {
            let mut file = clean.clone();
            let matrix_bytes = &mut file.tensor(name).data[per_expert..2 * per_expert];
            let mut blocks = matrix_bytes.chunks_exact_mut(34);
            let full = |block: &&mut [u8]| block[2..].iter().any(|&code| code != 0);
            let block = if last {
                blocks.rfind(full)
            } else {
                blocks.find(full)
            };
            change(block.unwrap());
            let (plain, weights) = (kept_as_it_is(&file), load_gguf(&file).unwrap());
            let changed = matrix(&weights, slot(1));
            assert!(
                matches!(changed, Matrix::Grouped { .. }),
                "{what}, last: {last}"
            );
            assert_eq!(values(changed), values(matrix(&plain, slot(1))), "{what}");
            assert!(
                matrix(&weights, slot(0)).is_ternary(),
                "{what}: its neighbours"
            );
        }
    }
}

#[test]
fn a_scale_that_is_no_number_is_found_behind_zeros_too() {
    for (scale, word) in [(0x7e00u16, "NaN"), (0x7c00, "inf"), (0xfc00, "-inf")] {
        for zeros in [false, true] {
            let mut file = rewritten(Q8_0, 32, usual);
            let block = &mut file.tensor("blk.0.attn_k.weight").data[34 * 9..34 * 10];
            block[..2].copy_from_slice(&scale.to_le_bytes());
            if zeros {
                block[2..].fill(0);
            }
            let place = ["blk.0.attn_k.weight", word, "[1, 32]"];
            says(load_gguf(&file), &place);
        }
    }
}

#[test]
fn a_copy_packed_from_such_a_file_holds_two_bits_a_weight() {
    let (folder, path) = rewritten(Q8_0, 32, usual).write();
    let cache = folder.path().join("cache");
    let options = LoadOptions {
        cache_folder: Some(cache.clone()),
        ..Default::default()
    };
    let first = load(&path, &options, &Silent).unwrap();
    let again = load(&path, &options, &Silent).unwrap();
    assert_eq!(again.summary.packed_file, first.summary.packed_file);
    let in_memory = load(&path, &LoadOptions::default(), &Silent).unwrap();
    for slot in packable(&in_memory) {
        assert!(matrix(&again, slot).is_ternary(), "{slot}");
        assert_eq!(
            values(matrix(&again, slot)),
            values(matrix(&in_memory, slot)),
            "{slot}"
        );
    }
}
