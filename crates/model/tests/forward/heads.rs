//! The largest logits are exactly the full head's.

use kernels::Precision;
use model::backend::{Backend, Candidates};
use model::forward::{Model, ModelOptions};

use super::golden::golden;
use super::{feed, tokens};

/// What `top_k` must return, from all logits.
fn oracle(logits: &[f32], k: usize, penalised: &[u32]) -> Vec<(u32, u32)> {
    let mut others: Vec<u32> = (0..logits.len() as u32)
        .filter(|id| !penalised.contains(id))
        .collect();
    others.sort_by(|&a, &b| {
        logits[b as usize]
            .total_cmp(&logits[a as usize])
            .then(a.cmp(&b))
    });
    others.truncate(k);
    others.extend(penalised);
    sorted(
        others
            .into_iter()
            .map(|id| (id, logits[id as usize].to_bits()))
            .collect(),
    )
}

fn sorted(mut items: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    items.sort_unstable();
    items
}

fn check(model: &mut Model, hidden: &[f32], what: &str) {
    let vocab = model.vocab_size();
    let mut logits = vec![0.0; vocab];
    model.logits(hidden, &mut logits).expect("logits");
    for (k, penalised) in [
        (1, 0),
        (20, 0),
        (0, 3),
        (1, 5),
        (20, 70),
        (vocab, 0),
        (vocab, 9),
        (3, vocab),
    ] {
        let mut penalised: Vec<u32> = if penalised == vocab {
            (0..vocab as u32).collect()
        } else {
            let best = model.top_k(hidden, 1, &[]).expect("the best").ids[0];
            std::iter::once(best)
                .chain(tokens(penalised, vocab, 9))
                .take(penalised)
                .collect()
        };
        penalised.sort_unstable();
        penalised.dedup();
        let Candidates { ids, logits: found } =
            model.top_k(hidden, k, &penalised).expect("candidates");
        let got = sorted(
            ids.into_iter()
                .zip(found.iter().map(|x| x.to_bits()))
                .collect(),
        );
        assert_eq!(
            got,
            oracle(&logits, k, &penalised),
            "{what}, k {k}, {} penalised",
            penalised.len()
        );
    }
}

#[test]
fn of_real_hidden_rows() {
    for name in ["tiny-hf-sharded", "odd-hf", "mid-mlx2bit"] {
        for precision in [Precision::F32, Precision::Int16, Precision::Int8] {
            let mut model = golden(name).expect("a fixture").model(&ModelOptions {
                precision,
                ..ModelOptions::default()
            });
            let mut cache = model.new_cache();
            let hidden = feed(&mut model, &mut cache, &tokens(12, 256, 7), 12);
            for (i, row) in hidden.chunks_exact(model.hidden_size()).enumerate() {
                check(&mut model, row, &format!("{name} {precision:?} row {i}"));
            }
        }
    }
}

/// Rows of all sizes, one huge value among small ones, zeros, and what is not a number.
#[test]
fn of_hostile_hidden_rows() {
    let mut model = golden("tiny-hf-sharded")
        .expect("a fixture")
        .model(&ModelOptions::default());
    let width = model.hidden_size();
    let wave = |scale: f32| {
        (0..width)
            .map(|i| ((i * 37) as f32).sin() * scale)
            .collect::<Vec<_>>()
    };
    for scale in [1.0, 1e-3, 1e3, 1e-15, 1e15, 1e-25, 1e-38] {
        check(&mut model, &wave(scale), &format!("scale {scale}"));
    }
    let mut spike = wave(1e-4);
    spike[5] = 1e4;
    check(&mut model, &spike, "a spike");
    check(&mut model, &vec![0.0; width], "zeros");
    for bad in [f32::NAN, f32::INFINITY] {
        let mut row = wave(1.0);
        row[3] = bad;
        let found = model.top_k(&row, 5, &[7]).expect("candidates");
        let mut ids = found.ids;
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 6, "{bad}");
    }
    assert!(model.top_k(&wave(1.0), 1, &[288]).is_err());
    assert!(model.top_k(&wave(1.0)[1..], 1, &[]).is_err());
}
