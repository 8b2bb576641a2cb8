#!/usr/bin/env bash
# Type-checks the addon for every target that a package is made for and that this machine cannot build.
. "$(dirname "$0")/common.sh"
for target in {x86_64,aarch64}-pc-windows-msvc {x86_64,aarch64}-apple-darwin {x86_64,aarch64}-unknown-linux-musl aarch64-unknown-linux-gnu; do
  use_target "$target"
  # Without it, musl has no libraries that load at run time, and the addon is one.
  case $target in *-musl) export RUSTFLAGS='-C target-feature=-crt-static' ;; *) unset RUSTFLAGS ;; esac
  cargo check --quiet -p binding --target "$target" --target-dir target/types "${build_std[@]}"
  echo "$target: types checked by $("$RUSTC" --version)"
done
