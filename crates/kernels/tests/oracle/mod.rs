//! Obviously right products from the source codes, and the generator of cases.

use kernels::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use kernels::layout::{
    GroupedLayout, SUPER, ScaleFormat, int8_bytes, pack_grouped_row, pack_int8_row,
    pack_ternary_row, pack_two_level_row, padded_rows, ternary_bytes,
};
use kernels::{BLOCK, Dense, DenseData, Grouped, Int8Rows, Mat, Precision, Ternary};

/// xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    /// Between -1 and 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Ternary,
    Grouped {
        bits: usize,
        group: usize,
        scales: ScaleFormat,
    },
    Int8,
    Bf16,
    F16,
    F32,
}

/// A matrix in its packed form, and as the plain numbers it was made from.
pub struct Matrix {
    kind: Kind,
    rows: usize,
    cols: usize,
    /// Integer weights `[rows][cols]` (codes; for ternary and 8-bit rows already centred), or none for floats.
    codes: Vec<i64>,
    /// Float weights `[rows][cols]`, only for the float kinds.
    floats: Vec<f32>,
    /// A scale and a bias for each row and group.
    scales: Vec<(f32, f32)>,
    bytes: Vec<u8>,
    row_scales: Vec<f32>,
    halves: Vec<u16>,
}

impl Matrix {
    pub fn random(
        kind: Kind,
        rows: usize,
        cols: usize,
        extreme: bool,
        random: &mut Random,
    ) -> Self {
        let mut m = Matrix {
            kind,
            rows,
            cols,
            codes: vec![],
            floats: vec![],
            scales: vec![],
            bytes: vec![],
            row_scales: vec![0.0; padded_rows(rows)],
            halves: vec![],
        };
        match kind {
            Kind::Ternary => {
                m.bytes = vec![0; ternary_bytes(rows, cols)];
                for r in 0..rows {
                    // Extreme rows are all +1, all -1 or all 0.
                    let codes: Vec<u8> = (0..cols)
                        .map(|_| {
                            if extreme {
                                [2, 0, 1][r % 3]
                            } else {
                                random.below(3) as u8
                            }
                        })
                        .collect();
                    pack_ternary_row(&mut m.bytes, cols, r, &codes);
                    m.codes
                        .extend(codes.iter().map(|&code| i64::from(code) - 1));
                    m.row_scales[r] = random.unit();
                }
            }
            Kind::Int8 => {
                m.bytes = vec![0; int8_bytes(rows, cols)];
                for r in 0..rows {
                    let weights: Vec<f32> = (0..cols)
                        .map(|c| {
                            if extreme {
                                [127, -127][(r + c * (r / 2)) % 2]
                            } else {
                                random.below(255) as i32 - 127
                            }
                        })
                        .enumerate()
                        // One weight at the limit, so that the scale is 1 and integers are kept.
                        .map(|(c, w)| if c == 0 { 127.0 } else { w as f32 })
                        .collect();
                    m.row_scales[r] = pack_int8_row(&mut m.bytes, cols, r, &weights).scale;
                    m.codes.extend(weights.iter().map(|&w| w as i64));
                }
            }
            Kind::Grouped {
                bits,
                group,
                scales: format,
            } => {
                let layout = GroupedLayout {
                    bits,
                    group,
                    scales: format,
                };
                m.bytes = vec![0; layout.bytes(rows, cols)];
                for r in 0..rows {
                    let top = (1 << bits) - 1;
                    let codes: Vec<u8> = (0..cols)
                        .map(|_| {
                            if extreme {
                                top as u8 * (r % 3 != 1) as u8
                            } else {
                                random.below(top + 1) as u8
                            }
                        })
                        .collect();
                    let groups = layout.groups(cols);
                    let pairs: Vec<(f32, f32)> = if format == ScaleFormat::TwoLevel {
                        // Upper scales of 11 bits, as halves have: their products with bytes are exact.
                        let mut upper = || f16_to_f32(f32_to_f16(random.unit()));
                        let uppers: Vec<_> = (0..cols.div_ceil(SUPER))
                            .map(|_| (upper(), upper()))
                            .collect();
                        let mut lower = || random.below(256) as u8 as i8;
                        let lowers: Vec<_> = (0..groups).map(|_| (lower(), lower())).collect();
                        pack_two_level_row(&mut m.bytes, layout, cols, r, &codes, &uppers, &lowers);
                        let pair = |(g, (scale, bias)): (usize, &(i8, i8))| {
                            let upper = uppers[g * group / SUPER];
                            (upper.0 * f32::from(*scale), upper.1 * f32::from(*bias))
                        };
                        lowers.iter().enumerate().map(pair).collect()
                    } else {
                        let mut value = || match format {
                            ScaleFormat::Bf16 => bf16_to_f32(f32_to_bf16(random.unit())),
                            _ => random.unit(),
                        };
                        let pairs: Vec<_> = (0..groups).map(|_| (value(), value())).collect();
                        let (scales, biases): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
                        pack_grouped_row(&mut m.bytes, layout, cols, r, &codes, &scales, &biases);
                        pairs
                    };
                    m.codes.extend(codes.iter().map(|&code| i64::from(code)));
                    m.scales.extend(pairs);
                }
            }
            Kind::Bf16 | Kind::F16 | Kind::F32 => {
                for _ in 0..rows * cols {
                    let value = random.unit() * if extreme { 60000.0 } else { 1.0 };
                    match kind {
                        Kind::Bf16 => m.halves.push(f32_to_bf16(value)),
                        Kind::F16 => m.halves.push(f32_to_f16(value * value * value * value)),
                        _ => {}
                    }
                    m.floats.push(match kind {
                        Kind::Bf16 => bf16_to_f32(f32_to_bf16(value)),
                        Kind::F16 => f16_to_f32(f32_to_f16(value * value * value * value)),
                        _ => value,
                    });
                }
                if matches!(kind, Kind::F16) && extreme {
                    // Overflowed to infinity: keep the case finite.
                    for (half, float) in m.halves.iter_mut().zip(&mut m.floats) {
                        if !float.is_finite() {
                            (*half, *float) = (0x7bff, 65504.0);
                        }
                    }
                }
            }
        }
        m
    }

