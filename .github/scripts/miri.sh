#!/usr/bin/env bash
# What Miri can run: no files are mapped in these tests, and no instruction set is asked for. It needs a nightly compiler with the
# components miri and rust-src. The rest of the unsafe code is for sanitize.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
export MIRIFLAGS='-Zmiri-disable-isolation'
cargo +nightly miri test -p kernels --lib -- data::buffer data::layout
cargo +nightly miri test -p model --lib -- engine:: prefix:: scheduler:: sampler:: json:: \
  pool::tests::a_panic_becomes_an_error pool::tests::sleeping_threads_wake
