//! Forks, snapshots and the memory of caches.

use kernels::Precision;
use model::backend::{Backend, SequenceCache};
use model::forward::ModelOptions;

use super::golden::golden;
use super::{bits, feed, tokens};

/// Whatever a cache went through, going on from a position gives what a fresh one gives there.
#[test]
fn forks_go_on_as_fresh_caches_do() {
    for precision in [Precision::F32, Precision::Int16] {
        let options = ModelOptions {
            precision,
            max_rows: 40,
            threads: 1,
            ..ModelOptions::default()
        };
        let mut model = golden("tiny-hf-sharded")
            .expect("a fixture")
            .model(&options);
        let width = model.hidden_size();
        for positions in [[3, 39, 100], [255, 256, 257], [511, 512, 700]] {
            let shared = tokens(760, 288, 4);
            let mut cache = model.new_cache();
            let mut snapshots = Vec::new();
            let mut at = 0;
            for position in positions {
                feed(&mut model, &mut cache, &shared[at..position], 40);
                snapshots.push((
                    position,
                    cache.snapshot(position).expect("the present is known"),
                ));
                at = position;
            }
            let before = feed(&mut model, &mut cache, &shared[at..], 40);
            for (position, snapshot) in &snapshots {
                let mut fork = cache.fork(*position, snapshot).expect("a fork");
                assert_eq!(fork.len(), *position);
                let other = tokens(90, 288, *position as u64);
                let got = feed(&mut model, &mut fork, &other, 33);
                let mut fresh = model.new_cache();
                feed(&mut model, &mut fresh, &shared[..*position], 40);
                let want = feed(&mut model, &mut fresh, &other, 40);
                assert_eq!(bits(&got), bits(&want), "{precision:?} at {position}");
            }
            // The forks have left the cache they came from alone.
            let mut again = cache
                .fork(at, &snapshots.last().expect("three").1)
                .expect("a fork");
            let after = feed(&mut model, &mut again, &shared[at..], 7);
            assert_eq!(bits(&after), bits(&before), "{precision:?} after {at}");
            assert_eq!(before.len(), (shared.len() - at) * width);
        }
    }
}

/// A position is known exactly as long as its window is still in the ring, and what is known is right.
#[test]
fn rings_know_the_recent_past_and_no_more() {
    let options = ModelOptions {
        max_rows: 16,
        threads: 1,
        ..ModelOptions::default()
    };
    let mut model = golden("tiny-hf-sharded")
        .expect("a fixture")
        .model(&options);
    let ids = tokens(900, 288, 5);
    let mut cache = model.new_cache();
    let mut promised = Vec::new();
    for (step, chunk) in ids.chunks(15).enumerate() {
        feed(&mut model, &mut cache, chunk, 15);
        let len = cache.len();
        assert!(cache.snapshot_known(len));
        assert!(!cache.snapshot_known(len + 1) && cache.snapshot(len + 1).is_none());
        promised.push((len, len + cache.slack()));
        for &(position, until) in &promised {
            assert_eq!(
                cache.snapshot_known(position),
                len <= until,
                "{position} at {len}"
            );
        }
        if step % 10 == 9 {
            for &(position, _) in promised.iter().rev().take(20) {
                let Some(snapshot) = cache.snapshot(position) else {
                    continue;
                };
                let mut fork = cache.fork(position, &snapshot).expect("a fork");
                let got = feed(&mut model, &mut fork, &ids[position..len], 16);
                let mut fresh = model.new_cache();
                let all = feed(&mut model, &mut fresh, &ids[..len], 16);
                assert_eq!(
                    bits(&got),
                    bits(&all[position * model.hidden_size()..]),
                    "{position} at {len}"
                );
            }
        }
    }
    assert!(
        promised.iter().any(|&(_, until)| until < ids.len()),
        "nothing was ever forgotten"
    );
    let other = cache.snapshot(cache.len()).expect("the present is known");
    let mut short = model.new_cache();
    assert!(cache.fork(3, &other).is_err() && short.restore(&other).is_err());
}

#[test]
fn memory_follows_use() {
    let mut model = golden("tiny-hf-sharded")
        .expect("a fixture")
        .model(&ModelOptions {
            max_rows: 64,
            threads: 1,
            ..ModelOptions::default()
        });
    let mut cache = model.new_cache();
    assert_eq!(cache.bytes(), 0);
    let mut sizes = Vec::new();
    for chunk in tokens(3000, 288, 6).chunks(50) {
        feed(&mut model, &mut cache, chunk, 50);
        sizes.push(cache.bytes());
    }
    // 2 KV heads of 16 keys and 16 values in half precision.
    let block = 256 * 2 * (16 + 16) * 2;
    assert_eq!(sizes[0], 4 * block);
    // Three rings of two blocks, and one layer that grows.
    assert_eq!(
        *sizes.last().expect("sizes"),
        (3 * 2 + 3000usize.div_ceil(256)) * block
    );
    let snapshot = cache.snapshot(cache.len()).expect("the present is known");
    assert!(snapshot.bytes() <= 6 * block);
}
