mod ends;

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use super::*;
use crate::backend::Candidates;
use crate::fake::{CONTEXT, END, Fake, VOCAB, hidden, logits};
use crate::generation::{Finish, FinishReason, QUEUE_CAPACITY, SharedError};
use crate::sampler::{SeenTokens, sample};
use crate::scheduler::StepLimits;

/// Runs a future on this thread.
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

fn collect(generation: &Generation) -> std::result::Result<(Vec<u32>, Finish), SharedError> {
    let mut tokens = Vec::new();
    loop {
        let chunk = block_on(generation.next())?;
        assert!(
            !chunk.tokens.is_empty() || chunk.finish.is_some(),
            "a pull that brings nothing"
        );
        tokens.extend(chunk.tokens);
        if let Some(finish) = chunk.finish {
            return Ok((tokens, finish));
        }
    }
}

fn code<T>(result: std::result::Result<T, SharedError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(error) => error.code(),
    }
}

/// The answer to a request, from the definitions alone.
fn reference(request: &Request) -> (Vec<u32>, FinishReason) {
    let mut tokens = request.prompt.clone();
    let mut seen = SeenTokens::new(VOCAB);
    tokens.iter().for_each(|&id| seen.insert(id));
    let limit = request
        .max_tokens
        .unwrap_or(usize::MAX)
        .min(CONTEXT - request.prompt.len());
    let ends = request.end_tokens.clone().unwrap_or(vec![END]);
    while tokens.len() - request.prompt.len() < limit {
        let all = Candidates {
            ids: (0..VOCAB as u32).collect(),
            logits: logits(&hidden(&tokens)),
        };
        let token = sample(&all, &request.sampling, &seen, tokens.len()).unwrap();
        if !request.ignore_end && ends.contains(&token) {
            return (tokens.split_off(request.prompt.len()), FinishReason::Stop);
        }
        seen.insert(token);
        tokens.push(token);
    }
    (tokens.split_off(request.prompt.len()), FinishReason::Length)
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % below
    }
}

fn prompt(length: usize, salt: u32) -> Vec<u32> {
    (0..length as u32)
        .map(|i| (i * 7 + salt * 13 + i * i % 5) % 60)
        .collect()
}

fn greedy(prompt: Vec<u32>, max_tokens: usize) -> Request {
    Request {
        prompt,
        max_tokens: Some(max_tokens),
        ignore_end: true,
        sampling: SamplerParams {
            temperature: 0.0,
            ..Default::default()
        },
        ..Default::default()
    }
}

#[test]
fn answers_are_those_of_the_definition_alone_batched_chunked_and_with_reused_prefixes() {
    let mut dice = Dice(5);
    let mut requests = Vec::new();
    for round in 0..60u32 {
        // A few families of prompts that share beginnings of all lengths, some cut inside another's answer.
        let family = dice.below(3) as u32;
        let mut tokens = prompt(1 + dice.below(60), family);
        if let Some(Request { prompt, .. }) = requests.get(dice.below(requests.len().max(1))) {
            let earlier: &Vec<u32> = prompt;
            let cut = dice.below(earlier.len()) + 1;
            tokens = [&earlier[..cut], &tokens[..dice.below(tokens.len())]].concat();
        }
        tokens.truncate(150);
        let snapshots = dice.below(3);
        requests.push(Request {
            snapshot_at: (0..snapshots)
                .map(|_| dice.below(tokens.len() + 1))
                .collect(),
            prompt: tokens,
            sampling: SamplerParams {
                temperature: [0.0, 0.7, 1.5][dice.below(3)],
                top_k: [0, 3, 20][dice.below(3)],
                top_p: [1.0, 0.8][dice.below(2)],
                repetition_penalty: [1.0, 1.3][dice.below(2)],
                seed: u64::from(round),
            },
            max_tokens: [Some(1), Some(30), None][dice.below(3)],
            ignore_end: dice.below(2) == 0,
            end_tokens: [None, Some(vec![END, 4])][dice.below(2)].clone(),
        });
    }
    let expected: Vec<_> = requests.iter().map(reference).collect();
    for (rows, beside, together, prefix_bytes, slack) in [
        (512, 128, 1, 0, 0),
        (1, 1, 1, 1 << 20, 0),
        (7, 3, 4, 1 << 20, 3),
        (64, 16, 9, 4_000, 1),
        (512, 128, 16, 1 << 20, 40),
    ] {
        let options = EngineOptions {
            max_sequences: together,
            prefix_bytes,
            limits: StepLimits {
                rows,
                prefill_rows_beside_decode: beside,
            },
        };
        let engine = Engine::start(
            Fake {
                slack,
                ..Default::default()
            },
            options.clone(),
        )
        .unwrap();
        let mut cached = 0;
        for (group, wanted) in requests.chunks(together).zip(expected.chunks(together)) {
            let running: Vec<_> = group
                .iter()
                .map(|request| engine.generate(request.clone()).unwrap())
                .collect();
            for ((generation, request), (tokens, reason)) in running.iter().zip(group).zip(wanted) {
                let (found, finish) = collect(generation).unwrap();
                assert_eq!(
                    (&found, finish.reason),
                    (tokens, *reason),
                    "{options:?} {request:?}"
                );
                assert_eq!(finish.prompt_tokens, request.prompt.len());
                let end_token = usize::from(finish.reason == FinishReason::Stop);
                assert_eq!(finish.completion_tokens, tokens.len() + end_token);
                assert!(finish.cached_tokens < request.prompt.len());
                cached += finish.cached_tokens;
            }
        }
        assert_eq!(cached > 0, prefix_bytes > 0, "{options:?}");
    }
}

