//! Every product, in every precision, on every instruction set this CPU has: against an oracle that multiplies the source
//! codes in 64-bit integers (or f64), and bit for bit against the scalar table.

mod oracle;

use kernels::layout::ScaleFormat;
use kernels::{Isa, Kernels, Precision, Rows, STRIP, strip_product};
use oracle::{Kind, Matrix, Random, activations};

/// One shape to try: rows and columns of the weights, rows of activations.
struct Case {
    kind: Kind,
    rows: usize,
    cols: usize,
    batch: usize,
    extreme: bool,
}

fn product(kernels: &Kernels, matrix: &Matrix, x: &Rows, idx: &[u32]) -> Vec<f32> {
    let mat = matrix.view();
    let mut all = Vec::new();
    for strip in 0..mat.strips() {
        // Garbage in the output must be overwritten.
        let mut out = vec![f32::NAN; idx.len() * STRIP];
        strip_product(kernels, &mat, strip, x, idx, &mut out);
        all.extend(out);
    }
    all
}

fn check(isa: Isa, case: &Case, precision: Precision, seed: u64) {
    let kernels = Kernels::for_isa(isa).expect("asked only for what is available");
    let scalar = Kernels::for_isa(Isa::Scalar).expect("scalar code runs everywhere");
    let mut random = Random::new(seed);
    let matrix = Matrix::random(case.kind, case.rows, case.cols, case.extreme, &mut random);
    let values = activations(
        case.batch + 1,
        case.cols,
        precision,
        case.extreme,
        &mut random,
    );
    let fill = |kernels: &Kernels| {
        let mut x = Rows::new(case.batch + 3, case.cols, precision);
        x.set_len(case.batch + 1);
        for (r, row) in values.iter().enumerate() {
            x.row_mut(r).copy_from_slice(row);
            x.quantize(kernels, r);
        }
        x
    };
    let (x, reference) = (fill(kernels), fill(scalar));
    // A gather in no order, one row left out.
    let idx: Vec<u32> = (0..case.batch)
        .map(|i| ((i * 7 + 3) % (case.batch + 1)) as u32)
        .collect();
    let out = product(kernels, &matrix, &x, &idx);
    let expected = product(scalar, &matrix, &reference, &idx);
    let name = format!(
        "{isa} {:?} {precision:?} {}x{} batch {}",
        case.kind, case.rows, case.cols, case.batch
    );
    for strip in 0..case.rows.div_ceil(STRIP) {
        for (i, &r) in idx.iter().enumerate() {
            for j in 0..STRIP {
                let at = (strip * idx.len() + i) * STRIP + j;
                let row = strip * STRIP + j;
                assert_eq!(
                    out[at].to_bits(),
                    expected[at].to_bits(),
                    "{name}: row {row}, activation {r}: scalar differs"
                );
                if row >= case.rows {
                    assert_eq!(out[at], 0.0, "{name}: padding row {row}");
                } else if isa == Isa::Scalar {
                    matrix.verify(row, &values[r as usize], precision, out[at], &name);
                }
            }
        }
    }
    // A row alone gives what it gives among others.
    let alone = product(kernels, &matrix, &x, &idx[..1]);
    for strip in 0..case.rows.div_ceil(STRIP) {
        let at = strip * idx.len() * STRIP;
        assert_eq!(
            out[at..][..STRIP],
            alone[strip * STRIP..][..STRIP],
            "{name}: alone"
        );
    }
}

fn kinds() -> Vec<Kind> {
    let mut kinds = vec![Kind::Ternary, Kind::Int8, Kind::Bf16, Kind::F16, Kind::F32];
    for scales in [ScaleFormat::Bf16, ScaleFormat::F32, ScaleFormat::TwoLevel] {
        for (bits, group) in [
            (4, 32),
            (4, 64),
            (4, 128),
            (8, 16),
            (8, 32),
            (8, 64),
            (8, 128),
        ] {
            kinds.push(Kind::Grouped {
                bits,
                group,
                scales,
            });
        }
    }
    kinds
}

const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::Int16, Precision::Int8];

/// One case in how many is run: 1, or what `KERNELS_TEST_THIN` says, for emulators.
fn thinning() -> usize {
    let thin = std::env::var("KERNELS_TEST_THIN").ok();
    thin.map_or(1, |thin| thin.parse().expect("a number of cases"))
}

