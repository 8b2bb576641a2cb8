//! The engine over a real checkpoint: answers are the golden ones, and the same however they are run.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use model::engine::{Engine, EngineOptions, Request};
use model::forward::{Model, ModelOptions};
use model::generation::{Finish, Generation};
use model::load::{LoadOptions, Silent, load};
use model::sampler::SamplerParams;
use model::scheduler::StepLimits;
use model::{Isa, Precision};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../__test__/fixtures")
        .join(name)
}

fn engine(name: &str, model: ModelOptions, options: EngineOptions) -> Engine {
    let weights = load(&fixture(name), &LoadOptions::default(), &Silent).unwrap();
    Engine::start(Model::new(weights, &model).unwrap(), options).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn collect(generation: &Generation) -> (Vec<u32>, Finish) {
    let mut tokens = Vec::new();
    loop {
        let chunk = block_on(generation.next()).unwrap();
        tokens.extend(chunk.tokens);
        if let Some(finish) = chunk.finish {
            assert_eq!(chunk.cached_tokens, finish.cached_tokens);
            return (tokens, finish);
        }
    }
}

struct Case {
    prompt: Vec<u32>,
    greedy: Vec<u32>,
}

fn cases(name: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(fixture(name).join("golden.json")).unwrap();
    let golden: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ids = |value: &serde_json::Value| -> Vec<u32> {
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|id| id.as_u64().unwrap() as u32)
            .collect()
    };
    let cases = golden["cases"].as_array().unwrap();
    cases
        .iter()
        .map(|case| Case {
            prompt: ids(&case["prompt"]),
            greedy: ids(&case["greedy"]),
        })
        .collect()
}

fn greedy(prompt: Vec<u32>, tokens: usize) -> Request {
    Request {
        prompt,
        sampling: SamplerParams {
            temperature: 0.0,
            ..SamplerParams::default()
        },
        max_tokens: Some(tokens),
        ignore_end: true,
        ..Request::default()
    }
}

#[test]
fn greedy_answers_are_the_golden_ones_all_at_once_and_again_from_reused_prefixes() {
    for name in ["tiny-hf-sharded", "odd-hf", "mid-mlx2bit"] {
        for precision in [Precision::F32, Precision::Int16] {
            let model = ModelOptions {
                precision,
                ..ModelOptions::default()
            };
            let engine = engine(name, model, EngineOptions::default());
            for round in 0..2 {
                let cases = cases(name);
                let running: Vec<_> = cases
                    .iter()
                    .map(|case| {
                        engine
                            .generate(greedy(case.prompt.clone(), case.greedy.len()))
                            .unwrap()
                    })
                    .collect();
                for (case, generation) in cases.iter().zip(&running) {
                    let (tokens, finish) = collect(generation);
                    assert_eq!(tokens, case.greedy, "{name} {precision:?} round {round}");
                    if round == 1 {
                        assert_eq!(finish.cached_tokens, case.prompt.len() - 1, "{name}");
                    }
                }
            }
        }
    }
}

/// Prompts that share beginnings and part in many places, some of them far past the window, in several kinds of sampling.
fn mixed_requests() -> Vec<Request> {
    let base = cases("tiny-hf-sharded")
        .into_iter()
        .map(|case| case.prompt)
        .max_by_key(Vec::len)
        .unwrap();
    let mut requests = Vec::new();
    for (index, cut) in [
        base.len(),
        3,
        base.len() / 2,
        base.len() - 1,
        base.len() / 2,
        9,
        base.len(),
    ]
    .into_iter()
    .enumerate()
    {
        let tail = [5 + index as u32, 80, 81].repeat(index);
        requests.push(Request {
            prompt: [&base[..cut], &tail].concat(),
            sampling: SamplerParams {
                temperature: [0.0, 0.8, 1.2][index % 3],
                top_k: [20, 0, 7][index % 3],
                top_p: [0.95, 1.0][index % 2],
                repetition_penalty: [1.0, 1.2][index / 2 % 2],
                seed: index as u64,
            },
            max_tokens: Some(24),
            ignore_end: true,
            end_tokens: None,
            snapshot_at: vec![cut / 2, cut],
        });
    }
    requests
}

#[test]
fn answers_do_not_depend_on_threads_steps_neighbours_prefixes_or_instruction_set() {
    let alone = EngineOptions {
        prefix_bytes: 0,
        max_sequences: 1,
        limits: StepLimits::default(),
    };
    let requests = mixed_requests();
    let one = ModelOptions {
        threads: 1,
        ..ModelOptions::default()
    };
    let reference = engine("tiny-hf-sharded", one, alone);
    let expected: Vec<_> = requests
        .iter()
        .map(|request| collect(&reference.generate(request.clone()).unwrap()).0)
        .collect();
    for (threads, rows, isa) in [
        (1, 1, None),
        (2, 7, None),
        (3, 64, None),
        (2, 512, Some(Isa::Scalar)),
        (3, 512, None),
    ] {
        let limits = StepLimits {
            rows,
            prefill_rows_beside_decode: rows.div_ceil(2),
        };
        let model = ModelOptions {
            threads,
            isa,
            ..ModelOptions::default()
        };
        let engine = engine(
            "tiny-hf-sharded",
            model,
            EngineOptions {
                limits,
                ..EngineOptions::default()
            },
        );
        let mut cached = 0;
        for round in 0..2 {
            let running: Vec<_> = requests
                .iter()
                .map(|request| engine.generate(request.clone()).unwrap())
                .collect();
            for ((generation, request), tokens) in running.iter().zip(&requests).zip(&expected) {
                let (found, finish) = collect(generation);
                assert_eq!(
                    &found, tokens,
                    "{threads} threads, {rows} rows, round {round}: {request:?}"
                );
                cached += finish.cached_tokens;
            }
        }
        assert!(cached > 0);
    }
}
