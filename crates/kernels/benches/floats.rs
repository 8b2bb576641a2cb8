//! The float steps on the shapes of the model, and the quantising of activations, on every instruction set this CPU has, in one
//! thread.
//!
//! `cargo bench -p kernels --bench floats -- [--isa NAME] [FILTER]`. Everything is in the caches; attention also says how
//! fast it reads keys and values. Best of several rounds. With `--test`, or under `cargo test --benches`, each runs once.

use kernels::float::attention::{Element, KEY_CHUNK, KeyChunk, padded, record_len};
use kernels::float::rope::{rope_angles, rope_frequencies};
use kernels::{Kernels, Precision, Rows};
use std::hint::black_box;
use std::time::Instant;

const HIDDEN: usize = 2048;
const EXPERT: usize = 512;
const EXPERTS: usize = 256;
const HEAD: usize = 128;
const ROTATED: usize = 64;
/// Query heads that share a KV head.
const GROUP: usize = 4;

struct Bench<'a> {
    kernels: &'a Kernels,
    filter: &'a str,
    rounds: usize,
    calls: usize,
}

impl Bench<'_> {
    /// Times `work`, which reads `bytes` of memory that counts.
    fn run(&self, name: &str, bytes: usize, mut work: impl FnMut()) {
        if !name.contains(self.filter) {
            return;
        }
        let mut best = f64::INFINITY;
        for _ in 0..self.rounds {
            let start = Instant::now();
            for _ in 0..self.calls {
                work();
            }
            best = best.min(start.elapsed().as_secs_f64() / self.calls as f64);
        }
        if self.calls == 1 {
            // A single call shows that it runs, not how fast.
            return;
        }
        let rate = if bytes > 0 {
            format!(" {:6.1} GB/s", bytes as f64 / best / 1e9)
        } else {
            String::new()
        };
        let isa = self.kernels.isa();
        println!("{:>12} {name:<34} {:9.0} ns{rate}", isa.name(), best * 1e9);
    }

    fn steps(&self) {
        let fns = self.kernels.float();
        let x = wave(HIDDEN);
        let (weight, mut h, mut out) = (vec![1.0; HIDDEN], wave(HIDDEN), vec![0.0; HIDDEN]);
        self.run("rmsnorm 2048", 0, || {
            fns.rmsnorm(black_box(&x), &weight, 1e-6, &mut out)
        });
        self.run("add 2048", 0, || fns.add(black_box(&mut h), &x));
        self.run("add_scaled 2048", 0, || {
            fns.add_scaled(black_box(&mut h), 1e-9, &x)
        });
        self.run("swiglu 512", 0, || {
            let (gate, up) = x.split_at(EXPERT);
            fns.swiglu(black_box(gate), &up[..EXPERT], 7.0, &mut out[..EXPERT]);
        });
        let mut logits = wave(EXPERTS);
        self.run("softmax 256", 0, || fns.softmax(black_box(&mut logits)));
        let pairs = ROTATED / 2;
        let (mut cos, mut sin) = (vec![0.0; pairs], vec![0.0; pairs]);
        rope_angles(
            1000,
            &rope_frequencies(10_000.0, ROTATED),
            &mut cos,
            &mut sin,
        );
        let mut head = wave(HEAD);
        self.run("rotate 64 of 128", 0, || {
            fns.rotate(black_box(&mut head), &cos, &sin)
        });
        for precision in [Precision::Int16, Precision::Int8, Precision::F32] {
            let mut rows = Rows::new(1, HIDDEN, precision);
            rows.set_len(1);
            rows.row_mut(0).copy_from_slice(&x);
            self.run(&format!("quantize 2048 {precision:?}"), 0, || {
                black_box(&mut rows).quantize(self.kernels, 0);
            });
        }
    }

    /// Attention of some tokens' query heads over one chunk for one KV head.
    fn attention<E: Element>(&self, element: &str, one: E) {
        let fns = self.kernels.float();
        let (keys, values) = (
            vec![one; KEY_CHUNK * HEAD],
            vec![one; KEY_CHUNK * padded(HEAD)],
        );
        let chunk = KeyChunk::new(&keys, &values, HEAD);
        let bytes = size_of_val(&*keys) + size_of_val(&*values);
        for tokens in [1, 8] {
            let n = tokens * GROUP;
            let (queries, ranges) = (wave(n * HEAD), vec![(0, KEY_CHUNK); n]);
            let mut scores = vec![0.0; n * KEY_CHUNK];
            let mut records = vec![0.0; n * record_len(HEAD)];
            let name = format!("attend 256 keys {element}, {tokens} tokens");
            self.run(&name, bytes, || {
                fns.attend(
                    black_box(&chunk),
                    &queries,
                    &ranges,
                    &mut scores,
                    &mut records,
                );
            });
            let (into, from) = records.split_at_mut(record_len(HEAD));
            let mut out = vec![0.0; HEAD];
            if tokens == 1 {
                let from = &from[..record_len(HEAD)];
                self.run("merge two records", 0, || fns.merge(black_box(into), from));
                self.run("finish a record", 0, || {
                    fns.finish(black_box(into), &mut out)
                });
            }
        }
    }
}

/// Values of both signs and many sizes.
fn wave(len: usize) -> Vec<f32> {
    (0..len)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0)
        .collect()
}

fn main() {
    // Cargo says `--bench` when it runs benchmarks and nothing when it tests them.
    let mut timed = std::env::args().any(|arg| arg == "--bench");
    let (mut only, mut filter) = (None, String::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--bench" => {}
            "--test" => timed = false,
            "--isa" => only = args.next(),
            _ => filter = arg,
        }
    }
    let (rounds, calls) = if timed { (7, 2000) } else { (1, 1) };
    for isa in
        Kernels::available().filter(|isa| only.as_deref().is_none_or(|only| only == isa.name()))
    {
        let bench = Bench {
            kernels: Kernels::for_isa(isa).expect("available"),
            filter: &filter,
            rounds,
            calls,
        };
        bench.steps();
        // 0.5, in half precision and in single.
        bench.attention::<u16>("f16", 0x3800);
        bench.attention::<f32>("f32", 0.5);
    }
}
