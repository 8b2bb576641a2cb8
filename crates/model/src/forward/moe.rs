//! The mixture of experts: which experts each row goes to, and rows grouped by expert.

use kernels::float::FloatFns;

/// An expert a token is sent to, and how much of its output the token takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Choice {
    pub(super) expert: u32,
    pub(super) weight: f32,
}

/// Chooses experts for one row: softmax over all `logits`, the largest `choices.len()` of them (ties to the lower index), their
/// weights renormalised. The choices come in ascending order of expert.
pub(super) fn choose(
    fns: &FloatFns,
    logits: &[f32],
    probabilities: &mut [f32],
    choices: &mut [Choice],
) {
    probabilities.copy_from_slice(logits);
    fns.softmax(probabilities);
    // Kept in descending order. A NaN (of a broken checkpoint) compares as not greater, so any experts stand.
    let mut found = 0;
    for (expert, &p) in probabilities.iter().enumerate() {
        let full = found == choices.len();
        if full && p.partial_cmp(&choices[found - 1].weight) != Some(std::cmp::Ordering::Greater) {
            continue;
        }
        let mut at = found.min(choices.len() - 1);
        while at > 0 && p > choices[at - 1].weight {
            choices[at] = choices[at - 1];
            at -= 1;
        }
        choices[at] = Choice {
            expert: expert as u32,
            weight: p,
        };
        found = choices.len().min(found + 1);
    }
    let total: f32 = choices.iter().map(|c| c.weight).sum::<f32>() + 1e-20;
    for choice in &mut *choices {
        choice.weight /= total;
    }
    choices.sort_unstable_by_key(|c| c.expert);
}

/// Rows grouped by expert. A *slot* is one (expert, row) pair; slots are ordered by expert, then row.
#[derive(Default)]
pub(super) struct Routing {
    /// Experts that have rows, in ascending order: expert, first slot, end of slots.
    pub(super) active: Vec<(usize, usize, usize)>,
    /// Row of each slot.
    pub(super) rows: Vec<u32>,
    /// Weight of each slot.
    pub(super) weights: Vec<f32>,
    starts: Vec<usize>,
}

impl Routing {
    /// Groups the choices of all rows, `[n][per_token]`.
    pub(super) fn group(&mut self, experts: usize, per_token: usize, choices: &[Choice]) {
        let Self {
            active,
            rows,
            weights,
            starts,
        } = self;
        starts.clear();
        starts.resize(experts + 1, 0);
        for choice in choices {
            starts[choice.expert as usize + 1] += 1;
        }
        active.clear();
        for expert in 0..experts {
            let count = starts[expert + 1];
            starts[expert + 1] += starts[expert];
            if count > 0 {
                active.push((expert, starts[expert], starts[expert + 1]));
            }
        }
        rows.clear();
        rows.resize(choices.len(), 0);
        weights.clear();
        weights.resize(choices.len(), 0.0);
        for (i, choice) in choices.iter().enumerate() {
            let slot = &mut starts[choice.expert as usize];
            rows[*slot] = (i / per_token) as u32;
            weights[*slot] = choice.weight;
            *slot += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::Kernels;

    fn chosen(logits: &[f32], k: usize) -> Vec<Choice> {
        let mut choices = vec![Choice::default(); k];
        choose(
            Kernels::detect().float(),
            logits,
            &mut vec![0.0; logits.len()],
            &mut choices,
        );
        choices
    }

    #[test]
    fn ties_go_to_the_lower_index_and_weights_sum_to_one() {
        let experts = |logits: &[f32], k| {
            chosen(logits, k)
                .iter()
                .map(|c| c.expert)
                .collect::<Vec<_>>()
        };
        assert_eq!(experts(&[1.0; 9], 3), [0, 1, 2]);
        assert_eq!(experts(&[0.0, 2.0, 1.0, 2.0, 1.0, 1.0], 4), [1, 2, 3, 4]);
        assert_eq!(experts(&[-5.0, -1.0, -5.0, 3.0], 1), [3]);
        assert_eq!(experts(&[3.0, 2.0, 1.0], 3), [0, 1, 2]);
        let choices = chosen(&[0.3, -1.0, 2.5, 0.3, 1.7, -0.2], 3);
        assert!((choices.iter().map(|c| c.weight).sum::<f32>() - 1.0).abs() < 1e-6);
        let ratio = f64::from(choices[1].weight) / f64::from(choices[0].weight);
        assert!((ratio - 2.2f64.exp()).abs() < 1e-4, "{ratio}");
    }

    #[test]
    fn not_a_number_still_names_real_experts() {
        for logits in [[f32::NAN; 5], [1.0, f32::NAN, 0.0, 2.0, f32::INFINITY]] {
            let choices = chosen(&logits, 2);
            assert!(
                choices[0].expert < choices[1].expert && choices[1].expert < 5,
                "{choices:?}"
            );
        }
    }

    #[test]
    fn slots_are_ordered_by_expert_then_row() {
        let choice = |expert, weight| Choice { expert, weight };
        let choices = [
            choice(1, 0.1),
            choice(4, 0.2),
            choice(0, 0.3),
            choice(4, 0.4),
            choice(1, 0.5),
            choice(3, 0.6),
        ];
        let mut routing = Routing::default();
        for _ in 0..2 {
            routing.group(6, 2, &choices);
            assert_eq!(routing.active, [(0, 0, 1), (1, 1, 3), (3, 3, 4), (4, 4, 6)]);
            assert_eq!(routing.rows, [1, 0, 2, 2, 0, 1]);
            assert_eq!(routing.weights, [0.3, 0.1, 0.5, 0.6, 0.2, 0.4]);
        }
    }
}
