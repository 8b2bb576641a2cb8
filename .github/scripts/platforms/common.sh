# shellcheck shell=bash
# Sourced by the scripts beside it. They run in a clone where `npm ci` has built; what else they need they install: Debian
# packages as root or through sudo, other Nodes from npm.
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
here=.github/scripts/platforms
set -euo pipefail
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
missing() { ! dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# install PACKAGE...: the Debian packages that are not there yet.
install() {
  local needed=() package
  for package in "$@"; do
    if missing "$package"; then needed+=("$package"); fi
  done
  [ ${#needed[@]} -gt 0 ] || return 0
  case " ${needed[*]} " in *:arm64\ *) as_root dpkg --add-architecture arm64 ;; esac
  as_root flock /tmp/apt.lock apt-get update -q >/dev/null
  as_root env DEBIAN_FRONTEND=noninteractive flock /tmp/apt.lock apt-get install -y -q --no-install-recommends "${needed[@]}" >/dev/null
}

has_target() { [ -d "$("$1" --print sysroot)/lib/rustlib/$2/lib" ]; }

# use_target TARGET [PACKAGE...]: sets RUSTC to a compiler that has the target's standard library: rustup's where it is there
# (fetched only on a runner of GitHub's, or with RUSTUP_FETCH=1), else the distribution's second one, whose library PACKAGE brings
# or, without one, is built along (build_std).
use_target() {
  RUSTC=$(command -v rustc)
  build_std=()
  if ! has_target "$RUSTC" "$1" && [ -n "${RUSTUP_FETCH:-${GITHUB_ACTIONS:-}}" ]; then rustup target add "$1" >/dev/null; fi
  if ! has_target "$RUSTC" "$1"; then
    RUSTC=/usr/bin/rustc
    if [ $# -gt 1 ]; then
      install rustc-web "${@:2}"
    else
      install rustc-web rust-web-src
      export RUSTC_BOOTSTRAP=1
      # For the scripts.
      # shellcheck disable=SC2034
      build_std=("-Zbuild-std=std,panic_unwind")
    fi
  fi
  export RUSTC
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# node_package PACKAGE: fetches a Node for another platform or of another version from npm into the folder it prints.
node_package() {
  local folder=$work/nodes/$1
  mkdir -p "$folder"
  npm install --prefix "$folder" --no-save --no-audit --no-fund --force --silent "$1" >/dev/null 2>&1
  echo "$folder/node_modules/${1%@*}"
}

# stage NAME ADDON: lays out an installed package with this one addon, in the folder it prints.
stage() {
  local folder=$work/$1
  mkdir -p "$folder"
  cp -r package.json index.js dist models "$folder"
  ln -s "$PWD/node_modules" "$folder/node_modules"
  cp "$2" "$folder/$3"
  echo "$folder"
}

# reference: what this machine's own Node and addon answer, in $work/reference.json. The best kernel set runs here.
reference() {
  node "$here"/probe.mjs . "$work/scratch-reference" "$work/reference.json"
}

# compare NAME KERNEL-SET [CPU]: the result in $work/NAME.json against it. CPU is the emulated one, where it is emulated.
compare() {
  node "$here"/compare.mjs "$1" "$2" "$work/reference.json" "$work/$1.json" "${3:-}"
}
