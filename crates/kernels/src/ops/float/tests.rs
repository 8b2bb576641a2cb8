//! Every table against the scalar one bit for bit, and the scalar one against f64.

use super::attention::{Element, KEY_BLOCK, KEY_CHUNK, KeyChunk, padded, record_len, store_key};
use super::rope::{rope_angles, rope_frequencies};
use crate::data::half::f16_to_f32;
use crate::dispatch::{FloatFns, Isa, Kernels};

/// A small generator (SplitMix64), so that failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn uniform(&mut self, scale: f32) -> f32 {
        ((self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0) * scale
    }
    fn values(&mut self, n: usize, scale: f32) -> Vec<f32> {
        (0..n).map(|_| self.uniform(scale)).collect()
    }
}

fn scalar() -> &'static FloatFns {
    Kernels::for_isa(Isa::Scalar).expect("always there").float()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

fn sizes() -> impl Iterator<Item = usize> {
    (0..70).chain([127, 128, 200, 511, 2048])
}

/// Runs `op` with every table; all must give the scalar table's bits, which are returned.
fn same_bits(what: &str, op: impl Fn(&FloatFns) -> Vec<f32>) -> Vec<f32> {
    let want = op(scalar());
    for isa in Kernels::available() {
        let got = op(Kernels::for_isa(isa).expect("available").float());
        assert_eq!(bits(&got), bits(&want), "{what} on {isa}");
    }
    want
}

fn close(got: f32, want: f64, relative: f64, what: &str) {
    assert!(
        (f64::from(got) - want).abs() <= relative * want.abs() + 1e-37,
        "{what}: {got} for {want}"
    );
}

#[test]
fn norm_and_additions() {
    let mut random = Random(1);
    for n in sizes() {
        let (x, w, y) = (
            random.values(n, 3.0),
            random.values(n, 2.0),
            random.values(n, 1e3),
        );
        let out = same_bits("rmsnorm", |f| {
            let mut out = vec![f32::NAN; n];
            f.rmsnorm(&x, &w, 1e-6, &mut out);
            let mut again = x.clone();
            f.rmsnorm_in_place(&mut again, &w, 1e-6);
            assert_eq!(bits(&out), bits(&again));
            out
        });
        let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / n as f64;
        for i in 0..n {
            close(
                out[i],
                f64::from(w[i]) * f64::from(x[i]) / (mean + 1e-6f32 as f64).sqrt(),
                1e-6,
                "rmsnorm",
            );
        }
        let out = same_bits("add", |f| {
            let mut h = x.clone();
            f.add(&mut h, &y);
            h
        });
        assert!((0..n).all(|i| out[i] == x[i] + y[i]));
        let out = same_bits("add_scaled", |f| {
            let mut h = x.clone();
            f.add_scaled(&mut h, 0.3, &y);
            h
        });
        assert!((0..n).all(|i| out[i] == 0.3f32.mul_add(y[i], x[i])));
    }
    let zeros = same_bits("rmsnorm of zeros", |f| {
        let mut out = vec![1.0; 20];
        f.rmsnorm(&[0.0; 20], &[1.0; 20], 1e-6, &mut out);
        out
    });
    assert!(zeros.iter().all(|x| *x == 0.0));
}

#[test]
fn swiglu_over_its_whole_range() {
    let mut random = Random(2);
    let specials = [
        0.0,
        -0.0,
        7.0,
        -7.0,
        6.999,
        1e30,
        -1e30,
        -87.0,
        -88.5,
        -200.0,
        f32::INFINITY,
        1e-30,
    ];
    for n in sizes() {
        let mut gate = random.values(n, 12.0);
        let up = random.values(n, 9.0);
        for g in &mut gate {
            if random.below(8) == 0 {
                *g = specials[random.below(specials.len())];
            }
        }
        let out = same_bits("swiglu", |f| {
            let mut out = vec![f32::NAN; n];
            f.swiglu(&gate, &up, 7.0, &mut out);
            out
        });
        for i in 0..n {
            let (g, u) = (
                f64::from(gate[i]).min(7.0),
                f64::from(up[i]).clamp(-7.0, 7.0),
            );
            let want = g / (1.0 + (-g).exp()) * u;
            // The exponential is held at e^88, where silu is as good as 0.
            let slack = if g < -80.0 { 1e-3 } else { 1e-6 * want.abs() };
            assert!(
                (f64::from(out[i]) - want).abs() <= slack,
                "{} {}: {} for {want}",
                gate[i],
                up[i],
                out[i]
            );
        }
    }
    let out = same_bits("swiglu of NaN", |f| {
        let mut out = vec![0.0; 2];
        f.swiglu(&[f32::NAN, 1.0], &[1.0, f32::NAN], 7.0, &mut out);
        out.iter()
            .map(|x| if x.is_nan() { 1.0 } else { 0.0 })
            .collect()
    });
    assert_eq!(out, [1.0, 1.0]);
}

