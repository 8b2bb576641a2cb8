//! The layer loop. Every compute thread walks it; the phases hand out strips of the matrices, and a barrier ends each.

use kernels::{Kernels, Mat, Rows, STRIP, SharedRows, prefetch_strip, strip_product};

use super::moe::{self, Choice};
use super::pass::Pass;
use super::scratch::{Local, PRODUCT_ROWS};
use crate::kv_cache::CacheType;
use crate::pool::Worker;
use crate::weights::Layer;

/// Fills rows `0 .. n` for a product and quantises them: for a small pass in this thread's own copy, otherwise shared out. `fill`
/// gets a row's number and its values.
///
/// # Safety
/// No thread uses `shared` since the last barrier except through this call.
unsafe fn fill<'r>(
    kernels: &Kernels,
    worker: &Worker<'_>,
    shared: SharedRows<'r>,
    own: &'r mut Rows,
    n: usize,
    mut fill: impl FnMut(usize, &mut [f32]),
) -> &'r Rows {
    if n <= own.max_rows() {
        own.set_len(n);
        for r in 0..n {
            fill(r, own.row_mut(r));
            own.quantize(kernels, r);
        }
        return own;
    }
    worker.phase(n, |r| {
        // SAFETY: each row has one unit; nobody reads rows before the barrier that ends the phase.
        unsafe {
            fill(r, shared.row_mut(r));
            shared.quantize(kernels, r);
        }
    });
    // SAFETY: all rows were filled before the barrier, and nobody writes to them before another.
    unsafe { shared.rows() }
}