    pub fn view(&self) -> Mat<'_> {
        let (rows, cols) = (self.rows, self.cols);
        match self.kind {
            Kind::Ternary => Mat::Ternary(Ternary {
                rows,
                cols,
                tiles: &self.bytes,
                scales: &self.row_scales,
            }),
            Kind::Int8 => Mat::Int8(Int8Rows {
                rows,
                cols,
                data: &self.bytes,
                scales: &self.row_scales,
            }),
            Kind::Grouped {
                bits,
                group,
                scales,
            } => Mat::Grouped(Grouped {
                rows,
                cols,
                layout: GroupedLayout {
                    bits,
                    group,
                    scales,
                },
                data: &self.bytes,
            }),
            Kind::Bf16 => Mat::Dense(Dense {
                rows,
                cols,
                data: DenseData::Bf16(&self.halves),
            }),
            Kind::F16 => Mat::Dense(Dense {
                rows,
                cols,
                data: DenseData::F16(&self.halves),
            }),
            Kind::F32 => Mat::Dense(Dense {
                rows,
                cols,
                data: DenseData::F32(&self.floats),
            }),
        }
    }

    /// Weight of row `r`, column `c`.
    fn weight(&self, r: usize, c: usize) -> f64 {
        let at = r * self.cols + c;
        match self.kind {
            Kind::Ternary | Kind::Int8 => f64::from(self.row_scales[r]) * self.codes[at] as f64,
            Kind::Grouped { group, .. } => {
                let (scale, bias) = self.scales[r * self.cols.div_ceil(group) + c / group];
                self.codes[at] as f64 * f64::from(scale) + f64::from(bias)
            }
            _ => f64::from(self.floats[at]),
        }
    }

    /// Sizes of the two terms of an affine weight.
    fn affine_size(&self, r: usize, c: usize) -> f64 {
        let Kind::Grouped { group, .. } = self.kind else {
            return 0.0;
        };
        let (scale, bias) = self.scales[r * self.cols.div_ceil(group) + c / group];
        let code = self.codes[r * self.cols + c] as f64;
        2.0 * (code * f64::from(scale.abs()) + f64::from(bias.abs()))
    }

    /// Checks one result of a product. Activations of the integer precisions are integers that quantise to themselves
    /// (see [`activations`]), so integer sums are compared exactly, and float sums to the error of their summation.
    pub fn verify(&self, r: usize, x: &[f32], precision: Precision, found: f32, name: &str) {
        let integer = |from: usize, to: usize| -> i64 {
            (from..to)
                .map(|c| self.codes[r * self.cols + c] * x[c] as i64)
                .sum()
        };
        let exact = match (self.kind, precision) {
            (Kind::Ternary, Precision::Int16) => {
                Some(integer(0, self.cols) as f32 * self.row_scales[r])
            }
            (Kind::Ternary | Kind::Int8, Precision::Int8) => {
                let blocks = (0..self.cols).step_by(BLOCK);
                let sum = blocks.fold(0f32, |sum, from| {
                    sum + integer(from, self.cols.min(from + BLOCK)) as f32
                });
                Some(sum * self.row_scales[r])
            }
            _ => None,
        };
        if let Some(exact) = exact {
            assert_eq!(found, exact, "{name}: row {r}");
            return;
        }
        let (mut sum, mut size) = (0f64, 0f64);
        for (c, &x) in x.iter().enumerate() {
            let term = self.weight(r, c) * f64::from(x);
            sum += term;
            size += term.abs();
        }
        // Affine terms are larger than their sum.
        if let Kind::Grouped { .. } = self.kind {
            size = (0..self.cols)
                .map(|c| f64::from(x[c].abs()) * self.affine_size(r, c))
                .sum();
        }
        // Integer sums round only when they become floats, once for each group.
        let steps = match (self.kind, precision) {
            (Kind::Grouped { group, .. }, Precision::Int16 | Precision::Int8) => {
                4 + 4 * self.cols.div_ceil(group)
            }
            (Kind::Int8, Precision::Int16) => 4,
            (Kind::Ternary | Kind::Grouped { .. }, _) => self.cols + 8,
            _ => self.cols / 4 + 40,
        };
        let bound = size * steps as f64 * 2f64.powi(-24) + 1e-30;
        assert!(
            (f64::from(found) - sum).abs() <= bound,
            "{name}: row {r}: found {found}, expected {sum} +- {bound}"
        );
    }
}

/// Rows of activations. For the integer precisions they are integers with the largest magnitude of their scale in every
/// block, so that quantising changes nothing.
pub fn activations(
    rows: usize,
    cols: usize,
    precision: Precision,
    extreme: bool,
    random: &mut Random,
) -> Vec<Vec<f32>> {
    let top = match precision {
        Precision::F32 => 0,
        Precision::Int16 => kernels::INT16_MAX,
        Precision::Int8 => kernels::INT8_MAX,
    };
    let value = |r: usize, c: usize, random: &mut Random| {
        if precision == Precision::F32 {
            return random.unit() * if extreme { 1e4 } else { 1.0 };
        }
        let sign = if extreme {
            [1, -1][(r + c * (r / 2)) % 2]
        } else {
            [1, -1][random.below(2)]
        };
        let size = if extreme || c.is_multiple_of(BLOCK) {
            top
        } else {
            random.below(top as usize + 1) as i32
        };
        (sign * size) as f32
    };
    (0..rows)
        .map(|r| (0..cols).map(|c| value(r, c, random)).collect())
        .collect()
}
