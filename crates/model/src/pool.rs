//! The compute threads: the only place that spawns any.
//!
//! A [`Pool`] runs one job at a time on all its threads. A job is a row of *phases*: in each, every thread has a run of
//! consecutive units of work, helps the others when it is through with it, and a barrier ends it. Consecutive units are
//! consecutive memory for the most part, which is what caches and prefetching want. Waiting is a short spin, then yielding,
//! then sleep, so an idle pool uses no CPU and a thread that loses its core costs the others little. A panic in a job ends
//! that job on every thread and becomes an error.

use std::cell::UnsafeCell;
use std::fmt;
use std::hint::spin_loop;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a waiting thread spins before it offers its core to others.
const SPIN: Duration = Duration::from_micros(40);
/// How long a waiting thread stays runnable before it sleeps. A step of decoding leaves shorter gaps than this.
const STAY: Duration = Duration::from_micros(250);

/// Most threads a pool may have.
pub const MAX_THREADS: usize = 1024;

/// A job ended by a panic, with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked(pub String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a compute thread panicked: {}", self.0)
    }
}

impl std::error::Error for Panicked {}

/// What an unwinding thread carries when another thread's panic is the cause.
struct Bystander;

/// A counter that only grows, and on which threads can wait.
#[derive(Default)]
struct Gate {
    epoch: AtomicU64,
    sleepers: AtomicU32,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Gate {
    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn advance(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        // Either a sleeper is seen here, or it sees the new epoch before it sleeps: both sides write first, then read.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_all();
        }
    }