impl Pass<'_> {
    /// The whole pass: embeds the tokens and leaves the residual stream after the last layer in `h`.
    pub(super) fn run(&self, worker: &Worker<'_>, local: &mut Local) {
        let embedding = self.weights.embedding.view();
        worker.phase(self.rows(), |r| {
            // SAFETY: each row has one unit.
            let row = unsafe { self.h.part_mut(r * self.h_stride, self.config.hidden) };
            embedding.row_to_f32(self.tokens[r] as usize, row);
        });
        for (l, layer) in self.weights.layers.iter().enumerate() {
            self.attention_block(worker, local, l, layer);
            self.expert_block(worker, local, l, layer);
        }
    }

    /// `h += Wo attention(norm(h))`.
    fn attention_block(&self, worker: &Worker<'_>, local: &mut Local, l: usize, layer: &Layer) {
        let n = self.rows();
        let matrices = [layer.q.view(), layer.k.view(), layer.v.view()];
        let firsts = [0, layer.q.rows(), layer.q.rows() + layer.k.rows()];
        let strips = matrices.each_ref().map(Mat::strips);
        let total: usize = strips.iter().sum();
        let split = self.row_split(worker, total);
        let place = |unit: usize| {
            let (mut strip, mut m) = (unit / split, 0);
            while m + 1 < strips.len() && strip >= strips[m] {
                strip -= strips[m];
                m += 1;
            }
            (m, strip)
        };
        let (m, strip) = place(worker.own(total * split).start);
        self.expect(&matrices[m], strip);
        // SAFETY: `x` was last read before the barrier that ended the previous block; `h` is only read here.
        let x = unsafe {
            fill(self.kernels, worker, self.x, &mut local.x, n, |r, out| {
                self.watch(r, l);
                self.fns
                    .rmsnorm(self.h_row(r), &layer.input_norm, self.config.rms_eps, out);
            })
        };
        worker.phase(total * split, |unit| {
            let (m, strip) = place(unit);
            self.product(
                &matrices[m],
                strip,
                x,
                (unit % split, split),
                &mut local.out,
                |r, columns, values| {
                    let at = r * self.qkv_stride + firsts[m] + columns;
                    // SAFETY: units differ in columns or rows.
                    unsafe { self.qkv.part_mut(at, values.len()) }.copy_from_slice(values);
                },
            );
        });
        match self.cache_type {
            CacheType::F16 => self.attend::<u16>(worker, local, l),
            CacheType::F32 => self.attend::<f32>(worker, local, l),
        }
        let o = layer.o.view();
        let split = self.row_split(worker, o.strips());
        self.expect(&o, worker.own(o.strips() * split).start / split);
        let merged = &mut local.merged;
        // SAFETY: parts of `attention` were written in the last phase; nobody uses it since.
        let x = unsafe {
            fill(
                self.kernels,
                worker,
                self.attention,
                &mut local.attention,
                n,
                |r, out| {
                    self.merge_row(merged, l, r, out);
                },
            )
        };
        worker.phase(o.strips() * split, |unit| {
            self.product(
                &o,
                unit / split,
                x,
                (unit % split, split),
                &mut local.out,
                |r, columns, values| {
                    // SAFETY: units differ in columns or rows.
                    let h = unsafe { self.h.part_mut(r * self.h_stride + columns, values.len()) };
                    self.fns.add(h, values);
                },
            );
        });
    }

    /// `h += sum of the chosen experts' outputs of norm(h)`.
    fn expert_block(&self, worker: &Worker<'_>, local: &mut Local, l: usize, layer: &Layer) {
        let config = self.config;
        let (n, per_token) = (self.rows(), config.experts_per_token);
        let router = layer.router.view();
        let split = self.row_split(worker, router.strips());
        self.expect(&router, worker.own(router.strips() * split).start / split);
        // SAFETY: as in `attention_block`.
        let x = unsafe {
            fill(self.kernels, worker, self.x, &mut local.x, n, |r, out| {
                self.fns
                    .rmsnorm(self.h_row(r), &layer.post_norm, config.rms_eps, out);
            })
        };
        worker.phase(router.strips() * split, |unit| {
            self.product(
                &router,
                unit / split,
                x,
                (unit % split, split),
                &mut local.out,
                |r, columns, values| {
                    // SAFETY: units differ in columns or rows.
                    unsafe {
                        self.router
                            .part_mut(r * config.experts + columns, values.len())
                    }
                    .copy_from_slice(values);
                },
            );
        });
        let probabilities = &mut local.probabilities;
        let mut choose = |r: usize, choices: &mut [Choice]| {
            // SAFETY: router logits are only read since the last barrier.
            let logits = unsafe { self.router.part(r * config.experts, config.experts) };
            moe::choose(self.fns, logits, probabilities, choices);
        };
        if self.is_private() {
            let choices = &mut local.choices[..n * per_token];
            for (r, choices) in choices.chunks_exact_mut(per_token).enumerate() {
                choose(r, choices);
            }
            local.routing.group(config.experts, per_token, choices);
        } else {
            worker.phase(n, |r| {
                // SAFETY: each row has one unit.
                choose(r, unsafe {
                    self.choices.part_mut(r * per_token, per_token)
                });
            });
            // SAFETY: all were written before the barrier.
            let choices = unsafe { self.choices.part(0, n * per_token) };
            local.routing.group(config.experts, per_token, choices);
        }
        let routing = &local.routing;
        let strips = config.expert_hidden.div_ceil(STRIP);
        let own = worker.own(routing.active.len() * strips);
        worker.phase(routing.active.len() * strips, |unit| {
            let (expert, first, end) = routing.active[unit / strips];
            let strip = unit % strips;
            let expert = &layer.experts[expert];
            let (gate, up) = (expert.gate.view(), expert.up.view());
            let width = STRIP.min(config.expert_hidden - strip * STRIP);
            // Products prefetch on in their own matrix: only where another one begins is there nothing yet.
            if strip == 0 || unit == own.start {
                self.expect(&up, strip);
            }
            for first in (first..end).step_by(PRODUCT_ROWS) {
                let idx = &routing.rows[first..end.min(first + PRODUCT_ROWS)];
                let (g, u) = (
                    &mut local.out[..idx.len() * STRIP],
                    &mut local.out2[..idx.len() * STRIP],
                );
                strip_product(self.kernels, &gate, strip, x, idx, g);
                if strip + 1 == strips
                    && let Some(&(next, ..)) = routing.active.get(unit / strips + 1)
                {
                    self.expect(&layer.experts[next].gate.view(), 0);
                }
                strip_product(self.kernels, &up, strip, x, idx, u);
                for (i, (g, u)) in g.chunks_exact(STRIP).zip(u.chunks_exact(STRIP)).enumerate() {
                    // SAFETY: units differ in slots or columns.
                    let out = unsafe { self.inner.part_mut(first + i, strip * STRIP, width) };
                    self.fns
                        .swiglu(&g[..width], &u[..width], config.swiglu_limit[l], out);
                }
            }
        });
        let down_strips = config.hidden.div_ceil(STRIP);
        for &(expert, ..) in &routing.active {
            let down = layer.experts[expert].down.view();
            self.expect(&down, worker.own(down_strips).start);
        }
        let (private, shared) = (self.is_private(), self.inner);
        // SAFETY: the inner activations were written before the barrier; shared rows are filled already and only quantised.
        let inner = unsafe {
            fill(
                self.kernels,
                worker,
                self.inner,
                &mut local.inner,
                n * per_token,
                |slot, out| {
                    if private {
                        out.copy_from_slice(shared.rows().row(slot));
                    }
                },
            )
        };
        worker.phase(down_strips, |strip| {
            let width = STRIP.min(config.hidden - strip * STRIP);
            // Experts in ascending order for every row: the order of the sum is the same however rows are grouped.
            for &(expert, first, end) in &routing.active {
                let down = layer.experts[expert].down.view();
                for first in (first..end).step_by(PRODUCT_ROWS) {
                    let slots = first..end.min(first + PRODUCT_ROWS);
                    let out = &mut local.out[..slots.len() * STRIP];
                    strip_product(
                        self.kernels,
                        &down,
                        strip,
                        inner,
                        &self.iota[slots.clone()],
                        out,
                    );
                    for (slot, y) in slots.zip(out.chunks_exact(STRIP)) {
                        let at = routing.rows[slot] as usize * self.h_stride + strip * STRIP;
                        // SAFETY: units differ in columns.
                        let h = unsafe { self.h.part_mut(at, width) };
                        self.fns.add_scaled(h, routing.weights[slot], &y[..width]);
                    }
                }
            }
        });
    }

    /// Has the beginning of a strip fetched ahead of its use. With many rows memory is not what is waited for.
    fn expect(&self, w: &Mat<'_>, strip: usize) {
        if self.is_private() {
            prefetch_strip(w, strip);
        }
    }

    /// Into how many parts the rows are cut, besides the strips, so that every thread has a few units.
    fn row_split(&self, worker: &Worker<'_>, strips: usize) -> usize {
        let wanted = (4 * worker.threads()).div_ceil(strips);
        wanted.min(self.rows().div_ceil(PRODUCT_ROWS)).max(1)
    }

    /// One strip of `w` times part `part.0` of `part.1` of all rows. `take` gets row, first column and up to 64 results.
    fn product(
        &self,
        w: &Mat<'_>,
        strip: usize,
        x: &Rows,
        part: (usize, usize),
        out: &mut [f32],
        mut take: impl FnMut(usize, usize, &[f32]),
    ) {
        let each = self.rows().div_ceil(part.1);
        let (from, to) = (
            (part.0 * each).min(self.rows()),
            ((part.0 + 1) * each).min(self.rows()),
        );
        let width = STRIP.min(w.rows() - strip * STRIP);
        for first in (from..to).step_by(PRODUCT_ROWS) {
            let idx = &self.iota[first..to.min(first + PRODUCT_ROWS)];
            let out = &mut out[..idx.len() * STRIP];
            strip_product(self.kernels, w, strip, x, idx, out);
            for (values, r) in out.chunks_exact(STRIP).zip(first..) {
                take(r, strip * STRIP, &values[..width]);
            }
        }
    }
}
