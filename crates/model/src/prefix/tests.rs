use super::*;
use crate::backend::{Backend, HiddenWanted, SeqRows};
use crate::fake::{Fake, FakeCache};

/// A cache that has seen these tokens.
fn evaluated(tokens: &[u32]) -> FakeCache {
    let mut fake = Fake {
        slack: 0,
        ..Default::default()
    };
    let mut cache = fake.new_cache();
    fake.forward(&mut [SeqRows {
        cache: &mut cache,
        tokens,
        hidden: HiddenWanted::None,
    }])
    .unwrap();
    cache
}

fn tokens(length: u32, salt: u32) -> Vec<u32> {
    (0..length).map(|i| (i + salt) % 60).collect()
}

fn keep(store: &mut PrefixStore<FakeCache>, tokens: &[u32], snapshot_at: &[usize]) {
    let mut snapshots = Snapshots::new();
    for &at in snapshot_at {
        snapshots.take(&evaluated(&tokens[..at]), at);
    }
    store.keep(tokens.to_vec(), evaluated(tokens), snapshots);
}

fn resumed_at(store: &mut PrefixStore<FakeCache>, prompt: &[u32]) -> usize {
    store
        .resume(prompt)
        .map_or(0, |resumed| resumed.cache.len())
}

#[test]
fn memory_stays_within_the_budget_and_the_least_recently_used_goes_first() {
    // A cache of 30 tokens takes 100 + 30 * 10 + 30 * 4 bytes in the fake's account.
    let mut store = PrefixStore::new(3 * 520);
    for salt in 0..3 {
        keep(&mut store, &tokens(30, salt * 10), &[]);
    }
    let continued = |salt: u32| [tokens(30, salt * 10), vec![59]].concat();
    let used = store.resume(&continued(0)).expect("still kept");
    store.keep(tokens(30, 0), used.cache, used.snapshots);
    keep(&mut store, &tokens(30, 30), &[]);
    assert!(store.bytes() <= 3 * 520);
    assert_eq!(
        resumed_at(&mut store, &continued(1)),
        0,
        "the one not used for longest is gone"
    );
    for salt in [0, 2, 3] {
        assert_eq!(resumed_at(&mut store, &continued(salt)), 30);
    }
    keep(&mut store, &tokens(500, 0), &[]);
    assert_eq!(
        store.bytes(),
        0,
        "what is over the budget alone is not kept"
    );
}

#[test]
fn a_prefix_is_copied_where_the_rest_may_still_be_wanted() {
    let mut store = PrefixStore::new(1 << 20);
    keep(&mut store, &tokens(30, 0), &[12, 20]);
    let branch = |at: usize| [&tokens(30, 0)[..at], &[59, 58]].concat();
    assert_eq!(resumed_at(&mut store, &branch(25)), 20);
    assert_eq!(resumed_at(&mut store, &branch(20)), 20);
    assert_eq!(resumed_at(&mut store, &branch(19)), 12);
    assert_eq!(resumed_at(&mut store, &branch(11)), 0);
    assert_eq!(
        resumed_at(&mut store, &tokens(20, 0)),
        12,
        "a prompt's last token is always left to evaluate"
    );
    assert_eq!(resumed_at(&mut store, &branch(30)), 30);
    assert_eq!(
        resumed_at(&mut store, &branch(30)),
        0,
        "a state that was continued is handed over, not copied"
    );
}

#[test]
fn a_longer_state_takes_over_what_a_shorter_one_knew() {
    let mut store = PrefixStore::new(1 << 20);
    keep(&mut store, &tokens(20, 0), &[8]);
    let shorter = store.bytes();
    keep(&mut store, &tokens(30, 0), &[25]);
    assert!(store.bytes() < shorter + 520 + 100);
    assert_eq!(
        resumed_at(&mut store, &[&tokens(30, 0)[..10], &[59]].concat()),
        8
    );
    assert_eq!(
        resumed_at(&mut store, &[&tokens(30, 0)[..27], &[59]].concat()),
        25
    );
}

#[test]
fn the_number_of_snapshots_is_bounded_and_the_first_and_last_stay() {
    let mut store = PrefixStore::new(1 << 20);
    let all: Vec<usize> = (1..=20).collect();
    keep(&mut store, &tokens(30, 0), &all);
    let branch = |at: usize| [&tokens(30, 0)[..at], &[59]].concat();
    assert_eq!(resumed_at(&mut store, &branch(20)), 20);
    assert_eq!(resumed_at(&mut store, &branch(14)), 14);
    assert_eq!(resumed_at(&mut store, &branch(13)), 1);
}
