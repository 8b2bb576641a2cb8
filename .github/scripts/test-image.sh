#!/usr/bin/env bash
# Runs an image with the rights that deploy/compose.yaml leaves it, and the small model: it must answer, not as root, be found healthy,
# and end in order when it is stopped. Usage: test-image.sh IMAGE
set -euo pipefail
image=$1
name=maple-cpu-test-$$
trap 'docker rm --force --volumes "$name" >/dev/null 2>&1 || true' EXIT
rights=(--read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges --memory 1g)
fail() {
    echo "$image: $1" >&2
    exit 1
}

user=$(docker inspect --format '{{.Config.User}}' "$image")
[ "$user" = 1000 ] || fail "runs as '$user', expected 1000"
answer=$(docker run --rm "${rights[@]}" "$image" run 'Say hello in French.')
[ -n "$answer" ] || fail 'no answer'
echo "run: $answer"

docker run --detach --name "$name" --health-interval 2s --env MAPLE_MODEL_PATH=sprout "${rights[@]}" "$image" >/dev/null
for _ in $(seq 60); do
    health=$(docker inspect --format '{{.State.Health.Status}}' "$name")
    [ "$health" != starting ] && break
    sleep 1
done
[ "$health" = healthy ] || { docker logs "$name"; fail "expected to be healthy, is $health"; }
docker stop --time 30 "$name" >/dev/null
code=$(docker inspect --format '{{.State.ExitCode}}' "$name")
[ "$code" = 0 ] || { docker logs "$name"; fail "stopped with exit code $code, expected 0"; }
echo 'serve: healthy, and stopped in order'