#[test]
fn softmax_sums_to_one_and_is_exact() {
    let mut random = Random(3);
    for n in sizes() {
        let x = random.values(n, 20.0);
        let out = same_bits("softmax", |f| {
            let mut out = x.clone();
            f.softmax(&mut out);
            out
        });
        let top = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f64 = x.iter().map(|x| f64::from(x - top).exp()).sum();
        for i in 0..n {
            close(out[i], f64::from(x[i] - top).exp() / total, 1e-6, "softmax");
        }
    }
    let far = same_bits("softmax of far values", |f| {
        let mut out = vec![0.0, -200.0, f32::NEG_INFINITY, -86.0];
        f.softmax(&mut out);
        out
    });
    assert_eq!(far[..3], [1.0, 0.0, 0.0]);
    close(far[3], (-86f64).exp(), 1e-6, "softmax");
    for isa in Kernels::available() {
        let mut out = vec![1.0, f32::NAN, 3.0];
        Kernels::for_isa(isa)
            .expect("available")
            .float()
            .softmax(&mut out);
        assert!(out.iter().all(|x| x.is_nan()), "{isa}: {out:?}");
    }
}

#[test]
fn rotation_turns_half_split_pairs() {
    let mut random = Random(4);
    for (head_dim, rotated) in [
        (2, 2),
        (16, 8),
        (24, 6),
        (128, 64),
        (96, 96),
        (40, 38),
        (8, 0),
    ] {
        let x = random.values(head_dim, 2.0);
        for position in [0, 1, 7, 511, 131_071] {
            let (mut cos, mut sin) = (vec![0.0; rotated / 2], vec![0.0; rotated / 2]);
            rope_angles(
                position,
                &rope_frequencies(10_000.0, rotated),
                &mut cos,
                &mut sin,
            );
            let out = same_bits("rotate", |f| {
                let mut head = x.clone();
                f.rotate(&mut head, &cos, &sin);
                head
            });
            let half = rotated / 2;
            for i in 0..half {
                let angle = position as f64 * 10_000f64.powf(-2.0 * i as f64 / rotated as f64);
                let (a, b) = (f64::from(x[i]), f64::from(x[i + half]));
                assert!((f64::from(out[i]) - (a * angle.cos() - b * angle.sin())).abs() < 1e-6);
                assert!(
                    (f64::from(out[i + half]) - (b * angle.cos() + a * angle.sin())).abs() < 1e-6
                );
            }
            assert_eq!(bits(&out[rotated..]), bits(&x[rotated..]));
        }
    }
}

#[test]
fn narrowing_saturates_and_agrees() {
    let mut random = Random(5);
    let mut x = random.values(100, 70_000.0);
    x.extend([
        0.0,
        -0.0,
        1e-7,
        3e-8,
        65504.0,
        65519.0,
        65520.0,
        1e9,
        -1e9,
        f32::INFINITY,
        f32::NEG_INFINITY,
    ]);
    for n in (0..20).chain([x.len()]) {
        same_bits("narrow", |f| {
            let mut out = vec![0u16; n];
            Element::narrow(f, &x[..n], &mut out);
            let wide: Vec<f32> = out.into_iter().map(f16_to_f32).collect();
            for (x, y) in x.iter().zip(&wide) {
                let clamped = x.clamp(-65504.0, 65504.0);
                assert!(
                    (clamped - y).abs() <= clamped.abs() / 2048.0 + 2f32.powi(-25),
                    "{x} became {y}"
                );
            }
            wide
        });
    }
}

/// A head's cache of several chunks, keys and values in f32 beside it, for the oracle.
struct Head<E> {
    keys: Vec<Vec<E>>,
    values: Vec<Vec<E>>,
    exact: Vec<(Vec<f32>, Vec<f32>)>,
    d: usize,
}

impl<E: Element> Head<E> {
    fn new(random: &mut Random, d: usize, positions: usize, widen: fn(E) -> f32) -> Self {
        let chunks = positions.div_ceil(KEY_CHUNK);
        let mut head = Head {
            keys: vec![vec![E::default(); KEY_CHUNK * d]; chunks],
            values: vec![vec![E::default(); KEY_CHUNK * padded(d)]; chunks],
            exact: Vec::new(),
            d,
        };
        for position in 0..positions {
            let (key, value) = (random.values(d, 2.0), random.values(d, 5.0));
            let chunk = position / KEY_CHUNK;
            let (keys, values) = (&mut head.keys[chunk], &mut head.values[chunk]);
            let (block, lane) = (position % KEY_CHUNK / KEY_BLOCK, position % KEY_BLOCK);
            store_key(
                scalar(),
                &mut keys[block * KEY_BLOCK * d..][..KEY_BLOCK * d],
                lane,
                &key,
            );
            E::narrow(
                scalar(),
                &value,
                &mut values[position % KEY_CHUNK * padded(d)..][..d],
            );
            let wide = |x: Vec<f32>| {
                let mut narrow = vec![E::default(); d];
                E::narrow(scalar(), &x, &mut narrow);
                narrow.into_iter().map(widen).collect()
            };
            head.exact.push((wide(key), wide(value)));
        }
        head
    }

