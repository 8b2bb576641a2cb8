#!/usr/bin/env bash
# Runs the probe and the tests of the addon, the engine and the server on Node 20, 22 and 24.
. "$(dirname "$0")/common.sh"
reference
isa=$(node -p "JSON.parse(require('fs').readFileSync('$work/reference.json')).where.isa")
for version in 20 22 24; do
  node=$(node_package "node@$version")/bin/node
  name="node-$version"
  "$node" "$here"/probe.mjs . "$work/scratch-$name" "$work/$name.json" || true
  compare "$name" "$isa"
  PATH="$(dirname "$node"):$PATH" "$node" node_modules/tap/dist/esm/run.mjs --disable-coverage --reporter=terse \
    __test__/native __test__/engine __test__/chat __test__/text __test__/server
done
