//! Logits and greedy tokens of every golden checkpoint, in every mode, on every instruction set.

use kernels::{Isa, Kernels, Precision};
use model::backend::Backend;
use model::forward::{Model, ModelOptions};
use model::load::{LoadOptions, Silent, load};
use model::weights::Weights;

use super::feed;
use super::golden::{Case, golden};

/// Largest difference relative to the row's largest logit.
fn difference(got: &[f32], want: &[f32]) -> f32 {
    let largest = want.iter().fold(0f32, |m, x| m.max(x.abs()));
    got.iter().zip(want).fold(0f32, |m, (a, b)| {
        if (a - b).abs() >= m || a.is_nan() {
            (a - b).abs()
        } else {
            m
        }
    }) / largest
}

/// Runs a case; returns the worst difference of the logits and the greedy tokens.
fn run(model: &mut Model, case: &Case) -> (f32, Vec<u32>) {
    let (width, vocab) = (model.hidden_size(), model.vocab_size());
    let mut cache = model.new_cache();
    let hidden = feed(model, &mut cache, &case.prompt, usize::MAX);
    let mut logits = vec![0.0; vocab];
    let mut worst = 0f32;
    for (position, want) in case.positions.iter().zip(&case.logits) {
        model
            .logits(&hidden[position * width..][..width], &mut logits)
            .expect("logits");
        worst = worst.max(difference(&logits, want));
    }
    let mut hidden = hidden[hidden.len() - width..].to_vec();
    let mut greedy = Vec::new();
    for want in &case.greedy_logits {
        model.logits(&hidden, &mut logits).expect("logits");
        // Past a wrong token the rows have nothing in common.
        if greedy == case.greedy[..greedy.len()] {
            worst = worst.max(difference(&logits, want));
        }
        let best = model.top_k(&hidden, 1, &[]).expect("the best token");
        assert_eq!(best.logits[0], logits[best.ids[0] as usize]);
        greedy.push(best.ids[0]);
        hidden = feed(model, &mut cache, &best.ids, 1);
    }
    (worst, greedy)
}

fn check(name: &'static str, isas: &[Isa]) {
    let Some(golden) = golden(name) else { return };
    for &isa in isas {
        for (precision, bound) in [
            (Precision::F32, golden.float32),
            (Precision::Int16, golden.int16),
        ] {
            let options = ModelOptions {
                precision,
                isa: Some(isa),
                threads: 2,
                ..ModelOptions::default()
            };
            let mut model = golden.model(&options);
            for (i, case) in golden.cases.iter().enumerate() {
                let (worst, greedy) = run(&mut model, case);
                println!("{name} case {i}, {precision:?} on {isa}: {worst:.2e} of {bound:.0e}");
                assert!(
                    worst <= bound,
                    "{name} case {i}, {precision:?} on {isa}: off by {worst:e}, allowed {bound:e}"
                );
                assert_eq!(
                    greedy, case.greedy,
                    "{name} case {i}, {precision:?} on {isa}"
                );
            }
        }
    }
}

fn all() -> Vec<Isa> {
    Kernels::available().collect()
}

/// The best one: real widths take long on the others, which have the same kernels' tests behind them.
fn best() -> Vec<Isa> {
    all().pop().into_iter().collect()
}

#[test]
fn hugging_face_sharded() {
    check("tiny-hf-sharded", &all());
}

#[test]
fn hugging_face_odd_sizes() {
    check("odd-hf", &all());
}

#[test]
fn mlx_row_scales() {
    check("mid-mlx2bit", &all());
}

#[test]
fn mlx_groups() {
    check("mid-mlx2bit-groups", &best());
}

#[test]
fn mlx_real_widths() {
    check("wide-mlx2bit", &best());
}

const GGUF: [&str; 3] = [
    "gguf/maple-tq2_0-head-q4_K",
    "gguf/maple-tq1_0-head-q6_K",
    "gguf/maple-q2_0-head-q8_0",
];

#[test]
fn gguf() {
    for name in GGUF {
        check(name, &all());
    }
}

/// The first load writes the packed copy and the second maps it; both compute the same.
#[test]
fn packed_copies() {
    let others = [
        "mid-mlx2bit",
        "mid-mlx2bit-groups",
        "tiny-hf-sharded",
        "odd-hf",
    ];
    for name in GGUF.into_iter().chain(others) {
        let Some(golden) = golden(name) else { continue };
        let cache = std::env::temp_dir().join(format!("maple-golden-{}", std::process::id()));
        let options = LoadOptions {
            cache_folder: Some(cache.clone()),
            ..LoadOptions::default()
        };
        let run_all = |weights: Weights, precision, bound| {
            let options = ModelOptions {
                precision,
                ..ModelOptions::default()
            };
            let mut model = Model::new(weights, &options).expect("a model");
            let results = golden.cases.iter().map(|case| {
                let (worst, greedy) = run(&mut model, case);
                assert!(worst <= bound, "{name}, {precision:?}: off by {worst:e}");
                assert_eq!(greedy, case.greedy, "{name}, {precision:?}");
                worst.to_bits()
            });
            results.collect::<Vec<_>>()
        };
        for (precision, bound) in [
            (Precision::F32, golden.float32),
            (Precision::Int16, golden.int16),
        ] {
            let direct = run_all(golden.weights(), precision, bound);
            for _ in 0..2 {
                let weights = load(&golden.path, &options, &Silent).expect("a sound checkpoint");
                assert!(weights.summary.packed_file.is_some(), "{name}");
                assert_eq!(run_all(weights, precision, bound), direct, "{name}");
            }
        }
        std::fs::remove_dir_all(cache).expect("the cache");
    }
}

/// One plane is coarse: router choices may flip. It must stay in the neighbourhood, and mostly agree.
#[test]
fn int8_is_close() {
    for name in ["tiny-hf-sharded", "odd-hf", "mid-mlx2bit"] {
        let golden = golden(name).expect("a fixture");
        let mut model = golden.model(&ModelOptions {
            precision: Precision::Int8,
            ..ModelOptions::default()
        });
        let width = model.hidden_size();
        let (mut agree, mut rows) = (0, 0);
        for case in &golden.cases {
            let mut cache = model.new_cache();
            let hidden = feed(&mut model, &mut cache, &case.prompt, usize::MAX);
            let mut logits = vec![0.0; model.vocab_size()];
            for (position, want) in case.positions.iter().zip(&case.logits) {
                model
                    .logits(&hidden[position * width..][..width], &mut logits)
                    .expect("logits");
                let best = |x: &[f32]| {
                    x.iter()
                        .enumerate()
                        .max_by(|a, b| a.1.total_cmp(b.1))
                        .map(|(i, _)| i)
                };
                agree += usize::from(best(&logits) == best(want));
                rows += 1;
                assert!(difference(&logits, want) < 1.0, "{name} at {position}");
            }
        }
        println!("{name}: int8 agrees on {agree} of {rows} rows");
        assert!(
            agree * 4 >= rows * 3,
            "{name}: int8 agrees on {agree} of {rows} rows only"
        );
    }
}
