//! How answers end other than by themselves: cancelled, failed, refused, disposed of.

use super::*;

#[test]
fn cancelling_works_while_waiting_in_prefill_in_decode_and_after_the_end() {
    let (fake, steps, go) = gated();
    let limits = StepLimits {
        rows: 10,
        prefill_rows_beside_decode: 10,
    };
    let engine = Engine::start(
        fake,
        EngineOptions {
            limits,
            max_sequences: 1,
            ..Default::default()
        },
    )
    .unwrap();
    let in_prefill = engine.generate(greedy(prompt(35, 0), 5)).unwrap();
    let waiting = engine.generate(greedy(prompt(35, 1), 5)).unwrap();
    let dropped = engine.generate(greedy(prompt(35, 2), 5)).unwrap();
    let last = engine.generate(greedy(prompt(4, 3), 5)).unwrap();
    assert_eq!(steps.recv().unwrap(), [10]);
    waiting.cancel();
    drop(dropped);
    in_prefill.cancel();
    // All are told at once, though the step in hand still stands.
    assert_eq!(code(collect(&waiting)), "CANCELLED");
    assert_eq!(code(collect(&in_prefill)), "CANCELLED");
    go.send(()).unwrap();
    assert_eq!(
        steps.recv().unwrap(),
        [4],
        "the cancelled ones take no further step"
    );
    go.send(()).unwrap();
    assert_eq!(steps.recv().unwrap(), [1]);
    last.cancel();
    last.cancel();
    assert_eq!(code(collect(&last)), "CANCELLED");
    let finished = engine.generate(greedy(prompt(4, 3), 2)).unwrap();
    drop(go);
    let end = collect(&finished).unwrap();
    finished.cancel();
    assert_eq!(
        block_on(finished.next()).unwrap().finish,
        Some(end.1),
        "an end stays what it was"
    );
    drop(engine.logits(prompt(300, 0), vec![]).unwrap());
    let logits = engine.logits(prompt(300, 0), vec![]).unwrap();
    logits.canceller()();
    assert_eq!(code(block_on(logits.wait())), "CANCELLED");
    assert_eq!(
        collect(&engine.generate(greedy(prompt(4, 3), 2)).unwrap())
            .unwrap()
            .0,
        end.0
    );
}

#[test]
fn a_panic_breaks_the_engine_and_everybody_is_told() {
    let mut steps = 0;
    let hook = Box::new(move |_: &[Vec<u32>]| {
        steps += 1;
        assert!(steps < 4, "deliberate");
        Ok(())
    });
    let engine = Engine::start(
        Fake {
            hook,
            ..Default::default()
        },
        EngineOptions::default(),
    )
    .unwrap();
    let generation = engine.generate(greedy(prompt(4, 0), 50)).unwrap();
    let error = collect(&generation).unwrap_err();
    assert_eq!(error.code(), "ENGINE_FAILED");
    assert!(error.to_string().contains("deliberate"), "{error}");
    for _ in 0..2 {
        // Also a request that slips in between the panic and its being written down is answered.
        let later = engine.generate(greedy(prompt(4, 0), 5));
        let later = later
            .map_err(Arc::new)
            .and_then(|generation| collect(&generation));
        assert_eq!(code(later), "ENGINE_FAILED");
    }
    let logits = engine.logits(prompt(4, 0), vec![]).map_err(Arc::new);
    assert_eq!(
        code(logits.and_then(|pending| block_on(pending.wait()))),
        "ENGINE_FAILED"
    );
    engine.dispose();
    assert_eq!(
        code(engine.generate(greedy(prompt(4, 0), 5)).map_err(Arc::new)),
        "DISPOSED"
    );
}

#[test]
fn an_error_of_a_step_ends_its_sequences_and_nothing_else() {
    let mut failures = 1;
    let hook = Box::new(move |batch: &[Vec<u32>]| {
        if batch.iter().any(|tokens| tokens.len() == 33) && failures > 0 {
            failures -= 1;
            return Err(Error::OutOfMemory {
                purpose: "for a test".into(),
                needed: 2,
                available: 1,
                advice: "ask for less".into(),
            });
        }
        Ok(())
    });
    let engine = Engine::start(
        Fake {
            hook,
            ..Default::default()
        },
        EngineOptions::default(),
    )
    .unwrap();
    let request = greedy(prompt(33, 0), 5);
    assert_eq!(
        code(collect(&engine.generate(request.clone()).unwrap())),
        "OUT_OF_MEMORY"
    );
    let (tokens, finish) = collect(&engine.generate(request.clone()).unwrap()).unwrap();
    assert_eq!(tokens, reference(&request).0);
    assert_eq!(
        finish.cached_tokens, 0,
        "a state that a failed step left behind is not reused"
    );
}

#[test]
fn logits_that_are_no_numbers_end_one_answer_only() {
    let engine = Engine::start(
        Fake {
            poison: Some(59),
            ..Default::default()
        },
        EngineOptions::default(),
    )
    .unwrap();
    let fine = engine.generate(greedy(vec![1, 2, 3], 4)).unwrap();
    for temperature in [0.0, 1.0] {
        let mut request = greedy(vec![1, 2, 59], 4);
        request.sampling.temperature = temperature;
        assert_eq!(
            code(collect(&engine.generate(request).unwrap())),
            "NUMBERS_OVERFLOWED"
        );
    }
    assert!(collect(&fine).is_ok());
    assert!(collect(&engine.generate(greedy(vec![1, 2, 3], 4)).unwrap()).is_ok());
}

