#!/usr/bin/env bash
# Runs every fuzz target: fuzz.sh [SECONDS EACH]. A minute is what CI does; an hour, `fuzz.sh 3600`, is for a change of a loader.
# On nightly where that is installed, else on stable with the same flags. Needs `cargo install --locked cargo-fuzz`.
set -euo pipefail
cd "$(dirname "$0")/../../crates/model"
seconds=${1:-60}

# What was found before is kept and gone on from; the first inputs are made anew.
FUZZ_SEEDS="$PWD/fuzz/corpus" cargo test --quiet --test loading -- --ignored --exact mutations::seeds

if cargo +nightly --version >/dev/null 2>&1; then
  fuzz() { cargo +nightly fuzz "$@"; }
else
  fuzz() { RUSTC_BOOTSTRAP=1 cargo fuzz "$@"; }
fi
fuzz build
for target in $(fuzz list); do
  echo "== $target, $seconds s"
  # Three million bytes hold the largest first input; what a load may take beside its file is bounded.
  fuzz run "$target" -- -max_total_time="$seconds" -max_len=3000000 -rss_limit_mb=2048 -timeout=60 -print_final_stats=1
done
