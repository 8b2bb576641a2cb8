#!/usr/bin/env bash
# Runs the tests of the kernels, and one small model against its golden logits, on emulated AArch64: once on a CPU with plain
# NEON, once on one with the dot-product instructions. For Debian and Ubuntu; installs what is missing (as root).
set -euo pipefail
cd "$(dirname "$0")/../.."

target=aarch64-unknown-linux-gnu
packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static)
rustc=$(command -v rustc)
# A toolchain with the target's standard library: rustup's where it can be had, else the distribution's second compiler.
has_target() { [ -d "$("$1" --print sysroot)/lib/rustlib/$target/lib" ]; }
if ! has_target "$rustc"; then
  rustup target add "$target" >/dev/null 2>&1 || true
fi
if ! has_target "$rustc"; then
  rustc=/usr/bin/rustc
  packages+=(rustc-web libstd-rust-web-dev:arm64)
fi
missing() { ! dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
install=()
for package in "${packages[@]}"; do
  if missing "$package"; then install+=("$package"); fi
done
if [ ${#install[@]} -gt 0 ]; then
  dpkg --add-architecture arm64
  flock /tmp/apt.lock apt-get update -q
  DEBIAN_FRONTEND=noninteractive flock /tmp/apt.lock apt-get install -y -q --no-install-recommends "${install[@]}"
fi

export RUSTC=$rustc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# Emulation is slow: one case in so many.
export KERNELS_TEST_THIN=${KERNELS_TEST_THIN:-5}
run() {
  echo "== $1"
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -cpu $1" \
    cargo test --target "$target" --target-dir target/arm64 "${@:2}"
}
for cpu in cortex-a72 max; do
  run "$cpu" -p kernels --lib --test products
  run "$cpu" -p model --test forward goldens::hugging_face_sharded
done
