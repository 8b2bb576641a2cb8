//! The output head: all logits, or exactly the largest few.
//!
//! A float head is large (hundreds of megabytes a token), so the largest logits are found in two steps. The first reads a copy of
//! the head rounded to eight bits, which gives every logit to within a bound; the second computes, from the source rows, only those
//! logits that can still be among the largest. The bound holds for every input, so the result is that of the full head.

use std::sync::Mutex;

use kernels::{Dense, DenseData, Kernels, Mat, Precision, Rows, STRIP, strip_product};

use super::scratch::{Disjoint, PRODUCT_ROWS};
use crate::backend::Candidates;
use crate::pool::{Panicked, Pool};
use crate::weights::Weights;

/// Rows of the head that are looked at together in the second step.
const SCAN_ROWS: usize = 1024;

/// How the largest logits were found, summed over all steps so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadCounts {
    /// Steps that read the rounded head first.
    pub screened_steps: u64,
    /// Rows they then computed from the source.
    pub refined_rows: u64,
    /// Steps that read the whole head.
    pub full_steps: u64,
}

/// Inputs and results of the head, kept between steps.
pub(super) struct Head {
    /// Some hidden rows, for all logits.
    rows: Rows,
    /// One hidden row in 15 bits, for the rounded head.
    screened: Rows,
    logits: Vec<f32>,
    /// Bit `id` is set for ids that are left out of the largest.
    excluded: Vec<u64>,
    iota: Vec<u32>,
    pub(super) counts: HeadCounts,
}

impl Head {
    pub(super) fn new(weights: &Weights, precision: Precision) -> Self {
        let config = &weights.config;
        let screened = usize::from(weights.screen.is_some());
        Self {
            rows: Rows::new(PRODUCT_ROWS, config.hidden, precision),
            screened: Rows::new(screened, config.hidden, Precision::Int16),
            logits: vec![0.0; config.vocab],
            excluded: vec![0; config.vocab.div_ceil(64)],
            iota: (0..PRODUCT_ROWS as u32).collect(),
            counts: HeadCounts::default(),
        }
    }

    /// Logits of some hidden rows, `[n][hidden]` to `[n][vocab]`.
    pub(super) fn logits(
        &mut self,
        weights: &Weights,
        kernels: &Kernels,
        pool: &mut Pool,
        hidden: &[f32],
        out: &mut [f32],
    ) -> Result<(), Panicked> {
        let (width, vocab) = (weights.config.hidden, weights.config.vocab);
        let head = weights.head_matrix().view();
        for (hidden, out) in hidden
            .chunks(PRODUCT_ROWS * width)
            .zip(out.chunks_mut(PRODUCT_ROWS * vocab))
        {
            let n = hidden.len() / width;
            self.rows.set_len(n);
            for (r, hidden) in hidden.chunks_exact(width).enumerate() {
                self.rows.row_mut(r).copy_from_slice(hidden);
                self.rows.quantize(kernels, r);
            }
            let (rows, idx, out) = (&self.rows, &self.iota[..n], Disjoint::new(out));
            pool.run(&|worker| {
                let mut logits = vec![0.0; n * STRIP];
                worker.phase(head.strips(), |strip| {
                    strip_product(kernels, &head, strip, rows, idx, &mut logits);
                    let count = STRIP.min(vocab - strip * STRIP);
                    for (r, logits) in logits.chunks_exact(STRIP).enumerate() {
                        // SAFETY: each strip has one unit, and strips are different columns.
                        let out = unsafe { out.part_mut(r * vocab + strip * STRIP, count) };
                        out.copy_from_slice(&logits[..count]);
                    }
                });
            })?;
        }
        Ok(())
    }

    /// The exact logits of all `included` ids and of the `k` largest among the others; of equal ones the lower id wins.
    pub(super) fn top_k(
        &mut self,
        weights: &Weights,
        kernels: &Kernels,
        pool: &mut Pool,
        hidden: &[f32],
        k: usize,
        included: &[u32],
    ) -> Result<Candidates, Panicked> {
        for &id in included {
            self.excluded[id as usize / 64] |= 1 << (id % 64);
        }
        let found = match Screen::new(weights, hidden) {
            Some(screen) => self.screened(&screen, kernels, pool, hidden, k, included),
            None => self.full(weights, kernels, pool, hidden, k, included),
        };
        for &id in included {
            self.excluded[id as usize / 64] = 0;
        }
        found
    }

    fn full(
        &mut self,
        weights: &Weights,
        kernels: &Kernels,
        pool: &mut Pool,
        hidden: &[f32],
        k: usize,
        included: &[u32],
    ) -> Result<Candidates, Panicked> {
        self.counts.full_steps += 1;
        let mut logits = std::mem::take(&mut self.logits);
        let done = self.logits(weights, kernels, pool, hidden, &mut logits);
        self.logits = logits;
        done?;
        let mut largest = Largest::new(k);
        for (id, &logit) in self.logits.iter().enumerate() {
            if largest.wants(logit) && self.excluded[id / 64] >> (id % 64) & 1 == 0 {
                largest.push(logit, id as u32);
            }
        }
        let exact = included
            .iter()
            .map(|&id| (self.logits[id as usize], id))
            .collect();
        Ok(candidates(largest.finish(), exact))
    }

