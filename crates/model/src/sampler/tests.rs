use super::*;

fn all(logits: &[f32]) -> Candidates {
    Candidates {
        ids: (0..logits.len() as u32).collect(),
        logits: logits.to_vec(),
    }
}

fn seen(vocab: usize, ids: &[u32]) -> SeenTokens {
    let mut seen = SeenTokens::new(vocab);
    ids.iter().for_each(|&id| seen.insert(id));
    seen
}

fn plain(temperature: f64) -> SamplerParams {
    SamplerParams {
        temperature,
        top_k: 0,
        top_p: 1.0,
        repetition_penalty: 1.0,
        seed: 9,
    }
}

/// How often each token is drawn over many positions.
fn counts(logits: &[f32], params: &SamplerParams, seen: &SeenTokens) -> Vec<usize> {
    let mut counts = vec![0; logits.len()];
    for position in 0..20_000 {
        counts[sample(&all(logits), params, seen, position).unwrap() as usize] += 1;
    }
    counts
}

/// The expected counts, straight from the definition: a slow twin of the whole chain.
fn expected(logits: &[f32], params: &SamplerParams, seen: &SeenTokens) -> Vec<f64> {
    let mut scored: Vec<(usize, f64)> = logits
        .iter()
        .map(|&logit| f64::from(logit))
        .enumerate()
        .collect();
    for (id, score) in &mut scored {
        if seen.contains(*id as u32) {
            *score = if *score > 0.0 {
                *score / params.repetition_penalty
            } else {
                *score * params.repetition_penalty
            };
        }
        *score /= params.temperature;
    }
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if params.top_k > 0 {
        scored.truncate(params.top_k);
    }
    let top = scored[0].1;
    let total: f64 = scored.iter().map(|(_, score)| (score - top).exp()).sum();
    let mut mass = 0.0;
    let mut kept = Vec::new();
    for (id, score) in scored {
        kept.push((id, (score - top).exp() / total));
        mass += (score - top).exp() / total;
        if mass >= params.top_p {
            break;
        }
    }
    let mut counts = vec![0.0; logits.len()];
    for (id, share) in kept {
        counts[id] = 20_000.0 * share / mass;
    }
    counts
}

#[test]
fn draws_follow_the_distribution_of_the_definition() {
    let logits: Vec<f32> = (0..100)
        .map(|i| ((i * 37) % 23) as f32 / 4.0 - 2.0)
        .collect();
    let none = seen(100, &[]);
    let some = seen(100, &[3, 5, 8, 22, 41, 99]);
    for (params, seen) in [
        (plain(1.0), &none),
        (plain(0.3), &none),
        (
            SamplerParams {
                top_k: 7,
                ..plain(1.0)
            },
            &none,
        ),
        (
            SamplerParams {
                top_p: 0.5,
                ..plain(1.0)
            },
            &none,
        ),
        (
            SamplerParams {
                top_p: 0.93,
                ..plain(2.0)
            },
            &none,
        ), // needs more than the first 64 ranks
        (
            SamplerParams {
                top_k: 12,
                top_p: 0.6,
                ..plain(0.8)
            },
            &none,
        ),
        (
            SamplerParams {
                repetition_penalty: 1.7,
                ..plain(1.0)
            },
            &some,
        ),
        (
            SamplerParams {
                repetition_penalty: 0.5,
                top_k: 9,
                top_p: 0.8,
                ..plain(0.7)
            },
            &some,
        ),
    ] {
        let counts = counts(&logits, &params, seen);
        for (id, (&found, wanted)) in counts
            .iter()
            .zip(expected(&logits, &params, seen))
            .enumerate()
        {
            // Five standard deviations of a binomial count; the seed is fixed, so this passes always or never.
            let bound = 5.0 * wanted.sqrt();
            assert!(
                (found as f64 - wanted).abs() <= bound,
                "{params:?}: token {id} drawn {found}, expected {wanted}"
            );
        }
    }
}

#[test]
fn greedy_is_the_largest_and_of_equals_the_lowest_id() {
    let params = SamplerParams {
        top_p: 0.1,
        seed: 4,
        ..plain(0.0)
    };
    let none = seen(8, &[]);
    assert_eq!(
        sample(&all(&[1.0, 3.0, 3.0, 2.0]), &params, &none, 0),
        Some(1)
    );
    assert_eq!(sample(&all(&[-0.0, 0.0]), &params, &none, 0), Some(0));
    assert_eq!(
        sample(
            &all(&[0.0, 1.0]),
            &SamplerParams {
                temperature: -0.0,
                ..params
            },
            &none,
            0
        ),
        Some(1)
    );
}

#[test]
fn ties_at_the_edge_of_top_k_go_to_the_lower_ids() {
    let params = SamplerParams {
        top_k: 3,
        ..plain(1.0)
    };
    let counts = counts(&[1.0, 2.0, 1.0, 1.0, 1.0], &params, &seen(5, &[]));
    assert!(counts[0] > 0 && counts[1] > 0 && counts[2] > 0);
    assert_eq!((counts[3], counts[4]), (0, 0));
}

