//! Every product on the shapes of the model, on every instruction set this CPU has, with one and two threads.
//!
//! `cargo bench -p kernels --bench products -- [--isa NAME] [FILTER]`. Weights are streamed through a buffer far larger than the
//! caches that belong to a core, so one row of activations measures memory (GB/s, and the share of a plain read in the
//! same run) and many rows measure the multiplier (GMAC/s, counted once for each plane). Best of several
//! rounds. With `--test`, or under `cargo test --benches`, each runs once, on little memory.

use kernels::buffer::{Buffer, Plain};
use kernels::layout::{GroupedLayout, ScaleFormat, int8_strip_bytes, ternary_strip_bytes};
use kernels::{
    Dense, DenseData, Grouped, Int8Rows, Isa, Kernels, Mat, Precision, Rows, STRIP, Ternary,
    read_stream, strip_product,
};
use std::time::Instant;

/// One product to measure.
struct Case {
    name: &'static str,
    kind: Kind,
    rows: usize,
    cols: usize,
    batch: usize,
    precision: Precision,
}

#[derive(Clone, Copy)]
enum Kind {
    Ternary,
    Grouped(usize),
    Int8,
    Bf16,
    F32,
}

impl Kind {
    fn strip_bytes(self, cols: usize) -> usize {
        match self {
            Kind::Ternary => ternary_strip_bytes(cols),
            Kind::Grouped(bits) => grouped(bits).strip_bytes(cols),
            Kind::Int8 => int8_strip_bytes(cols),
            Kind::Bf16 => STRIP * cols * 2,
            Kind::F32 => STRIP * cols * 4,
        }
    }
}

fn grouped(bits: usize) -> GroupedLayout {
    GroupedLayout {
        bits,
        group: 64,
        scales: ScaleFormat::Bf16,
    }
}

const fn case(
    name: &'static str,
    kind: Kind,
    rows: usize,
    cols: usize,
    batch: usize,
    precision: Precision,
) -> Case {
    Case {
        name,
        kind,
        rows,
        cols,
        batch,
        precision,
    }
}

const CASES: &[Case] = &[
    case("attention", Kind::Ternary, 2048, 2048, 1, Precision::Int16),
    case("gate", Kind::Ternary, 512, 2048, 1, Precision::Int16),
    case("down", Kind::Ternary, 2048, 512, 1, Precision::Int16),
    case("gate", Kind::Ternary, 512, 2048, 1, Precision::Int8),
    case("down", Kind::Ternary, 2048, 512, 1, Precision::Int8),
    case("gate", Kind::Ternary, 512, 2048, 1, Precision::F32),
    case(
        "head 4-bit",
        Kind::Grouped(4),
        8192,
        2048,
        1,
        Precision::Int16,
    ),
    case(
        "head 4-bit",
        Kind::Grouped(4),
        8192,
        2048,
        1,
        Precision::Int8,
    ),
    case(
        "head 4-bit",
        Kind::Grouped(4),
        8192,
        2048,
        1,
        Precision::F32,
    ),
    case(
        "head 8-bit",
        Kind::Grouped(8),
        8192,
        2048,
        1,
        Precision::Int16,
    ),
    case("head int8", Kind::Int8, 8192, 2048, 1, Precision::Int16),
    case("head int8", Kind::Int8, 8192, 2048, 1, Precision::Int8),
    case("head bf16", Kind::Bf16, 8192, 2048, 1, Precision::Int16),
    case("router", Kind::Bf16, 256, 2048, 1, Precision::Int16),
    case("router f32", Kind::F32, 256, 2048, 1, Precision::Int16),
    case(
        "attention",
        Kind::Ternary,
        2048,
        2048,
        512,
        Precision::Int16,
    ),
    case("gate", Kind::Ternary, 512, 2048, 2, Precision::Int16),
    case("gate", Kind::Ternary, 512, 2048, 3, Precision::Int16),
    case("gate", Kind::Ternary, 512, 2048, 8, Precision::Int16),
    case("gate", Kind::Ternary, 512, 2048, 16, Precision::Int16),
    case("down", Kind::Ternary, 2048, 512, 16, Precision::Int16),
    case("gate", Kind::Ternary, 512, 2048, 16, Precision::Int8),
    case("down", Kind::Ternary, 2048, 512, 16, Precision::Int8),
    case("attention", Kind::Ternary, 2048, 2048, 512, Precision::Int8),
    case("gate", Kind::Ternary, 512, 2048, 16, Precision::F32),
    case(
        "head 4-bit",
        Kind::Grouped(4),
        8192,
        2048,
        4,
        Precision::Int16,
    ),
    case("head int8", Kind::Int8, 8192, 2048, 4, Precision::Int16),
    case("router", Kind::Bf16, 256, 2048, 512, Precision::Int16),
];

/// Weights: the same bytes seen as whatever a case needs.
struct Memory(Buffer<u32>);

impl Memory {
    fn new(bytes: usize) -> Self {
        let mut words = Buffer::zeroed(bytes / 4);
        // Small positive numbers in every format: codes below 3, halves and floats near 1.
        words.fill(0x3f01_3f02);
        Memory(words)
    }

    fn bytes(&self) -> &[u8] {
        self.words()
    }

