#!/usr/bin/env bash
# How long `distlock run` takes until its command runs: the median of ROUNDS starts, on SQLite and on a Redis server of its own.
# Fails above the bar. BINARY: the command to measure (target/release/distlock, as `make command` builds it).
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${BINARY:-target/release/distlock}
rounds=${ROUNDS:-101}
# On Redis two round trips would be allowed on top; here they lead through loopback, and are counted in.
most_us=20000

if [ "${1:-}" != --with-servers ]; then
    ./dev/services.sh missing redis >/dev/null || ./dev/services.sh install redis
    exec ./dev/services.sh run redis -- ./dev/startup.sh --with-servers
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Microseconds until the command ran, in the middle of all rounds; the command's own start is in it.
measure() {
    local started ran
    for _ in $(seq "$rounds"); do
        started=${EPOCHREALTIME/[.,]/}
        ran=$("$binary" run --url "$1" startup -- date +%s%6N)
        echo $((ran - started))
    done | sort -n | sed -n "$((rounds / 2 + 1))p"
}

verdict=0
for store in sqlite redis; do
    case $store in
    sqlite) url=sqlite:$folder/locks.db ;;
    redis) url=$LOCK_TEST_REDIS_URL ;;
    esac
    "$binary" run --url "$url" startup -- true
    us=$(measure "$url")
    printf 'distlock run on %s: its command runs after %d.%d ms, the median of %d starts\n' \
        "$store" $((us / 1000)) $((us % 1000 / 100)) "$rounds"
    if [ "$us" -gt "$most_us" ]; then
        echo "!! more than $((most_us / 1000)) ms" >&2
        verdict=1
    fi
done
exit $verdict
