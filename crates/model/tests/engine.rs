//! The engine over a real checkpoint: answers are the golden ones, and the same however they are run.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use model::bytes::Arena;
use model::config::{Config, LayerKind};
use model::engine::{Engine, EngineOptions, Request};
use model::forward::{Model, ModelOptions};
use model::generation::{Finish, Generation};
use model::load::{HeadKind, LoadOptions, Silent, load, synthetic};
use model::sampler::SamplerParams;
use model::scheduler::StepLimits;
use model::weights::{DenseType, Matrix, Weights};
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

/// The engine of a checkpoint some of whose numbers were changed.
fn changed(change: impl FnOnce(&mut Weights), precision: Precision) -> Engine {
    let mut weights = load(
        &fixture("tiny-hf-sharded"),
        &LoadOptions::default(),
        &Silent,
    )
    .unwrap();
    change(&mut weights);
    let options = ModelOptions {
        precision,
        ..ModelOptions::default()
    };
    Engine::start(
        Model::new(weights, &options).unwrap(),
        EngineOptions::default(),
    )
    .unwrap()
}

/// Makes a token's row of the embedding so large that nothing can be made of it.
fn spoil_token(weights: &mut Weights, token: usize, value: f32) {
    // A tied head would overflow for all.
    weights.head.get_or_insert(weights.embedding.clone());
    let view = weights.embedding.view();
    let (rows, cols) = (view.rows(), view.cols());
    let mut values = vec![0f32; rows * cols];
    for (row, values) in values.chunks_exact_mut(cols).enumerate() {
        view.row_to_f32(row, values);
    }
    values[token * cols..][..cols].fill(value);
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    weights.embedding = Matrix::Dense {
        rows,
        cols,
        dtype: DenseType::F32,
        data: Arena::default().copy(&bytes).unwrap(),
    };
}

#[test]
fn numbers_that_overflow_are_said_to_with_their_layer() {
    type Change = fn(&mut Weights);
    let cases: [(Change, &str, usize); 5] = [
        (|w| spoil_token(w, 7, 3e38), "in the embedding", 2),
        // Finite, but its square is not: a norm would make zeros of it.
        (|w| spoil_token(w, 8, 1e20), "in the embedding", 3),
        (|w| w.layers[0].input_norm.fill(3e38), "in layer 0", 0),
        (|w| w.layers[1].post_norm.fill(3e38), "in layer 1", 0),
        (|w| w.norm.fill(3e38), "in the last norm or the head", 3),
    ];
    for precision in [Precision::F32, Precision::Int16, Precision::Int8] {
        for (number, (change, place, position)) in cases.into_iter().enumerate() {
            let engine = changed(change, precision);
            let answer = engine.generate(greedy(vec![5, 6, 7, 8], 4)).unwrap();
            let Err(error) = block_on(answer.next()) else {
                panic!("case {number}, {precision:?}: tokens");
            };
            let words = format!("case {number}, {precision:?}: {error}");
            assert_eq!(error.code(), "NUMBERS_OVERFLOWED", "{words}");
            assert!(error.to_string().contains(place), "{words}");
            let position = format!("position {position},");
            assert!(error.to_string().contains(&position), "{words}");
        }
    }
}

#[test]
fn an_answer_whose_numbers_overflow_leaves_the_others_alone() {
    let fine: Vec<_> = (10..16u32).map(|id| greedy(vec![id, 5, 6], 12)).collect();
    let sound = changed(|_| {}, Precision::Int16);
    let expected: Vec<_> = fine
        .iter()
        .map(|request| collect(&sound.generate(request.clone()).unwrap()).0)
        .collect();
    // A token that neither those prompts nor their answers hold.
    let seen = expected.concat();
    let spoiled = (20..).find(|id| !seen.contains(id)).unwrap();
    let engine = changed(
        |weights| spoil_token(weights, spoiled as usize, 3e38),
        Precision::Int16,
    );
    for at in [0, 2, 4] {
        let mut prompt = vec![10, 5, 6, 9, 9];
        prompt[at] = spoiled;
        let running: Vec<_> = fine
            .iter()
            .map(|request| engine.generate(request.clone()).unwrap())
            .collect();
        for _ in 0..2 {
            let answer = engine.generate(greedy(prompt.clone(), 4)).unwrap();
            let logits = engine.logits(prompt.clone(), vec![4]).unwrap();
            for error in [
                block_on(answer.next()).unwrap_err(),
                block_on(logits.wait()).unwrap_err(),
            ] {
                assert_eq!(error.code(), "NUMBERS_OVERFLOWED");
                assert!(
                    error.to_string().contains(&format!("position {at},")),
                    "{error}"
                );
            }
        }
        for (answer, tokens) in running.iter().zip(&expected) {
            assert_eq!(&collect(answer).0, tokens);
        }
    }
}

#[test]
fn steps_that_need_more_memory_than_there_is_are_refused() {
    // Few weights, of which each row of a step takes very many.
    let config = Config {
        hidden: 64,
        heads: 1,
        kv_heads: 1,
        head_dim: 64,
        experts: 1 << 14,
        experts_per_token: 1 << 14,
        expert_hidden: 64,
        vocab: 64,
        layers: vec![LayerKind::Full],
        swiglu_limit: vec![7.0],
        ..Config::maple_preview()
    };
    let options = LoadOptions::default();
    let weights = synthetic(config, 1, HeadKind::Bf16, &options, &Silent).unwrap();
    let options = |max_rows| ModelOptions {
        max_rows,
        ..ModelOptions::default()
    };
    let error = Model::new(weights.clone(), &options(1 << 16))
        .err()
        .unwrap();
    assert_eq!(error.code(), "OUT_OF_MEMORY");
    assert!(error.to_string().contains("65536 rows"), "{error}");
    assert!(Model::new(weights, &options(1)).is_ok());
}