#[test]
fn a_penalty_moves_logits_of_either_sign_down() {
    let greedy = SamplerParams {
        repetition_penalty: 2.0,
        ..plain(0.0)
    };
    assert_eq!(
        sample(&all(&[3.0, 2.0]), &greedy, &seen(2, &[0]), 0),
        Some(1)
    );
    assert_eq!(
        sample(&all(&[-1.0, -1.5]), &greedy, &seen(2, &[0]), 0),
        Some(1)
    );
    let raise = SamplerParams {
        repetition_penalty: 0.5,
        ..plain(0.0)
    };
    assert_eq!(
        sample(&all(&[2.0, 3.0]), &raise, &seen(2, &[0]), 0),
        Some(0)
    );
}

#[test]
fn what_is_not_a_number_is_never_chosen() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let none = seen(4, &[]);
    for temperature in [0.0, 1e-300, 0.7, 1e300] {
        let params = SamplerParams {
            top_p: 0.9,
            ..plain(temperature)
        };
        for position in 0..50 {
            assert_eq!(
                sample(&all(&[nan, -inf, 1.0, nan]), &params, &none, position),
                Some(2)
            );
            assert_eq!(sample(&all(&[nan, -inf]), &params, &none, position), None);
            assert_eq!(
                sample(&all(&[1e38, inf, -inf, 5.0]), &params, &none, position),
                Some(1)
            );
        }
    }
    assert_eq!(sample(&all(&[]), &plain(1.0), &none, 0), None);
}

#[test]
fn extremes_of_the_parameters_hold() {
    let logits = [0.5, 2.0, 1.9999, -3.0];
    let none = seen(4, &[]);
    let always = |params: SamplerParams| {
        let counts = counts(&logits, &params, &none);
        counts[1] == 20_000
    };
    assert!(always(plain(1e-9)));
    assert!(always(plain(f64::MIN_POSITIVE)));
    assert!(always(SamplerParams {
        top_p: f64::MIN_POSITIVE,
        ..plain(1.0)
    }));
    assert!(always(SamplerParams {
        top_k: 1,
        ..plain(5.0)
    }));
    let flat = counts(
        &logits,
        &SamplerParams {
            top_k: usize::MAX,
            ..plain(1e300)
        },
        &none,
    );
    assert!(
        flat.iter().all(|&count| (4_500..5_500).contains(&count)),
        "{flat:?}"
    );
}

#[test]
fn the_choice_does_not_depend_on_how_the_candidates_come() {
    let logits: Vec<f32> = (0..500).map(|i| ((i * 7919) % 101) as f32 / 9.0).collect();
    let params = SamplerParams {
        repetition_penalty: 1.3,
        top_k: 20,
        top_p: 0.9,
        temperature: 0.9,
        seed: 77,
    };
    let seen = seen(500, &[1, 100, 200, 499]);
    let mut ranked: Vec<u32> = (0..500).collect();
    ranked.sort_by(|&a, &b| {
        logits[b as usize]
            .total_cmp(&logits[a as usize])
            .then(a.cmp(&b))
    });
    // What a backend's top_k gives: the best unpenalised ones and all penalised ones.
    let mut few: Vec<u32> = ranked
        .iter()
        .copied()
        .filter(|&id| !seen.contains(id))
        .take(20)
        .collect();
    few.extend(seen.ids());
    let few = Candidates {
        logits: few.iter().map(|&id| logits[id as usize]).collect(),
        ids: few,
    };
    for position in 0..2000 {
        let chosen = sample(&all(&logits), &params, &seen, position);
        assert_eq!(sample(&few, &params, &seen, position), chosen);
    }
}

#[test]
fn seeds_and_positions_give_independent_looking_numbers() {
    let mut means = Vec::new();
    for seed in [0, 1, 2, u64::MAX, 1 << 53] {
        let numbers: Vec<f64> = (0..10_000)
            .map(|position| uniform(seed, position))
            .collect();
        assert!(numbers.iter().all(|u| (0.0..1.0).contains(u)));
        assert_eq!(
            numbers,
            (0..10_000)
                .map(|position| uniform(seed, position))
                .collect::<Vec<_>>()
        );
        means.push(numbers.iter().sum::<f64>() / 10_000.0);
        let neighbours: f64 = numbers
            .windows(2)
            .map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5))
            .sum::<f64>()
            / 10_000.0;
        assert!(neighbours.abs() < 0.005, "{neighbours}");
    }
    assert!(
        means.iter().all(|mean| (mean - 0.5).abs() < 0.015),
        "{means:?}"
    );
    assert!((0..1000).all(|position| uniform(5, position) != uniform(6, position)));
}

#[test]
fn impossible_parameters_are_refused_by_name() {
    let refused = |params: SamplerParams| match params.validate() {
        Err(Error::InvalidArgument { argument, .. }) => argument,
        other => panic!("{params:?}: {other:?}"),
    };
    for temperature in [-0.1, f64::NAN, f64::INFINITY] {
        assert_eq!(
            refused(SamplerParams {
                temperature,
                ..plain(1.0)
            }),
            "temperature"
        );
    }
    for top_p in [0.0, -1.0, 1.0001, f64::NAN] {
        assert_eq!(
            refused(SamplerParams {
                top_p,
                ..plain(1.0)
            }),
            "topP"
        );
    }
    for repetition_penalty in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(
            refused(SamplerParams {
                repetition_penalty,
                ..plain(1.0)
            }),
            "repetitionPenalty"
        );
    }
    assert!(SamplerParams::default().validate().is_ok());
    assert!(plain(-0.0).validate().is_ok());
}