    fn screened(
        &mut self,
        screen: &Screen<'_>,
        kernels: &Kernels,
        pool: &mut Pool,
        hidden: &[f32],
        k: usize,
        included: &[u32],
    ) -> Result<Candidates, Panicked> {
        for rows in [&mut self.screened, &mut self.rows] {
            rows.set_len(1);
            rows.row_mut(0).copy_from_slice(hidden);
            rows.quantize(kernels, 0);
        }
        let vocab = screen.source.rows;
        let (screened, row) = (&self.screened, &self.rows);
        let rounded = Disjoint::new(&mut self.logits);
        let is_excluded = |id: usize| self.excluded[id / 64] >> (id % 64) & 1 == 1;
        let lower: Vec<Mutex<Largest>> = (0..pool.threads())
            .map(|_| Mutex::new(Largest::new(k)))
            .collect();
        let results: Mutex<Vec<(f32, u32)>> = Mutex::new(Vec::new());
        let exact: Mutex<Vec<(f32, u32)>> = Mutex::new(Vec::new());
        let refined = std::sync::atomic::AtomicUsize::new(0);
        let lock = |at: usize| {
            lower[at]
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        };
        pool.run(&|worker| {
            let mut out = [0.0; STRIP];
            let mut largest = lock(worker.index());
            worker.phase(screen.rounded.strips(), |strip| {
                strip_product(kernels, &screen.rounded, strip, screened, &[0], &mut out);
                let first = strip * STRIP;
                let count = STRIP.min(vocab - first);
                // SAFETY: each strip has one unit.
                unsafe { rounded.part_mut(first, count) }.copy_from_slice(&out[..count]);
                for (id, &logit) in (first..).zip(&out[..count]) {
                    let at_least = logit - screen.bound(id);
                    if largest.wants(at_least) && !is_excluded(id) {
                        largest.push(at_least, id as u32);
                    }
                }
            });
            drop(largest);
            worker.barrier();
            // The k-th largest lower bound: k rows are at least that, so whatever cannot reach it is not among the k.
            let mut all = Largest::new(k);
            for at in 0..worker.threads() {
                lock(at)
                    .items
                    .iter()
                    .for_each(|&(logit, id)| all.push(logit, id));
            }
            let threshold = all.kth();
            let mut largest = Largest::new(k);
            let mut count = 0;
            let mut wanted = Vec::new();
            let scans = vocab.div_ceil(SCAN_ROWS);
            worker.phase(scans + included.len().div_ceil(STRIP), |unit| {
                if unit >= scans {
                    for &id in included.iter().skip((unit - scans) * STRIP).take(STRIP) {
                        wanted.push((screen.exact(kernels, row, id as usize), id));
                    }
                    return;
                }
                let first = unit * SCAN_ROWS;
                // SAFETY: only read since the last barrier.
                let logits = unsafe { rounded.part(first, SCAN_ROWS.min(vocab - first)) };
                for (id, &logit) in (first..).zip(logits) {
                    if logit + screen.bound(id) >= threshold && !is_excluded(id) {
                        largest.push(screen.exact(kernels, row, id), id as u32);
                        count += 1;
                    }
                }
            });
            refined.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
            results
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .extend(largest.finish());
            exact
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .extend(wanted);
        })?;
        self.counts.screened_steps += 1;
        self.counts.refined_rows += refined.into_inner() as u64;
        let mut largest = Largest::new(k);
        for (logit, id) in results
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
        {
            largest.push(logit, id);
        }
        let exact = exact
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(candidates(largest.finish(), exact))
    }
}

fn candidates(largest: Vec<(f32, u32)>, exact: Vec<(f32, u32)>) -> Candidates {
    let (logits, ids) = largest.into_iter().chain(exact).unzip();
    Candidates { ids, logits }
}

/// The rounded head beside its source, with what bounds the difference for one hidden row.
struct Screen<'a> {
    rounded: Mat<'a>,
    source: Dense<'a>,
    scales: &'a [f32],
    error_norms: &'a [f32],
    /// Bound per unit of a row's error norm, and per unit of its scale.
    per_error: f32,
    per_scale: f32,
}

