#!/usr/bin/env bash
# The tests of `kernels` and `model` under AddressSanitizer, which also finds what is never freed: sanitize.sh [cargo test's arguments].
# On nightly where that is installed, else on stable with the same flags.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo=(cargo +nightly)
if ! cargo +nightly --version >/dev/null 2>&1; then
  export RUSTC_BOOTSTRAP=1
  cargo=(cargo)
fi
target=$("${cargo[@]}" -vV | sed -n 's/^host: //p')
export RUSTFLAGS='-Zsanitizer=address -Copt-level=1'
# Doc tests are compiled without the flags.
"${cargo[@]}" test -p kernels -p model --lib --tests --target "$target" --target-dir target/sanitize "$@"