    fn words<T: Plain>(&self) -> &[T] {
        // SAFETY: plain numbers are valid for any bits, and a buffer is aligned for all of them.
        unsafe {
            std::slice::from_raw_parts(
                self.0.as_ptr().cast(),
                size_of_val(&*self.0) / size_of::<T>(),
            )
        }
    }
}

fn view<'a>(case: &Case, memory: &'a Memory, scales: &'a [f32], strips: usize) -> Mat<'a> {
    let (rows, cols) = (strips * STRIP, case.cols);
    let data = &memory.bytes()[..strips * case.kind.strip_bytes(cols)];
    match case.kind {
        Kind::Ternary => Mat::Ternary(Ternary {
            rows,
            cols,
            tiles: data,
            scales: &scales[..rows],
        }),
        Kind::Grouped(bits) => Mat::Grouped(Grouped {
            rows,
            cols,
            layout: grouped(bits),
            data,
        }),
        Kind::Int8 => Mat::Int8(Int8Rows {
            rows,
            cols,
            data,
            scales: &scales[..rows],
        }),
        Kind::Bf16 => Mat::Dense(Dense {
            rows,
            cols,
            data: DenseData::Bf16(&memory.words()[..rows * cols]),
        }),
        Kind::F32 => Mat::Dense(Dense {
            rows,
            cols,
            data: DenseData::F32(&memory.words()[..rows * cols]),
        }),
    }
}

/// Seconds of the best of `rounds` runs of `work(thread)` on each of `threads` threads.
fn best(threads: usize, rounds: usize, work: impl Fn(usize) + Sync) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 1..threads {
                let work = &work;
                scope.spawn(move || work(thread));
            }
            work(0);
        });
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

fn main() {
    let mut timed = std::env::args().any(|arg| arg == "--bench");
    let mut only = None;
    let mut filter = String::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--isa" => only = args.next(),
            "--bench" => {}
            "--test" => timed = false,
            _ => filter = arg,
        }
    }
    let (size, rounds) = if timed { (512 << 20, 3) } else { (1 << 20, 1) };
    let memory = Memory::new(size);
    let scales = vec![1.0; 1 << 20];
    for isa in
        Kernels::available().filter(|isa| only.as_deref().is_none_or(|only| only == isa.name()))
    {
        let kernels = Kernels::for_isa(isa).expect("available");
        let mut read = [0.0; 2];
        for threads in [1, 2] {
            let part = size / threads;
            let seconds = best(threads, rounds, |t| {
                std::hint::black_box(read_stream(kernels, &memory.bytes()[t * part..][..part]));
            });
            read[threads - 1] = size as f64 / seconds / 1e9;
        }
        if timed {
            println!(
                "{isa}: plain read {:.1} / {:.1} GB/s with 1 / 2 threads",
                read[0], read[1]
            );
        }
        for case in CASES.iter().filter(|case| case.name.contains(&filter)) {
            measure(isa, kernels, case, &memory, &scales, rounds, read);
        }
    }
}

fn measure(
    isa: Isa,
    kernels: &Kernels,
    case: &Case,
    memory: &Memory,
    scales: &[f32],
    rounds: usize,
    read: [f64; 2],
) {
    let strip_bytes = case.kind.strip_bytes(case.cols);
    // As many matrices as fit, or fewer where the multiplier takes its time; at least two strips, one a thread.
    let macs = STRIP * case.cols * case.batch;
    let budget = if isa == Isa::Scalar {
        100_000_000
    } else {
        4_000_000_000
    };
    let strips = (memory.bytes().len() / strip_bytes)
        .min(budget / macs)
        .max(2)
        .min(scales.len() / STRIP);
    let strips = if strips * STRIP > case.rows {
        strips / (case.rows / STRIP) * (case.rows / STRIP)
    } else {
        strips
    };
    let mat = view(case, memory, scales, strips);
    let mut x = Rows::new(case.batch, case.cols, case.precision);
    x.set_len(case.batch);
    for r in 0..case.batch {
        x.row_mut(r)
            .iter_mut()
            .enumerate()
            .for_each(|(c, v)| *v = ((r * 31 + c * 7) % 101) as f32 - 50.0);
        x.quantize(kernels, r);
    }
    let idx: Vec<u32> = (0..case.batch as u32).collect();
    let mut line = format!(
        "{isa:>12} {:<12} {:>4}x{:<4} batch {:<3} {:<5}",
        case.name,
        case.rows,
        case.cols,
        case.batch,
        format!("{:?}", case.precision)
    );
    for threads in [1, 2] {
        let part = strips / threads;
        let seconds = best(threads, rounds, |t| {
            let mut out = vec![0.0; case.batch * STRIP];
            for strip in t * part..(t + 1) * part {
                strip_product(kernels, &mat, strip, &x, &idx, &mut out);
            }
            std::hint::black_box(out);
        });
        let done = (part * threads) as f64;
        let gb = done * strip_bytes as f64 / seconds / 1e9;
        line += &format!(
            " | {gb:6.1} GB/s {:4.0} % {:7.1} GMAC/s",
            100.0 * gb / read[threads - 1],
            done * (macs * case.precision.planes().max(1)) as f64 / seconds / 1e9
        );
    }
    // A single round shows that it runs, not how fast.
    if rounds > 1 {
        println!("{line}");
    }
}
