#!/usr/bin/env bash
# Runs the tests of the kernels, and one small model against its golden logits, on emulated 64-bit ARM: once on a CPU with
# plain NEON, once on one with the dot-product instructions.
. "$(dirname "$0")/common.sh"
target=aarch64-unknown-linux-gnu
install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
use_target "$target" libstd-rust-web-dev:arm64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# Emulation is slow: one case in so many.
export KERNELS_TEST_THIN=${KERNELS_TEST_THIN:-5}
run() {
  echo "== CPU $1 (emulated): ${*:2}"
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -cpu $1" \
    cargo test --target "$target" --target-dir target/arm64 "${@:2}" -- --show-output
}
for cpu in cortex-a72 max; do
  run "$cpu" -p kernels --lib --test products
  run "$cpu" -p model --test forward goldens::hugging_face_sharded
done
