#!/usr/bin/env bash
# Runs Node with this machine's own x64 addon on older x86 CPUs, emulated: Haswell (AVX2, no AVX-512) and Nehalem (no AVX at
# all). An instruction outside a function that asked for it would end the process.
. "$(dirname "$0")/common.sh"
install qemu-user-static
folder=$(stage x86 maple-cpu.linux-x64-gnu.node maple-cpu.linux-x64-gnu.node)
reference
run() {
  # The emulator names what it lacks of such a CPU; nothing here uses that.
  qemu-x86_64-static -cpu "$1" "$(command -v node)" \
    "$here"/probe.mjs "$folder" "$work/scratch-$1" "$work/$1.json" 2> >(grep -v "TCG doesn't support" >&2) || true
  compare "$1" "$2" "$1"
}
run Haswell avx2
run Nehalem scalar
