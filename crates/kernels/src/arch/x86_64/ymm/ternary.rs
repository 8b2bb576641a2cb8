//! Ternary strips. One or two rows of activations: codes are unpacked in registers and used at once. More: the codes of
//! 256 columns are unpacked once into the first-level cache, and all rows pass over them.

use super::vector::{Dot, broadcast, broadcasts, join, load, loads, prefetch};
use crate::arch::parts::even_parts;
use crate::data::layout::{STRIP, TERNARY_TILE_BYTES, TERNARY_TILE_COLS};
use crate::data::mat::TernaryStrip;
use crate::data::rows::{BLOCK, Rows};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Tiles of one block of columns. 16-bit sums of one block stay below 64 * 2 * 2 * 127 = 32512.
const BLOCK_TILES: usize = BLOCK / TERNARY_TILE_COLS;

/// Codes of a block of columns, one a byte: for every 4 columns, 64 rows x 4 columns.
#[repr(align(64))]
struct Codes(MaybeUninit<[u8; STRIP * BLOCK]>);

/// Field `f` (columns `4 f ..`) of a vector of codes.
///
/// # Safety
///
/// The CPU has AVX2.
#[inline(always)]
unsafe fn field(word: __m256i, f: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let three = _mm256_set1_epi8(3);
        match f {
            0 => _mm256_and_si256(word, three),
            1 => _mm256_and_si256(_mm256_srli_epi16::<2>(word), three),
            2 => _mm256_and_si256(_mm256_srli_epi16::<4>(word), three),
            _ => _mm256_and_si256(_mm256_srli_epi16::<6>(word), three),
        }
    }
}

/// Sums of `code * q` for 32 rows (four vectors) over `count` tiles of a block.
///
/// # Safety
///
/// The CPU has what `D` needs; `count` tiles (at most a block's) can be read from `tiles` on, which points to the first
/// byte of the 32 rows; so can their columns at each of `x`.
#[inline(always)]
unsafe fn direct<D: Dot, const P: usize>(
    tiles: *const u8,
    count: usize,
    x: [*const i8; P],
) -> [[__m256i; 4]; P] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[_mm256_setzero_si256(); 4]; P];
        for t in 0..count {
            let tile = tiles.add(t * TERNARY_TILE_BYTES);
            let words = loads::<4>(tile);
            for f in 0..4 {
                if f % 2 == 0 {
                    prefetch(tile.wrapping_add(32 * f));
                }
                let q = broadcasts(x, t * TERNARY_TILE_COLS + 4 * f);
                for v in 0..4 {
                    let codes = field(words[v], f);
                    for p in 0..P {
                        sums[p][v] = D::add(sums[p][v], codes, q[p]);
                    }
                }
            }
        }
        for p in 0..P {
            for v in 0..4 {
                sums[p][v] = D::widen(sums[p][v]);
            }
        }
        sums
    }
}

/// Unpacks up to [`BLOCK_TILES`] tiles.
///
/// # Safety
///
/// The CPU has AVX2; `count` tiles can be read at `tiles`, and `count` is at most [`BLOCK_TILES`].
#[inline(always)]
unsafe fn unpack(tiles: *const u8, count: usize, codes: &mut Codes) {
    let codes = codes.0.as_mut_ptr().cast::<u8>();
    for t in 0..count {
        for v in 0..8 {
            // SAFETY: `t` is below `count`; a tile unpacks to 1024 bytes.
            unsafe {
                let at = tiles.add(t * TERNARY_TILE_BYTES + 32 * v);
                if v % 2 == 0 {
                    prefetch(at);
                }
                let word = load(at);
                for f in 0..4 {
                    let to = codes.add((t * 4 + f) * 256 + 32 * v);
                    _mm256_store_si256(to.cast(), field(word, f));
                }
            }
        }
    }
}

