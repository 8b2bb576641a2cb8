//! The same bits however the work is cut: calls, passes, threads, neighbours, instruction sets.

use kernels::{Kernels, Precision};
use model::backend::{Backend, HiddenWanted, SeqRows};
use model::forward::ModelOptions;

use super::golden::golden;
use super::{bits, feed, tokens};

const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::Int16, Precision::Int8];

/// All hidden rows of one sequence, evaluated in calls of `chunk` tokens.
fn hidden(name: &'static str, options: &ModelOptions, ids: &[u32], chunk: usize) -> Vec<u32> {
    let mut model = golden(name).expect("a fixture").model(options);
    let mut cache = model.new_cache();
    bits(&feed(&mut model, &mut cache, ids, chunk))
}

#[test]
fn calls_passes_and_threads() {
    for (name, vocab) in [("tiny-hf-sharded", 288), ("odd-hf", 261)] {
        let ids = tokens(90, vocab, 1);
        for precision in PRECISIONS {
            let base = ModelOptions {
                precision,
                threads: 1,
                ..ModelOptions::default()
            };
            let want = hidden(name, &base, &ids, usize::MAX);
            for chunk in [1, 4, 5, 7, 64] {
                assert!(
                    hidden(name, &base, &ids, chunk) == want,
                    "{name} {precision:?} in calls of {chunk}"
                );
            }
            for max_rows in [1, 3, 20, 64] {
                let options = ModelOptions { max_rows, ..base };
                assert!(
                    hidden(name, &options, &ids, 50) == want,
                    "{name} {precision:?} in passes of {max_rows}"
                );
            }
            for threads in [2, 3] {
                let options = ModelOptions { threads, ..base };
                for chunk in [7, usize::MAX] {
                    let got = hidden(name, &options, &ids, chunk);
                    assert!(
                        got == want,
                        "{name} {precision:?} with {threads} threads in calls of {chunk}"
                    );
                }
            }
        }
    }
}

#[test]
fn instruction_sets() {
    for name in ["tiny-hf-sharded", "odd-hf", "mid-mlx2bit"] {
        let ids = tokens(40, 256, 2);
        for precision in PRECISIONS {
            let mut want = None;
            for isa in Kernels::available() {
                let options = ModelOptions {
                    precision,
                    isa: Some(isa),
                    ..ModelOptions::default()
                };
                let got = hidden(name, &options, &ids, 30);
                assert!(
                    *want.get_or_insert_with(|| got.clone()) == got,
                    "{name} {precision:?} on {isa}"
                );
            }
        }
    }
}

/// Far past the window, and past the ring of small passes several times.
#[test]
fn rings_that_wrap() {
    let ids = tokens(1400, 288, 3);
    let base = ModelOptions {
        threads: 1,
        ..ModelOptions::default()
    };
    let want = hidden("tiny-hf-sharded", &base, &ids, 1400);
    for (max_rows, chunk) in [(1, 1400), (9, 100), (255, 256), (257, 1400), (700, 700)] {
        let got = hidden(
            "tiny-hf-sharded",
            &ModelOptions { max_rows, ..base },
            &ids,
            chunk,
        );
        assert!(got == want, "passes of {max_rows}, calls of {chunk}");
    }
}

#[test]
fn neighbours() {
    for precision in PRECISIONS {
        let mut model = golden("tiny-hf-sharded")
            .expect("a fixture")
            .model(&ModelOptions {
                precision,
                ..ModelOptions::default()
            });
        let width = model.hidden_size();
        // Parts of each step, by sequence: decoding, short and long prefill beside each other.
        let steps: [[usize; 4]; 5] = [
            [1, 0, 30, 4],
            [1, 5, 0, 1],
            [2, 1, 1, 40],
            [1, 1, 70, 1],
            [3, 1, 1, 1],
        ];
        let totals: Vec<usize> = (0..4)
            .map(|s| steps.iter().map(|step| step[s]).sum())
            .collect();
        let ids: Vec<_> = (0..4)
            .map(|s| tokens(totals[s], 288, 10 + s as u64))
            .collect();
        let alone: Vec<_> = ids
            .iter()
            .map(|ids| {
                let mut cache = model.new_cache();
                feed(&mut model, &mut cache, ids, usize::MAX)
            })
            .collect();
        let mut caches: Vec<_> = (0..4).map(|_| model.new_cache()).collect();
        for step in steps {
            let starts: Vec<_> = caches.iter().map(model::kv_cache::KvCache::len).collect();
            let mut batch: Vec<_> = caches
                .iter_mut()
                .enumerate()
                .filter(|(s, _)| step[*s] > 0)
                .map(|(s, cache)| SeqRows {
                    cache,
                    tokens: &ids[s][starts[s]..starts[s] + step[s]],
                    hidden: [HiddenWanted::Last, HiddenWanted::All][s % 2],
                })
                .collect();
            let got = model.forward(&mut batch).expect("a pass");
            let mut at = 0;
            for s in (0..4).filter(|s| step[*s] > 0) {
                let rows = if s % 2 == 0 { 1 } else { step[s] };
                let end = starts[s] + step[s];
                let want = &alone[s][(end - rows) * width..end * width];
                assert_eq!(
                    bits(&got[at..at + rows * width]),
                    bits(want),
                    "{precision:?}, sequence {s} at {end}"
                );
                at += rows * width;
            }
            assert_eq!(at, got.len());
        }
    }
}

#[test]
fn what_cannot_be_run_is_refused() {
    let golden = golden("tiny-hf-sharded").expect("a fixture");
    let mut model = golden.model(&ModelOptions {
        context_length: Some(20),
        ..ModelOptions::default()
    });
    let mut cache = model.new_cache();
    let mut forward = |cache: &mut _, tokens: &[u32]| {
        let rows = SeqRows {
            cache,
            tokens,
            hidden: HiddenWanted::None,
        };
        model
            .forward(&mut [rows])
            .map(|hidden| hidden.len())
            .map_err(|error| error.code())
    };
    assert_eq!(forward(&mut cache, &[0; 20]), Ok(0));
    assert_eq!(forward(&mut cache, &[0]), Err("CONTEXT_LENGTH_EXCEEDED"));
    assert_eq!(forward(&mut cache, &[]), Err("INVALID_ARGUMENT"));
    let mut cache = model.new_cache();
    let mut forward = |tokens: &[u32]| {
        let rows = SeqRows {
            cache: &mut cache,
            tokens,
            hidden: HiddenWanted::None,
        };
        model.forward(&mut [rows]).map_err(|error| error.code())
    };
    assert_eq!(forward(&[1, 288]), Err("INVALID_ARGUMENT"));
    assert_eq!(forward(&[1, 287]), Ok(vec![]));
    for options in [
        ModelOptions {
            threads: 5000,
            ..ModelOptions::default()
        },
        ModelOptions {
            context_length: Some(0),
            ..ModelOptions::default()
        },
        ModelOptions {
            context_length: Some(1 << 20),
            ..ModelOptions::default()
        },
        ModelOptions {
            max_rows: 0,
            ..ModelOptions::default()
        },
    ] {
        let error = model::forward::Model::new(golden.weights(), &options)
            .err()
            .expect("refused");
        assert_eq!(error.code(), "INVALID_ARGUMENT", "{error}");
    }
}