    /// Attention of each query over its absolute range, chunk by chunk.
    fn attend(&self, fns: &FloatFns, queries: &[f32], ranges: &[(usize, usize)]) -> Vec<f32> {
        let (n, record) = (ranges.len(), record_len(self.d));
        let mut scores = vec![f32::NAN; n * KEY_CHUNK];
        let mut merged = vec![f32::NAN; n * record];
        for chunk in 0..self.keys.len() {
            let here =
                |x: usize| x.clamp(chunk * KEY_CHUNK, (chunk + 1) * KEY_CHUNK) - chunk * KEY_CHUNK;
            let local: Vec<_> = ranges.iter().map(|r| (here(r.0), here(r.1))).collect();
            let keys = KeyChunk::new(&self.keys[chunk], &self.values[chunk], self.d);
            let mut records = vec![f32::NAN; n * record];
            fns.attend(&keys, queries, &local, &mut scores, &mut records);
            if chunk == 0 {
                merged.copy_from_slice(&records);
            } else {
                for (into, from) in merged
                    .chunks_exact_mut(record)
                    .zip(records.chunks_exact(record))
                {
                    fns.merge(into, from);
                }
            }
        }
        let mut out = vec![f32::NAN; n * self.d];
        for (record, out) in merged
            .chunks_exact(record)
            .zip(out.chunks_exact_mut(self.d))
        {
            fns.finish(record, out);
        }
        out
    }

    fn oracle(&self, query: &[f32], range: (usize, usize)) -> Vec<f64> {
        let scores: Vec<f64> = self.exact[range.0..range.1]
            .iter()
            .map(|(k, _)| {
                k.iter()
                    .zip(query)
                    .map(|(k, q)| f64::from(*k) * f64::from(*q))
                    .sum()
            })
            .collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|s| (s - top).exp()).sum();
        let mut out = vec![0.0; self.d];
        for (s, (_, v)) in scores.iter().zip(&self.exact[range.0..range.1]) {
            for (out, v) in out.iter_mut().zip(v) {
                *out += (s - top).exp() / total * f64::from(*v);
            }
        }
        out
    }
}

fn attention_agrees<E: Element>(widen: fn(E) -> f32) {
    let mut random = Random(6);
    for (d, positions) in [(1, 20), (16, 1), (24, 300), (64, 513), (128, 700)] {
        let head = Head::<E>::new(&mut random, d, positions, widen);
        for n in [1, 2, 3, 4, 5, 8, 9, 12, 19] {
            let queries = random.values(n * d, 2.0 / (d as f32).sqrt());
            let ranges: Vec<_> = (0..n)
                .map(|_| {
                    let low = random.below(positions);
                    (low, low + 1 + random.below(positions - low))
                })
                .collect();
            let out = same_bits("attention", |f| head.attend(f, &queries, &ranges));
            for i in 0..n {
                let (query, out) = (&queries[i * d..][..d], &out[i * d..][..d]);
                for (got, want) in out.iter().zip(head.oracle(query, ranges[i])) {
                    assert!(
                        (f64::from(*got) - want).abs() < 2e-5,
                        "d {d}, query {i} of {n}: {got} for {want}"
                    );
                }
                // Whoever else is in the tile changes nothing.
                let alone = head.attend(scalar(), query, &ranges[i..=i]);
                assert_eq!(bits(&alone), bits(out), "d {d}, query {i} of {n} alone");
            }
        }
    }
}

#[test]
fn attention_over_f16_agrees() {
    attention_agrees::<u16>(f16_to_f32);
}

#[test]
fn attention_over_f32_agrees() {
    attention_agrees::<f32>(|x| x);
}

#[test]
fn an_empty_range_weighs_nothing() {
    let d = 16;
    let head = Head::<f32>::new(&mut Random(7), d, 40, |x| x);
    let keys = KeyChunk::new(&head.keys[0], &head.values[0], d);
    let record = same_bits("an empty range", |f| {
        let mut records = vec![f32::NAN; 2 * record_len(d)];
        f.attend(
            &keys,
            &[0.5; 32],
            &[(0, 0), (30, 20)],
            &mut vec![0.0; 2 * KEY_CHUNK],
            &mut records,
        );
        for record in records.chunks_exact(record_len(d)) {
            assert_eq!(record[..d], [0.0; 16]);
            assert_eq!(record[padded(d)..padded(d) + 2], [f32::NEG_INFINITY, 0.0]);
        }
        records[..padded(d) + 2].to_vec()
    });
    let mut full = vec![0.0; record_len(d)];
    scalar().attend(
        &keys,
        &[0.5; 16],
        &[(0, 40)],
        &mut vec![0.0; KEY_CHUNK],
        &mut full,
    );
    let mut empty = vec![0.0; record_len(d)];
    empty[..record.len()].copy_from_slice(&record);
    let before = full.clone();
    scalar().merge(&mut full, &empty);
    assert_eq!(full, before);
    scalar().merge(&mut empty, &full);
    assert_eq!(empty[..padded(d) + 2], before[..padded(d) + 2]);
}
