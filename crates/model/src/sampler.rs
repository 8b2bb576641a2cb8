//! From logits to a token: repetition penalty, temperature, top-k, top-p, draw, in this order.
//!
//! Sampling is a pure function of the candidates, the parameters, the seed and the position: there is no generator
//! state to carry along, so an answer cannot depend on what else the engine does, nor on how often a step is repeated.
//! Probabilities are `f64` with an exponential that does not depend on the machine's C library.

use crate::backend::Candidates;
use crate::error::{Error, Result};

/// How the next token is chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerParams {
    /// Divides the logits; 0 picks the likeliest token whatever else is set.
    pub temperature: f64,
    /// Keep this many of the likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the smallest set of the likeliest tokens whose mass reaches this; in (0, 1].
    pub top_p: f64,
    /// Tokens of prompt and answer: positive logits are divided by it, others multiplied; 1 changes nothing.
    pub repetition_penalty: f64,
    /// Two answers with the same seed draw the same numbers.
    pub seed: u64,
}

impl Default for SamplerParams {
    fn default() -> Self {
        SamplerParams {
            temperature: 0.6,
            top_k: 20,
            top_p: 0.95,
            repetition_penalty: 1.0,
            seed: 0,
        }
    }
}

impl SamplerParams {
    /// Refuses what no sampling can be done with, naming the parameter.
    pub fn validate(&self) -> Result<()> {
        let refuse = |argument, expected: &str, found: f64| {
            Err(Error::InvalidArgument {
                argument,
                expected: expected.into(),
                found: found.to_string(),
            })
        };
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return refuse("temperature", "a number of at least 0", self.temperature);
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return refuse("topP", "above 0 and at most 1", self.top_p);
        }
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite()) {
            return refuse(
                "repetitionPenalty",
                "a number above 0",
                self.repetition_penalty,
            );
        }
        Ok(())
    }

    /// How many of the likeliest unpenalised tokens must be known to sample; `None` when all of them are.
    pub fn candidates_needed(&self) -> Option<usize> {
        if self.temperature == 0.0 {
            Some(1)
        } else if self.top_k > 0 {
            Some(self.top_k)
        } else {
            None
        }
    }

    /// Whether tokens seen before are treated differently.
    pub fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0
    }
}

/// The distinct tokens of a sequence so far.
#[derive(Debug, Clone)]
pub struct SeenTokens {
    bits: Vec<u64>,
    ids: Vec<u32>,
}

impl SeenTokens {
    /// Nothing seen; ids must be below `vocab_size`.
    pub fn new(vocab_size: usize) -> Self {
        SeenTokens {
            bits: vec![0; vocab_size.div_ceil(64)],
            ids: Vec::new(),
        }
    }

    /// Adds a token.
    pub fn insert(&mut self, id: u32) {
        if !self.contains(id) {
            self.bits[id as usize / 64] |= 1 << (id % 64);
            self.ids.push(id);
        }
    }

    /// Whether the token has been seen.
    pub fn contains(&self, id: u32) -> bool {
        self.bits
            .get(id as usize / 64)
            .is_some_and(|word| word >> (id % 64) & 1 == 1)
    }

    /// The tokens, each once, in order of first appearance.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u32,
    /// The logit, penalised and divided by the temperature; never NaN.
    score: f64,
    weight: f64,
}

/// Likelier first; of equals the lower id.
fn by_rank(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.score.total_cmp(&a.score).then(a.id.cmp(&b.id))
}

/// Chooses the token at `position` (the index it will have in its sequence). `candidates` must hold at least the
/// [needed](SamplerParams::candidates_needed) ones and every seen token where the parameters penalise. `None` when not
/// one logit is a number above negative infinity.
pub fn sample(
    candidates: &Candidates,
    params: &SamplerParams,
    seen: &SeenTokens,
    position: usize,
) -> Option<u32> {
    let greedy = params.temperature == 0.0;
    let mut kept: Vec<Candidate> = Vec::with_capacity(candidates.ids.len());
    for (&id, &logit) in candidates.ids.iter().zip(&candidates.logits) {
        let mut score = f64::from(logit);
        if params.penalises() && seen.contains(id) {
            score = if score > 0.0 {
                score / params.repetition_penalty
            } else {
                score * params.repetition_penalty
            };
        }
        // A logit that is not a number says nothing about its token, so the token cannot be chosen. Adding zero makes
        // -0 and 0 one value, so that they tie.
        if !score.is_nan() && score > f64::NEG_INFINITY {
            kept.push(Candidate {
                id,
                score: score + 0.0,
                weight: 0.0,
            });
        }
    }
    if greedy {
        return kept.iter().min_by(|a, b| by_rank(a, b)).map(|best| best.id);
    }
    if params.top_k > 0 && params.top_k < kept.len() {
        kept.select_nth_unstable_by(params.top_k - 1, by_rank);
        kept.truncate(params.top_k);
    }
    // Sums run in the order of the ids, so they do not depend on the order the candidates came in.
    kept.sort_unstable_by_key(|candidate| candidate.id);
    let best = kept
        .iter()
        .map(|candidate| candidate.score)
        .fold(f64::NEG_INFINITY, f64::max);
    for candidate in &mut kept {
        candidate.weight = if candidate.score == best {
            1.0 // also where both are infinite or the temperature is tiny
        } else {
            libm::exp((candidate.score - best) / params.temperature)
        };
    }
    if params.top_p < 1.0 {
        keep_mass(&mut kept, params.top_p);
    }
    draw(&kept, uniform(params.seed, position as u64))
}

/// Keeps the smallest set of the likeliest candidates whose weight reaches `top_p` of the whole. `kept` comes and
/// leaves sorted by id.
fn keep_mass(kept: &mut Vec<Candidate>, top_p: f64) {
    let wanted = top_p * kept.iter().map(|candidate| candidate.weight).sum::<f64>();
    // Ranks only as many as it turns out to need: with top-k off there may be 150,000, of which a few hundred matter.
    let mut ranked = 0;
    let mut mass = 0.0;
    while ranked < kept.len() {
        let more = (ranked * 7).max(64).min(kept.len() - ranked);
        let rest = &mut kept[ranked..];
        if more < rest.len() {
            rest.select_nth_unstable_by(more - 1, by_rank);
        }
        rest[..more].sort_unstable_by(by_rank);
        for candidate in &rest[..more] {
            mass += candidate.weight;
            ranked += 1;
            if mass >= wanted {
                kept.truncate(ranked);
                kept.sort_unstable_by_key(|candidate| candidate.id);
                return;
            }
        }
    }
    kept.sort_unstable_by_key(|candidate| candidate.id);
}

/// The candidate at the fraction `at` of the whole weight; `at` in [0, 1).
fn draw(kept: &[Candidate], at: f64) -> Option<u32> {
    let target = at * kept.iter().map(|candidate| candidate.weight).sum::<f64>();
    let mut sum = 0.0;
    let mut last = None;
    for candidate in kept.iter().filter(|candidate| candidate.weight > 0.0) {
        sum += candidate.weight;
        last = Some(candidate.id);
        if sum > target {
            break;
        }
    }
    last
}

/// A number in [0, 1) that depends on seed and position only: SplitMix64's output function (Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", 2014) over the position, keyed by the mixed seed.
fn uniform(seed: u64, position: u64) -> f64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    fn mix(mut z: u64) -> u64 {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    let key = mix(seed.wrapping_add(GOLDEN));
    let bits = mix(key.wrapping_add(position.wrapping_add(1).wrapping_mul(GOLDEN)));
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;
