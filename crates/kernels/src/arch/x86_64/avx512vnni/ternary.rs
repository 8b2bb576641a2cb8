//! Ternary strips. A few activation rows: codes are unpacked in registers and used at once. Many: the codes of 256
//! columns are unpacked once into the first-level cache, and all rows pass over them.

use super::vector::{Sums, VECTORS, broadcast, join, load, prefetch};
use crate::layout::{STRIP, TERNARY_TILE_BYTES, TERNARY_TILE_COLS};
use crate::mat::TernaryStrip;
use crate::rows::{BLOCK, Rows, SUM_GROUP};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Tiles of one block of columns.
const BLOCK_TILES: usize = BLOCK / TERNARY_TILE_COLS;

/// Codes of a block of columns, one a byte: for every 4 columns, 64 rows x 4 columns.
#[repr(align(64))]
struct Codes(MaybeUninit<[u8; STRIP * BLOCK]>);

/// Field `f` (columns `4 f ..`) of a vector of codes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn field(word: __m512i, f: usize) -> __m512i {
    let three = _mm512_set1_epi8(3);
    match f {
        0 => _mm512_and_si512(word, three),
        1 => _mm512_and_si512(_mm512_srli_epi32::<2>(word), three),
        2 => _mm512_and_si512(_mm512_srli_epi32::<4>(word), three),
        _ => _mm512_and_si512(_mm512_srli_epi32::<6>(word), three),
    }
}

/// Sums of `code * q` over `count` tiles for `T` rows of activations in `P` planes, unpacking in registers.
///
/// # Safety
///
/// `count` tiles can be read at `tiles`, their columns at each of `x`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn direct<const T: usize, const P: usize>(
    tiles: *const u8,
    count: usize,
    x: [[*const i8; P]; T],
) -> [[Sums; P]; T] {
    let mut sums = [[[_mm512_setzero_si512(); VECTORS]; P]; T];
    for t in 0..count {
        // SAFETY: `t` is below `count`.
        unsafe {
            let tile = tiles.add(t * TERNARY_TILE_BYTES);
            let words: Sums = [load(tile, 0), load(tile, 1), load(tile, 2), load(tile, 3)];
            for f in 0..4 {
                prefetch(tile, f);
                let mut codes = words;
                for codes in &mut codes {
                    *codes = field(*codes, f);
                }
                for (sums, x) in sums.iter_mut().zip(&x) {
                    for (sums, x) in sums.iter_mut().zip(x) {
                        let q = broadcast(x.add(t * TERNARY_TILE_COLS + 4 * f));
                        for (sum, codes) in sums.iter_mut().zip(codes) {
                            *sum = _mm512_dpbusd_epi32(*sum, codes, q);
                        }
                    }
                }
            }
        }
    }
    sums
}

/// Unpacks up to [`BLOCK_TILES`] tiles.
///
/// # Safety
///
/// `count` tiles can be read at `tiles`, and `count` is at most [`BLOCK_TILES`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn unpack(tiles: *const u8, count: usize, codes: &mut Codes) {
    let codes = codes.0.as_mut_ptr().cast::<u8>();
    for t in 0..count {
        // SAFETY: `t` is below `count`; a tile unpacks to 1024 bytes.
        unsafe {
            let tile = tiles.add(t * TERNARY_TILE_BYTES);
            let to = codes.add(t * 4 * TERNARY_TILE_BYTES);
            for v in 0..VECTORS {
                prefetch(tile, v);
                let word = load(tile, v);
                for f in 0..4 {
                    _mm512_store_si512(to.add(256 * f + 64 * v).cast(), field(word, f));
                }
            }
        }
    }
}