#[test]
fn logits_are_those_of_the_definition_at_every_position_and_chunk_size() {
    let tokens = prompt(40, 1);
    for rows in [1, 7, 512] {
        let limits = StepLimits {
            rows,
            ..Default::default()
        };
        let engine = Engine::start(
            Fake::default(),
            EngineOptions {
                limits,
                ..Default::default()
            },
        )
        .unwrap();
        for positions in [vec![], vec![0], vec![6, 7, 8], vec![39], (0..40).collect()] {
            let found = block_on(
                engine
                    .logits(tokens.clone(), positions.clone())
                    .unwrap()
                    .wait(),
            )
            .unwrap();
            let positions = if positions.is_empty() {
                vec![39]
            } else {
                positions
            };
            let expected: Vec<f32> = positions
                .iter()
                .flat_map(|&at| logits(&hidden(&tokens[..=at])))
                .collect();
            assert_eq!(found, expected, "{rows} rows, positions {positions:?}");
        }
    }
}

#[test]
fn prefixes_are_reused_as_far_as_their_rings_are_known() {
    let run = |engine: &Engine, prompt: Vec<u32>, snapshot_at: Vec<usize>| {
        let request = Request {
            snapshot_at,
            ..greedy(prompt, 20)
        };
        let (tokens, finish) = collect(&engine.generate(request).unwrap()).unwrap();
        (tokens, finish.cached_tokens)
    };
    let engine = Engine::start(
        Fake {
            slack: 0,
            ..Default::default()
        },
        EngineOptions::default(),
    )
    .unwrap();
    let first = prompt(50, 0);
    let (answer, cached) = run(&engine, first.clone(), vec![30]);
    assert_eq!(cached, 0);
    // Another turn after the same beginning: from the asked position, though the rings have long moved on.
    assert_eq!(
        run(&engine, [&first[..35], &[1, 2, 3]].concat(), vec![]).1,
        30
    );
    // Before that position nothing is known any more.
    assert_eq!(
        run(&engine, [&first[..25], &[1, 2, 3]].concat(), vec![]).1,
        0
    );
    // The whole answer and one token more: everything that was evaluated, which the last token was not.
    assert_eq!(
        run(&engine, [&first[..], &answer[..], &[9]].concat(), vec![]).1,
        50 + 19
    );

    // With rings that can be rewound a little, the same prompt asked again only evaluates its last token.
    let engine = Engine::start(
        Fake {
            slack: 4,
            ..Default::default()
        },
        EngineOptions::default(),
    )
    .unwrap();
    let (answer, _) = run(&engine, first.clone(), vec![]);
    assert_eq!(run(&engine, first.clone(), vec![]), (answer, 49));
}

/// A model that stands still at each step until it is let on, and tells how many rows each sequence has in it.
fn gated() -> (Fake, mpsc::Receiver<Vec<usize>>, mpsc::Sender<()>) {
    let (told, steps) = mpsc::channel();
    let (go, gate) = mpsc::channel();
    let hook = Box::new(move |batch: &[Vec<u32>]| {
        // Once the test has let go of its ends, everything runs freely.
        let _ = told.send(batch.iter().map(Vec::len).collect());
        let _ = gate.recv();
        Ok(())
    });
    (
        Fake {
            hook,
            ..Default::default()
        },
        steps,
        go,
    )
}

#[test]
fn sequences_share_steps_and_decoding_goes_on_beside_a_long_prompt() {
    let (fake, steps, go) = gated();
    let limits = StepLimits {
        rows: 32,
        prefill_rows_beside_decode: 10,
    };
    let engine = Engine::start(
        fake,
        EngineOptions {
            limits,
            ..Default::default()
        },
    )
    .unwrap();
    let first = engine.generate(greedy(prompt(5, 0), 6)).unwrap();
    assert_eq!(steps.recv().unwrap(), [5]);
    let second = engine.generate(greedy(prompt(25, 1), 2)).unwrap();
    go.send(()).unwrap();
    for expected in [&[1, 10][..], &[1, 10], &[1, 5], &[1, 1], &[1]] {
        assert_eq!(steps.recv().unwrap(), expected);
        go.send(()).unwrap();
    }
    drop(go);
    assert_eq!(collect(&first).unwrap().0.len(), 6);
    assert_eq!(collect(&second).unwrap().0.len(), 2);
}

#[test]
fn a_reader_that_does_not_pull_pauses_only_itself() {
    let engine = Engine::start(Fake::default(), EngineOptions::default()).unwrap();
    let slow = engine.generate(greedy(prompt(3, 0), 300)).unwrap();
    let quick = engine.generate(greedy(prompt(3, 1), 300)).unwrap();
    assert_eq!(collect(&quick).unwrap().0.len(), 300);
    let first = block_on(slow.next()).unwrap();
    assert_eq!((first.tokens.len(), first.finish), (QUEUE_CAPACITY, None));
    let rest = collect(&slow).unwrap().0;
    assert_eq!(
        [first.tokens, rest].concat(),
        reference(&greedy(prompt(3, 0), 300)).0
    );
}