/// Every tail of tiles, groups, blocks and strips, and every remainder of a batch.
fn cases(isa: Isa) {
    let thin = thinning();
    let cols: &[usize] = &[
        1, 3, 4, 15, 16, 17, 31, 33, 64, 100, 255, 256, 257, 272, 500, 512, 777, 2048,
    ];
    for (k, kind) in kinds().into_iter().enumerate() {
        for (i, &cols) in cols
            .iter()
            .enumerate()
            .filter(|(i, _)| (i + k).is_multiple_of(thin))
        {
            for precision in PRECISIONS {
                let rows = [1, 63, 64, 65, 130][i % 5];
                let batch = 1 + (i * 5 + cols) % 9;
                for extreme in [false, true] {
                    check(
                        isa,
                        &Case {
                            kind,
                            rows,
                            cols,
                            batch,
                            extreme,
                        },
                        precision,
                        1 + i as u64,
                    );
                }
            }
        }
        for batch in (1..=13)
            .chain([16, 31])
            .filter(|batch| (batch + k).is_multiple_of(thin))
        {
            for precision in PRECISIONS {
                check(
                    isa,
                    &Case {
                        kind,
                        rows: 64,
                        cols: 320,
                        batch,
                        extreme: batch % 4 == 0,
                    },
                    precision,
                    batch as u64,
                );
            }
        }
    }
}

/// Random shapes.
fn property(isa: Isa) {
    let mut random = Random::new(0x5eed);
    let kinds = kinds();
    for round in 0..300 / thinning() as u64 {
        let kind = kinds[random.below(kinds.len())];
        let (rows, cols) = (1 + random.below(200), 1 + random.below(700));
        let case = Case {
            kind,
            rows,
            cols,
            batch: 1 + random.below(20),
            extreme: random.below(4) == 0,
        };
        check(isa, &case, PRECISIONS[random.below(3)], round);
    }
}

/// The widest row: sums come as near to 32 bits as they ever do.
fn widest(isa: Isa) {
    for kind in [Kind::Ternary, Kind::Int8] {
        for precision in [Precision::Int16, Precision::Int8] {
            let case = Case {
                kind,
                rows: 3,
                cols: kernels::MAX_COLS,
                batch: 1,
                extreme: true,
            };
            check(isa, &case, precision, 1);
        }
    }
}

macro_rules! for_isa {
    ($($name:ident: $isa:expr),+ $(,)?) => {$(
        mod $name {
            use super::*;

            fn available() -> bool {
                let found = Kernels::for_isa($isa).is_some();
                if !found {
                    eprintln!("skipped: this CPU has no {}", $isa);
                }
                found
            }

            #[test]
            fn cases() {
                if available() {
                    super::cases($isa);
                }
            }

            #[test]
            fn property() {
                if available() {
                    super::property($isa);
                }
            }

            #[test]
            fn widest() {
                if available() {
                    super::widest($isa);
                }
            }
        }
    )+};
}

for_isa! {
    scalar: Isa::Scalar,
    avx2: Isa::Avx2,
    avxvnni: Isa::AvxVnni,
    avx512vnni: Isa::Avx512Vnni,
    neon: Isa::Neon,
    neon_dotprod: Isa::NeonDotprod,
}

#[test]
fn what_is_detected_is_available() {
    let best = Kernels::detect().isa();
    assert!(Kernels::available().any(|isa| isa == best));
    assert_eq!(Kernels::available().next(), Some(Isa::Scalar));
    for isa in Isa::ALL {
        assert_eq!(isa.name().parse(), Ok(isa));
    }
    assert!(
        "mmx"
            .parse::<Isa>()
            .unwrap_err()
            .to_string()
            .contains("neon-dotprod")
    );
}

#[test]
#[should_panic(expected = "columns of the weights")]
fn other_columns_are_refused() {
    let matrix = Matrix::random(Kind::Ternary, 64, 32, false, &mut Random::new(1));
    let mut x = Rows::new(1, 16, Precision::Int16);
    x.set_len(1);
    strip_product(
        Kernels::detect(),
        &matrix.view(),
        0,
        &x,
        &[0],
        &mut [0.0; STRIP],
    );
}

#[test]
#[should_panic(expected = "row index beyond")]
fn rows_that_are_not_there_are_refused() {
    let matrix = Matrix::random(Kind::Ternary, 64, 32, false, &mut Random::new(1));
    let x = Rows::new(1, 32, Precision::Int16);
    strip_product(
        Kernels::detect(),
        &matrix.view(),
        0,
        &x,
        &[0],
        &mut [0.0; STRIP],
    );
}

#[test]
fn non_finite_activations_make_the_whole_row_nan() {
    let matrix = Matrix::random(Kind::Ternary, 64, 300, false, &mut Random::new(1));
    for isa in Kernels::available() {
        let kernels = Kernels::for_isa(isa).expect("available");
        for precision in PRECISIONS {
            for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut x = Rows::new(1, 300, precision);
                x.set_len(1);
                x.row_mut(0).fill(1.0);
                x.row_mut(0)[299] = poison;
                x.quantize(kernels, 0);
                let mut out = vec![0.0; STRIP];
                strip_product(kernels, &matrix.view(), 0, &x, &[0], &mut out);
                let lost = out.iter().filter(|v| v.is_finite()).count();
                assert!(
                    precision == Precision::F32 || lost == 0,
                    "{isa} {precision:?} {poison}: {lost} finite results"
                );
            }
        }
    }
}
