//! Which rows go into the next step.
//!
//! Sequences that decode come first, one row each: somebody is reading them. What room is left goes to prompts, shared
//! evenly so that a short prompt does not wait behind a long one. While anybody decodes, the room for prompts is small,
//! so that the readers' tokens keep coming. None of this changes any result.

use std::time::Duration;

/// Rows a step may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLimits {
    /// In all. Larger steps use a prompt's weights better and take longer before anything else gets its turn.
    pub rows: usize,
    /// For prompts while other sequences decode.
    pub prefill_rows_beside_decode: usize,
}

impl Default for StepLimits {
    fn default() -> Self {
        StepLimits {
            rows: 512,
            prefill_rows_beside_decode: 128,
        }
    }
}

/// How long a step with prompts in it should take at most: cancelling, disposing and other requests wait for it.
const STEP_TIME: Duration = Duration::from_secs(2);
/// The same while other sequences decode.
const STEP_TIME_BESIDE_DECODE: Duration = Duration::from_millis(400);
/// Steps are not made smaller than this, however slow the machine: most of their time would go into reading weights.
const LEAST_ROWS: usize = 64;

/// Keeps steps short on slow machines, going by how long the last large one took.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    rows_per_second: Option<f64>,
}

impl Pace {
    /// Takes note of a step.
    pub(crate) fn note(&mut self, rows: usize, took: Duration) {
        // Small steps say little: they take almost as long as larger ones.
        if rows >= LEAST_ROWS {
            self.rows_per_second = Some(rows as f64 / took.as_secs_f64().max(1e-6));
        }
    }

    /// The limits for the next step: those given, or less.
    pub(crate) fn limits(&self, given: StepLimits) -> StepLimits {
        let Some(rows_per_second) = self.rows_per_second else {
            return given;
        };
        let within = |time: Duration| (rows_per_second * time.as_secs_f64()) as usize;
        StepLimits {
            rows: given.rows.min(within(STEP_TIME).max(LEAST_ROWS)),
            prefill_rows_beside_decode: given
                .prefill_rows_beside_decode
                .min(within(STEP_TIME_BESIDE_DECODE).max(LEAST_ROWS)),
        }
    }
}

/// How many rows each sequence gets, from how many each has ready (0: it must wait). A sequence with one row ready is
/// decoding, or at the last token of its prompt, which is the same.
pub(crate) fn plan(ready: &[usize], limits: StepLimits) -> Vec<usize> {
    let mut rows = vec![0; ready.len()];
    let mut room = limits.rows.max(1);
    for (rows, &ready) in rows.iter_mut().zip(ready) {
        if ready == 1 && room > 0 {
            *rows = 1;
            room -= 1;
        }
    }
    if room < limits.rows {
        room = room.min(limits.prefill_rows_beside_decode);
    }
    let mut prompts: Vec<usize> = (0..ready.len()).filter(|&index| ready[index] > 1).collect();
    // Shortest first, so that what a short one leaves of its share falls to the longer ones. The sort is stable:
    // of equals, the one that came first.
    prompts.sort_by_key(|&index| ready[index]);
    let mut left = prompts.len();
    for index in prompts {
        let share = room.div_ceil(left);
        rows[index] = ready[index].min(share);
        room -= rows[index];
        left -= 1;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StepLimits = StepLimits {
        rows: 16,
        prefill_rows_beside_decode: 6,
    };

    #[test]
    fn steps_shrink_on_a_slow_machine_and_grow_again() {
        let given = StepLimits::default();
        let mut pace = Pace::default();
        assert_eq!(pace.limits(given), given);
        pace.note(1, Duration::from_secs(9));
        assert_eq!(pace.limits(given), given, "a small step says nothing");
        pace.note(512, Duration::from_secs(4));
        let slow = StepLimits {
            rows: 256,
            prefill_rows_beside_decode: 64,
        };
        assert_eq!(pace.limits(given), slow);
        pace.note(256, Duration::from_secs(100));
        let slowest = StepLimits {
            rows: 64,
            prefill_rows_beside_decode: 64,
        };
        assert_eq!(pace.limits(given), slowest);
        pace.note(64, Duration::ZERO);
        assert_eq!(pace.limits(given), given);
        let small = StepLimits {
            rows: 7,
            prefill_rows_beside_decode: 3,
        };
        pace.note(64, Duration::from_secs(100));
        assert_eq!(pace.limits(small), small, "never more than given");
    }

    #[test]
    fn a_prompt_alone_fills_the_step() {
        assert_eq!(plan(&[100], LIMITS), [16]);
        assert_eq!(plan(&[9], LIMITS), [9]);
    }

    #[test]
    fn decoding_goes_first_and_narrows_the_room_for_prompts() {
        assert_eq!(plan(&[100, 1, 0, 1], LIMITS), [6, 1, 0, 1]);
    }

    #[test]
    fn prompts_share_evenly_and_short_ones_leave_their_rest() {
        assert_eq!(plan(&[100, 100], LIMITS), [8, 8]);
        assert_eq!(plan(&[100, 3, 100], LIMITS), [7, 3, 6]);
    }

    #[test]
    fn every_plan_respects_room_and_readiness_and_makes_progress() {
        for seed in 0..2000u64 {
            let mut state = seed;
            let mut next = |below: u64| {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (state >> 33) % below
            };
            let ready: Vec<usize> = (0..next(9))
                .map(|_| next(4) as usize * next(20) as usize / 2)
                .collect();
            let limits = StepLimits {
                rows: 1 + next(20) as usize,
                prefill_rows_beside_decode: 1 + next(9) as usize,
            };
            let rows = plan(&ready, limits);
            assert!(
                rows.iter().sum::<usize>() <= limits.rows,
                "{ready:?} {limits:?} {rows:?}"
            );
            assert!(
                rows.iter().zip(&ready).all(|(rows, ready)| rows <= ready),
                "{ready:?} {limits:?} {rows:?}"
            );
            assert_eq!(
                ready.iter().any(|&r| r > 0),
                rows.iter().any(|&r| r > 0),
                "{ready:?} {limits:?} {rows:?}"
            );
        }
    }
}