/// As [`direct`] for `V` vectors of 8 rows and `T` rows of activations, from unpacked codes.
///
/// # Safety
///
/// As [`direct`], with `codes` pointing to the first unpacked byte of the rows.
#[inline(always)]
unsafe fn unpacked<D: Dot, const V: usize, const T: usize, const P: usize>(
    codes: *const u8,
    count: usize,
    x: [[*const i8; P]; T],
) -> [[[__m256i; V]; P]; T] {
    // SAFETY: the caller's promise; a tile is four steps of 4 columns and 256 bytes of codes.
    unsafe {
        let mut sums = [[[_mm256_setzero_si256(); V]; P]; T];
        for step in 0..count * 4 {
            let codes = loads::<V>(codes.add(step * 256));
            for t in 0..T {
                for p in 0..P {
                    let q = broadcast(x[t][p].add(step * 4));
                    for v in 0..V {
                        sums[t][p][v] = D::add(sums[t][p][v], codes[v], q);
                    }
                }
            }
        }
        for t in 0..T {
            for p in 0..P {
                for v in 0..V {
                    sums[t][p][v] = D::widen(sums[t][p][v]);
                }
            }
        }
        sums
    }
}

/// # Safety
///
/// The CPU has what `D` needs; lengths as the table asks.
#[inline(always)]
pub(in crate::arch::x86_64) unsafe fn int16<D: Dot>(
    w: &TernaryStrip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    // SAFETY: the caller's promise. `out` carries the integer sums from block to block.
    unsafe {
        let mut codes = Codes(MaybeUninit::uninit());
        for (block, tiles) in w.tiles.chunks(BLOCK_TILES * TERNARY_TILE_BYTES).enumerate() {
            let (count, from) = (tiles.len() / TERNARY_TILE_BYTES, block * BLOCK);
            if idx.len() <= 2 {
                for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
                    let [x] = x.planes::<1, 2>(&[r], from);
                    for (half, out) in out.chunks_exact_mut(32).enumerate() {
                        let [high, low] = direct::<D, 2>(tiles.as_ptr().add(128 * half), count, x);
                        int16_add(high, low, block, out);
                    }
                }
                continue;
            }
            unpack(tiles.as_ptr(), count, &mut codes);
            let codes = codes.0.as_ptr().cast::<u8>();
            for part in even_parts(idx.len(), 3) {
                let out = &mut out[STRIP * part.start..STRIP * part.end];
                let idx = &idx[part];
                match idx.len() {
                    3 => int16_tile::<D, 2, 3>(codes, count, block, x.planes(idx, from), out),
                    2 => int16_tile::<D, 2, 2>(codes, count, block, x.planes(idx, from), out),
                    _ => int16_tile::<D, 4, 1>(codes, count, block, x.planes(idx, from), out),
                }
            }
        }
        for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
            let total = _mm256_set1_epi32(x.total(r as usize));
            let scale = _mm256_set1_ps(x.scales(r as usize)[0]);
            for (out, alpha) in out.chunks_exact_mut(8).zip(w.scales.chunks_exact(8)) {
                let dots = _mm256_sub_epi32(_mm256_loadu_si256(out.as_ptr().cast()), total);
                let value = _mm256_mul_ps(_mm256_cvtepi32_ps(dots), scale);
                _mm256_storeu_ps(
                    out.as_mut_ptr(),
                    _mm256_mul_ps(value, _mm256_loadu_ps(alpha.as_ptr())),
                );
            }
        }
    }
}

/// All rows of a strip for `T` rows of activations and one block, `V` vectors at a time.
///
/// # Safety
///
/// As [`unpacked`]; `out` holds 64 results for each of the `T` rows.
#[inline(always)]
unsafe fn int16_tile<D: Dot, const V: usize, const T: usize>(
    codes: *const u8,
    count: usize,
    block: usize,
    x: [[*const i8; 2]; T],
    out: &mut [f32],
) {
    for at in (0..STRIP).step_by(8 * V) {
        // SAFETY: the caller's promise; 8 rows take 32 bytes.
        unsafe {
            let sums = unpacked::<D, V, T, 2>(codes.add(4 * at), count, x);
            for (t, [high, low]) in sums.into_iter().enumerate() {
                int16_add(high, low, block, &mut out[t * STRIP + at..][..8 * V]);
            }
        }
    }
}

/// Adds one block's sums to the integers kept in `out`.
///
/// # Safety
///
/// The CPU has AVX2; `out` holds `8 V` values.
#[inline(always)]
unsafe fn int16_add<const V: usize>(
    high: [__m256i; V],
    low: [__m256i; V],
    block: usize,
    out: &mut [f32],
) {
    for v in 0..V {
        // SAFETY: the caller's promise.
        unsafe {
            let at = out.as_mut_ptr().add(8 * v).cast();
            let mut dots = join(high[v], low[v]);
            if block > 0 {
                dots = _mm256_add_epi32(dots, _mm256_loadu_si256(at));
            }
            _mm256_storeu_si256(at, dots);
        }
    }
}