    fn wait_past(&self, seen: u64) {
        for _ in 0..64 {
            if self.epoch() != seen {
                return;
            }
            spin_loop();
        }
        let start = Instant::now();
        loop {
            let waited = start.elapsed();
            if waited > STAY {
                break;
            }
            for _ in 0..16 {
                if self.epoch() != seen {
                    return;
                }
                spin_loop();
            }
            if waited > SPIN {
                thread::yield_now();
            }
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.epoch() == seen {
            guard = self
                .wake
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A counter with cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Taken(AtomicUsize);

type Job = dyn Fn(&Worker<'_>) + Sync;

struct Shared {
    threads: usize,
    start: Gate,
    /// The job of the current epoch of `start`; written only while all workers wait there.
    job: UnsafeCell<Option<*const Job>>,
    stop: AtomicBool,
    barrier: Gate,
    arrived: AtomicUsize,
    /// For each thread, how many units of its run have been taken in the current phase.
    taken: Box<[Taken]>,
    /// Set when a thread panicked: barriers then let everybody go, by unwinding.
    broken: AtomicBool,
    message: Mutex<Option<String>>,
    running: AtomicUsize,
    done: Gate,
}

// SAFETY: all fields but `job` are synchronised; `job` is written by the owner of the pool while every worker waits at `start`,
// and read by workers after the gate has advanced.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in `job` is only followed during `Pool::run`, which outlives its use.
unsafe impl Send for Shared {}

impl Shared {
    fn reset(&self) {
        self.arrived.store(0, Ordering::SeqCst);
        for taken in &self.taken {
            taken.0.store(0, Ordering::SeqCst);
        }
    }

    /// Runs `job` as thread `index`; a panic is noted and wakes the threads that wait for this one.
    fn run(&self, index: usize, job: &Job) {
        let worker = Worker {
            index,
            shared: self,
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(&worker))) {
            if !payload.is::<Bystander>() {
                let message = match payload.downcast_ref::<&str>() {
                    Some(text) => (*text).to_owned(),
                    None => payload
                        .downcast_ref::<String>()
                        .cloned()
                        .unwrap_or_else(|| "no message".to_owned()),
                };
                let mut first = self.message.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(message);
            }
            self.broken.store(true, Ordering::SeqCst);
            self.barrier.advance();
        }
    }
}

/// A thread's view of the job it takes part in.
pub struct Worker<'a> {
    index: usize,
    shared: &'a Shared,
}

impl Worker<'_> {
    /// This thread's number, below [`threads`](Self::threads).
    pub fn index(&self) -> usize {
        self.index
    }

    /// Threads that run the job.
    pub fn threads(&self) -> usize {
        self.shared.threads
    }

    /// This thread's own run of `units` units: what it starts with.
    pub fn own(&self, units: usize) -> Range<usize> {
        self.run_of(self.index, units)
    }

    fn run_of(&self, thread: usize, units: usize) -> Range<usize> {
        units * thread / self.threads()..units * (thread + 1) / self.threads()
    }

    /// Hands units `0 .. units` out to the threads, one at a time, and returns when all are done: each thread takes those of its
    /// [own](Self::own) run in order, then what is left of others'. Every thread must call it, with the same number of units.
    /// What was written in a unit is seen by all threads afterwards.
    pub fn phase(&self, units: usize, mut unit: impl FnMut(usize)) {
        for turn in 0..self.threads() {
            let thread = (self.index + turn) % self.threads();
            let run = self.run_of(thread, units);
            let taken = &self.shared.taken[thread].0;
            // Looking first keeps finished runs in everybody's cache.
            while taken.load(Ordering::Relaxed) < run.len() {
                let i = taken.fetch_add(1, Ordering::Relaxed);
                if i >= run.len() {
                    break;
                }
                unit(run.start + i);
            }
        }
        self.barrier();
    }

    /// Waits until every thread has come here.
    pub fn barrier(&self) {
        let shared = self.shared;
        let seen = shared.barrier.epoch();
        self.leave_if_broken();
        if shared.arrived.fetch_add(1, Ordering::SeqCst) + 1 == shared.threads {
            shared.reset();
            shared.barrier.advance();
        } else {
            shared.barrier.wait_past(seen);
        }
        self.leave_if_broken();
    }

    fn leave_if_broken(&self) {
        if self.shared.broken.load(Ordering::SeqCst) {
            resume_unwind(Box::new(Bystander));
        }
    }
}

/// Compute threads that live as long as this value. The thread that calls [`Pool::run`] is one of them.
pub struct Pool {
    shared: Arc<Shared>,
    spawned: Vec<JoinHandle<()>>,
}

impl Pool {
    /// A pool of `threads` threads; 0 means as many as this process may use (its CPU affinity and its control group's quota).
    ///
    /// # Errors
    /// If there may not be that many threads, or the system refuses one.
    pub fn new(threads: usize) -> io::Result<Self> {
        let threads = if threads == 0 {
            default_threads()
        } else {
            threads
        };
        if threads > MAX_THREADS {
            let message =
                format!("{threads} compute threads asked for, at most {MAX_THREADS} are possible");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let shared = Arc::new(Shared {
            threads,
            start: Gate::default(),
            job: UnsafeCell::new(None),
            stop: AtomicBool::new(false),
            barrier: Gate::default(),
            arrived: AtomicUsize::new(0),
            taken: (0..threads).map(|_| Taken::default()).collect(),
            broken: AtomicBool::new(false),
            message: Mutex::new(None),
            running: AtomicUsize::new(0),
            done: Gate::default(),
        });
        let mut pool = Pool {
            shared,
            spawned: Vec::new(),
        };
        for index in 1..threads {
            let shared = Arc::clone(&pool.shared);
            // If one cannot be had, dropping the pool joins those before it.
            pool.spawned.push(
                thread::Builder::new()
                    .name(format!("maple-compute-{index}"))
                    .spawn(move || work(&shared, index))?,
            );
        }
        Ok(pool)
    }

    /// Threads of the pool, the caller's included.
    pub fn threads(&self) -> usize {
        self.shared.threads
    }

    /// Runs `job` once on every thread, this one included, and returns when all have finished.
    ///
    /// # Errors
    /// The first panic's message, if a thread panicked. The pool stays usable.
    pub fn run(&mut self, job: &(dyn Fn(&Worker<'_>) + Sync)) -> Result<(), Panicked> {
        let shared = &*self.shared;
        shared.reset();
        shared.broken.store(false, Ordering::SeqCst);
        shared.running.store(self.spawned.len(), Ordering::SeqCst);
        let seen = shared.done.epoch();
        // SAFETY: only the lifetime is erased. Workers follow the pointer between `start` advancing and `running` reaching 0,
        // and this function does not return, or unwind, in between.
        let job_pointer = unsafe {
            std::mem::transmute::<*const (dyn Fn(&Worker<'_>) + Sync + '_), *const Job>(job)
        };
        // SAFETY: all workers wait at `start`, so nobody reads the cell.
        unsafe { *shared.job.get() = Some(job_pointer) };
        shared.start.advance();
        shared.run(0, job_of(job_pointer));
        if !self.spawned.is_empty() {
            shared.done.wait_past(seen);
        }
        // SAFETY: all workers have finished and wait at `start` again.
        unsafe { *shared.job.get() = None };
        if shared.broken.load(Ordering::SeqCst) {
            let message = shared
                .message
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            return Err(Panicked(message.unwrap_or_else(|| "no message".to_owned())));
        }
        Ok(())
    }
}

/// The job behind the erased pointer.
fn job_of<'a>(pointer: *const Job) -> &'a Job {
    // SAFETY: called by `Pool::run` and by workers while it waits for them, when the job is alive.
    unsafe { &*pointer }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.start.advance();
        for handle in self.spawned.drain(..) {
            // A worker catches every panic of a job, so there is nothing to learn here.
            let _ = handle.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} threads)", self.threads())
    }
}

fn work(shared: &Shared, index: usize) {
    let mut seen = 0;
    loop {
        shared.start.wait_past(seen);
        seen += 1;
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: written before `start` advanced, and left alone until this worker has finished.
        if let Some(job) = unsafe { *shared.job.get() } {
            shared.run(index, job_of(job));
        }
        if shared.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            shared.done.advance();
        }
    }
}

/// Threads this process may really use: its affinity mask and its control group's CPU quota count, not the host's cores.
pub fn default_threads() -> usize {
    thread::available_parallelism()
        .map_or(1, std::num::NonZero::get)
        .min(MAX_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn phases_hand_out_every_unit_once_and_in_order() {
        for threads in [1, 2, 3, 8] {
            let mut pool = Pool::new(threads).expect("threads");
            assert_eq!(pool.threads(), threads);
            for round in 0..50 {
                let counts: Vec<AtomicU64> = (0..1000).map(|_| AtomicU64::new(0)).collect();
                let calls = AtomicU64::new(0);
                pool.run(&|worker| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    for phase in 0..20 {
                        let units = (phase * 53 + round) % 1000;
                        worker.phase(units, |i| {
                            // Every unit before the barrier is done when the next phase starts.
                            let before = counts[i].fetch_add(1, Ordering::Relaxed);
                            let expected =
                                (0..phase).filter(|p| (p * 53 + round) % 1000 > i).count();
                            assert_eq!(before, expected as u64);
                        });
                    }
                })
                .expect("no panic");
                assert_eq!(calls.into_inner(), threads as u64);
            }
        }
    }

    #[test]
    fn a_thread_that_is_held_up_loses_its_units_to_the_others() {
        let mut pool = Pool::new(3).expect("threads");
        let done = AtomicU64::new(0);
        pool.run(&|worker| {
            worker.phase(300, |unit| {
                // The thread that got unit 0 goes on only when the others have done all the rest, its own run's included.
                while unit == 0 && done.load(Ordering::SeqCst) < 299 {
                    thread::yield_now();
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        })
        .expect("no panic");
        assert_eq!(done.into_inner(), 300);
    }

    #[test]
    fn a_panic_becomes_an_error_and_the_pool_goes_on() {
        let mut pool = Pool::new(3).expect("threads");
        for culprit in 0..3 {
            let result = pool.run(&|worker| {
                worker.phase(5, |_| {});
                assert!(worker.index() != culprit, "thread {culprit} gives up");
                worker.barrier();
                worker.phase(5, |_| {});
            });
            assert_eq!(result, Err(Panicked(format!("thread {culprit} gives up"))));
            let sum = AtomicU64::new(0);
            pool.run(&|worker| {
                worker.phase(10, |i| {
                    sum.fetch_add(i as u64, Ordering::Relaxed);
                })
            })
            .expect("recovered");
            assert_eq!(sum.into_inner(), 45);
        }
    }

    #[test]
    fn too_many_threads_are_refused() {
        assert!(Pool::new(MAX_THREADS + 1).is_err());
        assert!((1..=MAX_THREADS).contains(&Pool::new(0).expect("threads").threads()));
    }

    #[test]
    fn sleeping_threads_wake_for_the_next_job() {
        let mut pool = Pool::new(2).expect("threads");
        for _ in 0..3 {
            thread::sleep(STAY * 20);
            let calls = AtomicU64::new(0);
            pool.run(&|worker| {
                // One thread is late, so the other goes to sleep at the barrier.
                if worker.index() == 0 {
                    thread::sleep(STAY * 20);
                }
                worker.barrier();
                calls.fetch_add(1, Ordering::Relaxed);
            })
            .expect("no panic");
            assert_eq!(calls.into_inner(), 2);
        }
    }
}