/// As [`direct`], from unpacked codes.
///
/// # Safety
///
/// `codes` holds `count` unpacked tiles, whose columns can be read at each of `x`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn unpacked<const T: usize, const P: usize>(
    codes: &Codes,
    count: usize,
    x: [[*const i8; P]; T],
) -> [[Sums; P]; T] {
    let codes = codes.0.as_ptr().cast::<u8>();
    let mut sums = [[[_mm512_setzero_si512(); VECTORS]; P]; T];
    for step in 0..count * 4 {
        // SAFETY: a tile is four steps of 4 columns and 256 bytes of codes.
        unsafe {
            let at = codes.add(step * 256);
            let codes: Sums = [load(at, 0), load(at, 1), load(at, 2), load(at, 3)];
            for (sums, x) in sums.iter_mut().zip(&x) {
                for (sums, x) in sums.iter_mut().zip(x) {
                    let q = broadcast(x.add(step * 4));
                    for (sum, codes) in sums.iter_mut().zip(codes) {
                        *sum = _mm512_dpbusd_epi32(*sum, codes, q);
                    }
                }
            }
        }
    }
    sums
}

/// # Safety
///
/// The CPU has this room's instruction set; lengths as the table asks.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn int16(w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    // SAFETY: the caller's promises, for parts of the same index list.
    unsafe {
        match idx.len() {
            0 => {}
            1 => int16_few::<1>(w, x, idx, out),
            2 => int16_few::<2>(w, x, idx, out),
            3 => int16_few::<3>(w, x, idx, out),
            _ => int16_many(w, x, idx, out),
        }
    }
}

/// # Safety
///
/// As [`int16`], and `idx` has `T` entries.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn int16_few<const T: usize>(w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    let count = w.tiles.len() / TERNARY_TILE_BYTES;
    // SAFETY: the strip holds `count` tiles, and the planes are padded to more than their columns.
    let sums = unsafe { direct::<T, 2>(w.tiles.as_ptr(), count, x.planes(idx, 0)) };
    for (t, [high, low]) in sums.into_iter().enumerate() {
        let mut dots = high;
        for (dots, low) in dots.iter_mut().zip(low) {
            *dots = join(*dots, low);
        }
        // SAFETY: `out` holds 64 results for each entry.
        unsafe { int16_finish(w, x, idx[t], dots, &mut out[t * STRIP..][..STRIP]) }
    }
}

/// # Safety
///
/// The CPU has this room's instruction set, and `out` holds 64 values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn int16_finish(w: &TernaryStrip<'_>, x: &Rows, r: u32, dots: Sums, out: &mut [f32]) {
    let total = _mm512_set1_epi32(x.total(r as usize));
    let scale = _mm512_set1_ps(x.scales(r as usize)[0]);
    for (v, dots) in dots.into_iter().enumerate() {
        let value = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(dots, total)), scale);
        // SAFETY: 64 row scales and 64 results.
        unsafe {
            let alpha = _mm512_loadu_ps(w.scales.as_ptr().add(16 * v));
            _mm512_storeu_ps(out.as_mut_ptr().add(16 * v), _mm512_mul_ps(value, alpha));
        }
    }
}

/// # Safety
///
/// As [`int16`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn int16_many(w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    let mut codes = Codes(MaybeUninit::uninit());
    for (block, tiles) in w.tiles.chunks(BLOCK_TILES * TERNARY_TILE_BYTES).enumerate() {
        let count = tiles.len() / TERNARY_TILE_BYTES;
        // SAFETY: `count` tiles are there, at most a block's.
        unsafe { unpack(tiles.as_ptr(), count, &mut codes) };
        // SAFETY: as in the table; `out` carries the integer sums from block to block.
        unsafe {
            let mut groups = idx.chunks_exact(3);
            for (i, group) in groups.by_ref().enumerate() {
                int16_block::<3>(
                    &codes,
                    count,
                    block,
                    x,
                    group,
                    &mut out[i * 3 * STRIP..][..3 * STRIP],
                );
            }
            let rest = groups.remainder();
            let out = &mut out[(idx.len() - rest.len()) * STRIP..];
            match rest.len() {
                1 => int16_block::<1>(&codes, count, block, x, rest, out),
                2 => int16_block::<2>(&codes, count, block, x, rest, out),
                _ => {}
            }
        }
    }
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        // SAFETY: 64 integer sums were stored in `out`.
        unsafe {
            let at = out.as_ptr().cast::<u8>();
            let dots = [load(at, 0), load(at, 1), load(at, 2), load(at, 3)];
            int16_finish(w, x, r, dots, out);
        }
    }
}