/// # Safety
///
/// The CPU has what `D` needs; lengths as the table asks.
#[inline(always)]
pub(in crate::arch::x86_64) unsafe fn int8<D: Dot>(
    w: &TernaryStrip<'_>,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    // SAFETY: the caller's promise. `out` carries the float sums from block to block.
    unsafe {
        let mut codes = Codes(MaybeUninit::uninit());
        for (block, tiles) in w.tiles.chunks(BLOCK_TILES * TERNARY_TILE_BYTES).enumerate() {
            let (count, from) = (tiles.len() / TERNARY_TILE_BYTES, block * BLOCK);
            if idx.len() <= 2 {
                for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
                    let [planes] = x.planes::<1, 1>(&[r], from);
                    for (half, out) in out.chunks_exact_mut(32).enumerate() {
                        let [sums] = direct::<D, 1>(tiles.as_ptr().add(128 * half), count, planes);
                        int8_add(sums, block, x, r, out);
                    }
                }
                continue;
            }
            unpack(tiles.as_ptr(), count, &mut codes);
            let codes = codes.0.as_ptr().cast::<u8>();
            for part in even_parts(idx.len(), 6) {
                let out = &mut out[STRIP * part.start..STRIP * part.end];
                let idx = &idx[part];
                match idx.len() {
                    6 => int8_tile::<D, 6>(codes, count, block, x, idx, out),
                    5 => int8_tile::<D, 5>(codes, count, block, x, idx, out),
                    4 => int8_tile::<D, 4>(codes, count, block, x, idx, out),
                    3 => int8_tile::<D, 3>(codes, count, block, x, idx, out),
                    2 => int8_tile::<D, 2>(codes, count, block, x, idx, out),
                    _ => int8_tile::<D, 1>(codes, count, block, x, idx, out),
                }
            }
        }
        for out in out.chunks_exact_mut(STRIP) {
            for (out, alpha) in out.iter_mut().zip(w.scales) {
                *out *= alpha;
            }
        }
    }
}

/// All rows of a strip for `T` rows of activations and one block, 16 rows at a time.
///
/// # Safety
///
/// As [`int8`], `idx` has `T` entries, and `codes` points to the `count` unpacked tiles of `block`.
#[inline(always)]
unsafe fn int8_tile<D: Dot, const T: usize>(
    codes: *const u8,
    count: usize,
    block: usize,
    x: &Rows,
    idx: &[u32],
    out: &mut [f32],
) {
    for at in (0..STRIP).step_by(16) {
        // SAFETY: the caller's promise; 8 rows take 32 bytes.
        unsafe {
            let sums =
                unpacked::<D, 2, T, 1>(codes.add(4 * at), count, x.planes(idx, block * BLOCK));
            for (t, [sums]) in sums.into_iter().enumerate() {
                int8_add(sums, block, x, idx[t], &mut out[t * STRIP + at..][..16]);
            }
        }
    }
}

/// Scales one block's sums and adds them to `out`.
///
/// # Safety
///
/// The CPU has AVX2 and FMA; `out` holds `8 V` values.
#[inline(always)]
unsafe fn int8_add<const V: usize>(
    sums: [__m256i; V],
    block: usize,
    x: &Rows,
    r: u32,
    out: &mut [f32],
) {
    let total = x.block_totals(r as usize)[block];
    // SAFETY: the caller's promise.
    unsafe {
        let total = _mm256_set1_epi32(total);
        let scale = _mm256_set1_ps(x.scales(r as usize)[block]);
        for (sums, out) in sums.into_iter().zip(out.chunks_exact_mut(8)) {
            let value = _mm256_cvtepi32_ps(_mm256_sub_epi32(sums, total));
            let before = if block > 0 {
                _mm256_loadu_ps(out.as_ptr())
            } else {
                _mm256_setzero_ps()
            };
            _mm256_storeu_ps(out.as_mut_ptr(), _mm256_fmadd_ps(value, scale, before));
        }
    }
}