#[test]
fn dispose_waits_for_the_step_in_hand_and_may_be_called_by_many() {
    let (fake, steps, go) = gated();
    let alive = Arc::downgrade(&fake.alive);
    let engine = Engine::start(
        fake,
        EngineOptions {
            max_sequences: 1,
            ..Default::default()
        },
    )
    .unwrap();
    let in_work = engine.generate(greedy(prompt(30, 0), 5)).unwrap();
    let waiting = engine.generate(greedy(prompt(30, 0), 5)).unwrap();
    let logits = engine.logits(prompt(30, 0), vec![]).unwrap();
    steps.recv().unwrap();
    let disposed = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                engine.dispose();
                assert!(
                    alive.upgrade().is_none(),
                    "the model is gone when dispose returns"
                );
                *disposed.lock().unwrap() += 1;
            });
        }
        // Whichever thread closes first, from then on nothing new is taken.
        while engine.generate(greedy(prompt(3, 0), 5)).is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(*disposed.lock().unwrap(), 0);
        assert!(alive.upgrade().is_some());
        go.send(()).unwrap();
    });
    assert_eq!(*disposed.lock().unwrap(), 3);
    assert_eq!(code(collect(&in_work)), "DISPOSED");
    assert_eq!(code(collect(&waiting)), "DISPOSED");
    assert_eq!(code(block_on(logits.wait())), "DISPOSED");
    engine.dispose();
    assert_eq!(
        code(engine.logits(prompt(3, 0), vec![]).map_err(Arc::new)),
        "DISPOSED"
    );
}

#[test]
fn dropping_the_engine_ends_its_thread_by_itself() {
    let (ended, end) = mpsc::channel();
    struct Tell(mpsc::Sender<()>);
    impl Drop for Tell {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let tell = Tell(ended);
    let hook = Box::new(move |_: &[Vec<u32>]| {
        let _ = &tell;
        Ok(())
    });
    let engine = Engine::start(
        Fake {
            hook,
            ..Default::default()
        },
        EngineOptions::default(),
    )
    .unwrap();
    let generation = engine.generate(greedy(prompt(3, 0), 300)).unwrap();
    drop(engine);
    assert_eq!(code(collect(&generation)), "DISPOSED");
    end.recv().unwrap();
}

#[test]
fn requests_that_cannot_be_served_are_refused_at_once() {
    let engine = Engine::start(Fake::default(), EngineOptions::default()).unwrap();
    let refused = |request: Request| match engine.generate(request).map(|_| ()) {
        Err(Error::InvalidArgument { argument, .. }) => argument,
        Err(error) => error.code(),
        Ok(()) => "accepted",
    };
    let good = || greedy(prompt(10, 0), 3);
    assert_eq!(refused(good()), "accepted");
    assert_eq!(
        refused(Request {
            prompt: vec![],
            ..good()
        }),
        "prompt"
    );
    assert_eq!(
        refused(Request {
            prompt: vec![3, VOCAB as u32],
            ..good()
        }),
        "prompt"
    );
    assert_eq!(
        refused(Request {
            max_tokens: Some(0),
            ..good()
        }),
        "maxTokens"
    );
    assert_eq!(
        refused(Request {
            prompt: prompt(CONTEXT, 0),
            ..good()
        }),
        "CONTEXT_LENGTH_EXCEEDED"
    );
    assert_eq!(
        refused(Request {
            snapshot_at: vec![11],
            ..good()
        }),
        "snapshotAt"
    );
    assert_eq!(
        refused(Request {
            snapshot_at: vec![1; 17],
            ..good()
        }),
        "snapshotAt"
    );
    assert_eq!(
        refused(Request {
            end_tokens: Some(vec![61]),
            ignore_end: false,
            ..good()
        }),
        "endTokens"
    );
    let sampling = SamplerParams {
        temperature: f64::NAN,
        ..Default::default()
    };
    assert_eq!(refused(Request { sampling, ..good() }), "temperature");
    let refused = |tokens: Vec<u32>, positions: Vec<usize>| match engine
        .logits(tokens, positions)
        .map(|_| ())
    {
        Err(Error::InvalidArgument { argument, .. }) => argument,
        Err(error) => error.code(),
        Ok(()) => "accepted",
    };
    assert_eq!(refused(prompt(CONTEXT, 0), vec![]), "accepted");
    assert_eq!(refused(vec![], vec![]), "ids");
    assert_eq!(refused(vec![99], vec![]), "ids");
    assert_eq!(
        refused(prompt(CONTEXT + 1, 0), vec![]),
        "CONTEXT_LENGTH_EXCEEDED"
    );
    assert_eq!(refused(prompt(4, 0), vec![4]), "positions");
    assert_eq!(refused(prompt(4, 0), vec![2, 1]), "positions");
    assert_eq!(refused(prompt(4, 0), vec![1, 1]), "positions");

    let (tokens, finish) =
        collect(&engine.generate(greedy(prompt(CONTEXT - 2, 0), 50)).unwrap()).unwrap();
    assert_eq!(
        (tokens.len(), finish.reason),
        (2, FinishReason::Length),
        "cut where the context is full"
    );
}
