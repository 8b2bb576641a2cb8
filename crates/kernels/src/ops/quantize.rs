//! Activations to integers.

use crate::data::rows::{Precision, Rows, SharedRows};
use crate::dispatch::Kernels;

impl Rows {
    /// Makes the quantised form of row `r` (in `F32`: the sums that affine weights need).
    ///
    /// In `Int16` the scale is `max|x| / 16319`; in `Int8` it is `max|x| / 127` over each block of 256 columns.
    /// Values are rounded to nearest, ties to even. A row (or block) below 2^-100 counts as zero; one that holds NaN
    /// or an infinity gets NaN for its scale, so that every product with it is NaN.
    pub fn quantize(&mut self, kernels: &Kernels, r: usize) {
        // SAFETY: `self` is borrowed for writing.
        unsafe { self.share().quantize(kernels, r) }
    }
}

impl SharedRows<'_> {
    /// [`Rows::quantize`] for row `r`.
    ///
    /// # Safety
    ///
    /// No other thread reads or writes row `r` meanwhile, and no slice of it is held for writing.
    pub unsafe fn quantize(self, kernels: &Kernels, r: usize) {
        // SAFETY: the caller's promise.
        let row = unsafe { self.quantize_row(r) };
        let quantize = match row.precision {
            Precision::F32 => kernels.quantize.float,
            Precision::Int16 => kernels.quantize.int16,
            Precision::Int8 => kernels.quantize.int8,
        };
        // SAFETY: a table is only handed out on CPUs that can run it.
        unsafe { quantize(row) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::rows::{BLOCK, INT8_MAX, INT16_MAX, SUM_GROUP};
    use crate::dispatch::Isa;

    fn wavy(cols: usize, size: f32) -> Vec<f32> {
        (0..cols)
            .map(|c| (c as f32 * 1.7).sin() * size * if c % 3 == 0 { 0.01 } else { 1.0 })
            .collect()
    }

    fn quantized(isa: Isa, precision: Precision, values: &[f32]) -> Rows {
        let mut x = Rows::new(3, values.len(), precision);
        x.set_len(3);
        x.row_mut(1).copy_from_slice(values);
        x.quantize(Kernels::for_isa(isa).expect("available"), 1);
        x
    }

    #[test]
    fn integers_are_nearest_and_sums_are_exact() {
        for isa in Kernels::available() {
            for cols in [1, 16, 255, 256, 257, 700, 2048] {
                for size in [1.0, 1e-20, 1e20, 3e38] {
                    let values = wavy(cols, size);
                    for (precision, top) in
                        [(Precision::Int16, INT16_MAX), (Precision::Int8, INT8_MAX)]
                    {
                        let x = quantized(isa, precision, &values);
                        let q: Vec<i32> = (0..x.values(1).len())
                            .map(|c| match precision {
                                Precision::Int16 => {
                                    128 * i32::from(x.plane(1, 0)[c]) + i32::from(x.plane(1, 1)[c])
                                }
                                _ => i32::from(x.plane(1, 0)[c]),
                            })
                            .collect();
                        for (c, &v) in values.iter().enumerate() {
                            let scale = f64::from(
                                x.scales(1)[if precision == Precision::Int8 {
                                    c / BLOCK
                                } else {
                                    0
                                }],
                            );
                            let error = (f64::from(v) - scale * f64::from(q[c])).abs();
                            assert!(
                                error <= scale * 0.502,
                                "{isa} {precision:?} {cols} {size}: column {c}"
                            );
                            assert!(q[c].abs() <= top);
                        }
                        assert!(q[cols..].iter().all(|&q| q == 0), "padding");
                        for (sum, q) in x.sums(1).iter().zip(q.chunks(SUM_GROUP)) {
                            assert_eq!(*sum, q.iter().sum::<i32>());
                        }
                        if precision == Precision::Int8 {
                            for (total, q) in x.block_totals(1).iter().zip(q.chunks(BLOCK)) {
                                assert_eq!(*total, q.iter().sum::<i32>());
                            }
                        } else {
                            assert_eq!(x.total(1), q.iter().sum::<i32>());
                            assert_eq!(
                                x.high_total(1),
                                x.plane(1, 0).iter().map(|&h| i32::from(h)).sum::<i32>()
                            );
                        }
                        // Neighbours are untouched.
                        assert!(x.plane(0, 0).iter().chain(x.plane(2, 0)).all(|&q| q == 0));
                    }
                }
            }
        }
    }

    #[test]
    fn zeros_tiny_and_non_finite_rows_have_defined_scales() {
        for isa in Kernels::available() {
            for precision in [Precision::Int16, Precision::Int8] {
                for value in [0.0, -0.0, f32::from_bits(1), 1e-38] {
                    assert_eq!(quantized(isa, precision, &[value; 20]).scales(1), [0.0]);
                }
                for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let mut values = wavy(300, 1.0);
                    values[280] = value;
                    let x = quantized(isa, precision, &values);
                    assert!(
                        x.scales(1).last().is_some_and(|scale| scale.is_nan()),
                        "{isa} {precision:?} {value}"
                    );
                }
            }
        }
    }
}