impl<'a> Screen<'a> {
    /// `None` where the weights have no screen, or no bound can be given for `hidden`.
    ///
    /// With `w = s c + e` (codes `c`, `|c_i| <= 127`, and `|e|` known), `x = y + d` (`y` the quantised row), the rounded logit is
    /// `s c . y` and the full head's is `w . x`, both up to the rounding of their own arithmetic. So they differ by at most
    /// `|e| |x| + s |c| |d|` plus those roundings, where `|c| <= 127 sqrt(n)` and `|d| <= sqrt(n) / 2` quantisation steps.
    fn new(weights: &'a Weights, hidden: &[f32]) -> Option<Self> {
        let screen = weights.screen.as_ref()?;
        let (rounded, Mat::Dense(source)) = (screen.rows.view(), weights.head_matrix().view())
        else {
            return None;
        };
        let Mat::Int8(codes) = rounded else {
            return None;
        };
        let n = hidden.len() as f64;
        let largest = hidden.iter().fold(0f64, |m, x| {
            if x.is_nan() {
                f64::NAN
            } else {
                m.max(f64::from(x.abs()))
            }
        });
        let norm = hidden
            .iter()
            .map(|x| f64::from(*x) * f64::from(*x))
            .sum::<f64>()
            .sqrt();
        // Tiny rows are quantised to nothing, and an overflow bounds nothing.
        if !(1e-20..1e20).contains(&largest) || !norm.is_finite() {
            return None;
        }
        let epsilon = f64::from(f32::EPSILON);
        // The full head adds at most n / 32 products in a row, then a tree of 32 sums.
        let gamma = (n / 32.0 + 16.0) * epsilon;
        let step = largest / f64::from(kernels::INT16_MAX);
        let quantised = 127.0 * n.sqrt() * (n.sqrt() * 0.51 * step);
        // The rounded logit's own arithmetic: a few roundings of sums no larger than 127 n max|x| (either plane's included).
        let arithmetic = 8.0 * epsilon * 127.0 * n * largest;
        let source_arithmetic = gamma * 127.0 * n.sqrt() * norm;
        let margin = 1.001;
        Some(Self {
            rounded,
            source,
            scales: codes.scales,
            error_norms: screen.error_norms.as_f32(),
            per_error: (margin * norm * (1.0 + gamma)) as f32,
            per_scale: (margin * (quantised + arithmetic + source_arithmetic)) as f32,
        })
    }

    /// How far the rounded logit of `id` may be from the full head's.
    #[inline]
    fn bound(&self, id: usize) -> f32 {
        self.error_norms[id] * self.per_error + self.scales[id] * self.per_scale
    }

    /// The full head's logit of `id`, computed as the full head does.
    fn exact(&self, kernels: &Kernels, row: &Rows, id: usize) -> f32 {
        let cols = self.source.cols;
        let at = id * cols..(id + 1) * cols;
        let data = match self.source.data {
            DenseData::Bf16(values) => DenseData::Bf16(&values[at]),
            DenseData::F16(values) => DenseData::F16(&values[at]),
            DenseData::F32(values) => DenseData::F32(&values[at]),
        };
        let mut out = [0.0; STRIP];
        strip_product(
            kernels,
            &Mat::Dense(Dense {
                rows: 1,
                cols,
                data,
            }),
            0,
            row,
            &[0],
            &mut out,
        );
        out[0]
    }
}

/// Keeps the `k` largest of what is pushed; of equal values the lower id. NaN counts as less than everything.
struct Largest {
    k: usize,
    items: Vec<(f32, u32)>,
    /// Nothing below this is among the k.
    floor: f32,
}

fn order(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    let key = |x: f32| if x.is_nan() { f32::NEG_INFINITY } else { x };
    key(b.0).total_cmp(&key(a.0)).then(a.1.cmp(&b.1))
}

impl Largest {
    fn new(k: usize) -> Self {
        Self {
            k,
            items: Vec::new(),
            floor: f32::NEG_INFINITY,
        }
    }

    /// Whether pushing `value` can change anything.
    #[inline]
    fn wants(&self, value: f32) -> bool {
        value >= self.floor || self.floor == f32::NEG_INFINITY
    }

    fn push(&mut self, value: f32, id: u32) {
        if !self.wants(value) || self.k == 0 {
            return;
        }
        self.items.push((value, id));
        if self.items.len() >= 4 * self.k + 64 {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.items.len() > self.k {
            self.items.select_nth_unstable_by(self.k - 1, order);
            self.items.truncate(self.k);
        }
        if self.items.len() == self.k {
            let least = self
                .items
                .iter()
                .copied()
                .max_by(order)
                .map_or(f32::NEG_INFINITY, |item| item.0);
            self.floor = if least.is_nan() {
                f32::NEG_INFINITY
            } else {
                least
            };
        }
    }

    /// The k-th largest value, minus infinity if there are fewer.
    fn kth(&mut self) -> f32 {
        if self.k > 0 {
            self.cut();
        }
        self.floor
    }

    /// The largest, in descending order.
    fn finish(mut self) -> Vec<(f32, u32)> {
        self.items.sort_unstable_by(order);
        self.items.truncate(self.k);
        self.items
    }
}