/// Adds one block's sums to the integers kept in `out`.
///
/// # Safety
///
/// As [`int16`], `idx` has `T` entries, and `codes` holds the `count` tiles of `block`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn int16_block<const T: usize>(
    codes: &Codes,
    count: usize,
    block: usize,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    // SAFETY: the caller's promises.
    let sums = unsafe { unpacked::<T, 2>(codes, count, x.planes(idx, block * BLOCK)) };
    for ([high, low], out) in sums.into_iter().zip(out.chunks_exact_mut(STRIP)) {
        for v in 0..VECTORS {
            let mut dots = join(high[v], low[v]);
            let at = out[16 * v..][..16].as_mut_ptr().cast();
            // SAFETY: 16 values of `out`.
            unsafe {
                if block > 0 {
                    dots = _mm512_add_epi32(dots, _mm512_loadu_si512(at));
                }
                _mm512_storeu_si512(at, dots);
            }
        }
    }
}

/// # Safety
///
/// The CPU has this room's instruction set; lengths as the table asks.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn int8(w: &TernaryStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    let mut codes = Codes(MaybeUninit::uninit());
    for (block, tiles) in w.tiles.chunks(BLOCK_TILES * TERNARY_TILE_BYTES).enumerate() {
        let count = tiles.len() / TERNARY_TILE_BYTES;
        // SAFETY: `count` tiles are there, at most a block's, and the planes hold whole blocks; `out` carries the float
        // sums from block to block.
        unsafe {
            if let [r] = *idx {
                let [[sums]] = direct::<1, 1>(tiles.as_ptr(), count, x.planes(idx, block * BLOCK));
                int8_add(sums, block, x, r, out);
                continue;
            }
            unpack(tiles.as_ptr(), count, &mut codes);
            let mut groups = idx.chunks_exact(6);
            for (i, group) in groups.by_ref().enumerate() {
                int8_block::<6>(
                    &codes,
                    count,
                    block,
                    x,
                    group,
                    &mut out[i * 6 * STRIP..][..6 * STRIP],
                );
            }
            let rest = groups.remainder();
            let out = &mut out[(idx.len() - rest.len()) * STRIP..];
            match rest.len() {
                1 => int8_block::<1>(&codes, count, block, x, rest, out),
                2 => int8_block::<2>(&codes, count, block, x, rest, out),
                3 => int8_block::<3>(&codes, count, block, x, rest, out),
                4 => int8_block::<4>(&codes, count, block, x, rest, out),
                5 => int8_block::<5>(&codes, count, block, x, rest, out),
                _ => {}
            }
        }
    }
    for out in out.chunks_exact_mut(STRIP) {
        for (out, alpha) in out.iter_mut().zip(w.scales) {
            *out *= alpha;
        }
    }
}

/// # Safety
///
/// As [`int8`], `idx` has `T` entries, and `codes` holds the `count` tiles of `block`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn int8_block<const T: usize>(
    codes: &Codes,
    count: usize,
    block: usize,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    // SAFETY: the caller's promises.
    let sums = unsafe { unpacked::<T, 1>(codes, count, x.planes(idx, block * BLOCK)) };
    for (([sums], &r), out) in sums.into_iter().zip(idx).zip(out.chunks_exact_mut(STRIP)) {
        // SAFETY: as above.
        unsafe { int8_add(sums, block, x, r, out) };
    }
}

/// Scales one block's sums and adds them to `out`.
///
/// # Safety
///
/// The CPU has this room's instruction set, and `out` holds 64 values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn int8_add(sums: Sums, block: usize, x: &Rows, r: u32, out: &mut [f32]) {
    const GROUPS: usize = BLOCK / SUM_GROUP;
    let total: i32 = x.sums(r as usize)[block * GROUPS..][..GROUPS].iter().sum();
    let total = _mm512_set1_epi32(total);
    let scale = _mm512_set1_ps(x.scales(r as usize)[block]);
    for (v, sums) in sums.into_iter().enumerate() {
        let at = out[16 * v..][..16].as_mut_ptr();
        let value = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums, total));
        // SAFETY: 16 values of `out`.
        unsafe {
            let before = if block > 0 {
                _mm512_loadu_ps(at)
            } else {
                _mm512_setzero_ps()
            };
            _mm512_storeu_ps(at, _mm512_fmadd_ps(value, scale, before));
        }
    }
}
