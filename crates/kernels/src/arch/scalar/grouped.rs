//! Affine strips: for each group, `scale * sum(code * q) + bias * sum(q)`.

use crate::data::layout::{GroupedLayout, STRIP};
use crate::data::mat::GroupedStrip;
use crate::data::rows::{BLOCK, Rows, SUM_GROUP};

/// Scales and biases of the 64 rows in one group.
struct Scales<'a> {
    layout: GroupedLayout,
    scales: (&'a [u8], &'a [u8]),
    biases: (&'a [u8], &'a [u8]),
}

impl Scales<'_> {
    #[inline(always)]
    fn scale(&self, j: usize) -> f32 {
        self.layout.scale(self.scales.0, self.scales.1, j)
    }

    #[inline(always)]
    fn bias(&self, j: usize) -> f32 {
        self.layout.scale(self.biases.0, self.biases.1, j)
    }
}

/// Scales and code tiles of each group of a strip.
#[inline(always)]
fn groups<'a>(w: &GroupedStrip<'a>) -> impl Iterator<Item = (Scales<'a>, &'a [u8])> {
    let (layout, head) = (w.layout, w.head);
    let groups = w.data.chunks_exact(layout.group_bytes()).enumerate();
    groups.map(move |(g, group)| {
        let (scales, rest) = group.split_at(layout.scale_bytes());
        let (biases, tiles) = rest.split_at(layout.scale_bytes());
        let (upper_scales, upper_biases) = layout.uppers(head, g);
        let scales = Scales {
            layout,
            scales: (scales, upper_scales),
            biases: (biases, upper_biases),
        };
        (scales, tiles)
    })
}

/// Sums of `code * x` over a group, for 64 rows.
fn dots(w: &GroupedStrip<'_>, tiles: &[u8], plane: &[i8]) -> [i32; STRIP] {
    let mut dots = [0; STRIP];
    for (c, &x) in plane.iter().enumerate() {
        for (j, dot) in dots.iter_mut().enumerate() {
            let (byte, shift) = w.layout.place(j, c);
            *dot += i32::from(tiles[byte] >> shift & w.layout.max_code()) * i32::from(x);
        }
    }
    dots
}

/// # Safety
///
/// Lengths as the table asks.
pub(crate) unsafe fn int16(w: &GroupedStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    let size = w.layout.group;
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        let r = r as usize;
        let mut acc = [0f32; STRIP];
        for (g, (scales, tiles)) in groups(w).enumerate() {
            let high = dots(w, tiles, &x.plane(r, 0)[g * size..][..size]);
            let low = dots(w, tiles, &x.plane(r, 1)[g * size..][..size]);
            let sum: i32 = x.sums(r)[g * size / SUM_GROUP..][..size / SUM_GROUP]
                .iter()
                .sum();
            for j in 0..STRIP {
                let dot = (high[j] << 7) + low[j];
                acc[j] = scales.scale(j).mul_add(dot as f32, acc[j]);
                acc[j] = scales.bias(j).mul_add(sum as f32, acc[j]);
            }
        }
        let scale = x.scales(r)[0];
        for j in 0..STRIP {
            out[j] = acc[j] * scale;
        }
    }
}

/// # Safety
///
/// Lengths as the table asks.
pub(crate) unsafe fn int8(w: &GroupedStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    let size = w.layout.group;
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        let r = r as usize;
        let mut acc = [0f32; STRIP];
        for (g, (scales, tiles)) in groups(w).enumerate() {
            let dots = dots(w, tiles, &x.plane(r, 0)[g * size..][..size]);
            let sum: i32 = x.sums(r)[g * size / SUM_GROUP..][..size / SUM_GROUP]
                .iter()
                .sum();
            let scale = x.scales(r)[g * size / BLOCK];
            for j in 0..STRIP {
                let biased = scales.bias(j) * sum as f32;
                let value = scales.scale(j).mul_add(dots[j] as f32, biased);
                acc[j] = value.mul_add(scale, acc[j]);
            }
        }
        out.copy_from_slice(&acc);
    }
}

/// Columns of a group are summed in order.
///
/// # Safety
///
/// Lengths as the table asks.
#[inline(always)]
pub(crate) unsafe fn float(w: &GroupedStrip<'_>, x: &Rows, idx: &[u32], out: &mut [f32]) {
    let size = w.layout.group;
    for (&r, out) in idx.iter().zip(out.chunks_exact_mut(STRIP)) {
        let r = r as usize;
        let mut acc = [0f32; STRIP];
        for (g, (scales, tiles)) in groups(w).enumerate() {
            let mut dots = [0f32; STRIP];
            for (c, &x) in x.values(r)[g * size..][..size].iter().enumerate() {
                let (first, shift) = w.layout.place(0, c);
                let mask = w.layout.max_code();
                let codes: [u8; STRIP] =
                    std::array::from_fn(|j| tiles[first + 4 * j] >> shift & mask);
                for (dot, code) in dots.iter_mut().zip(codes) {
                    *dot = f32::from(code).mul_add(x, *dot);
                }
            }
            let sums = &x.value_sums(r)[g * size / SUM_GROUP..][..size / SUM_GROUP];
            let sum = sums.iter().fold(0.0, |sum, v| sum + v);
            for j in 0..STRIP {
                acc[j] = scales.scale(j).mul_add(dots[j], acc[j]);
                acc[j] = scales.bias(j).mul_add(sum, acc[j]);
            }
        }
        out.copy_from_slice(&acc);
    }
}
