#!/usr/bin/env bash
# Runs every test of every crate, and ends with one line: N passed, N failed, N skipped.
# Environment: CONFORMANCE_REQUIRE=0 lets the suites leave out stores that are not there.
set -uo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed_steps=()

step() {
    echo "== $*"
    "$@" 2>&1 | tee -a "$log"
    local status=${PIPESTATUS[0]}
    [ "$status" -eq 0 ] || failed_steps+=("$*")
}

command -v cc >/dev/null || command -v gcc >/dev/null || {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -q && apt-get install -y -q gcc libc6-dev
    else
        echo "no C compiler: SQLite can't be built; install gcc or clang" >&2
        exit 1
    fi
}

export CONFORMANCE_REQUIRE=${CONFORMANCE_REQUIRE-1}
# The core once without features: a feature must only add.
step cargo test --no-fail-fast -p distlock-core -p distlock
# Without choosing targets, so that the examples are built for the tests that run them.
step cargo test --no-fail-fast --workspace --all-features

count() {
    awk -v word="$1" '/^test result:/ {
        for (i = 1; i < NF; i++) if ($(i + 1) ~ "^" word) sum += $i
    } END {print sum + 0}' "$log"
}
passed=$(count passed) failed=$(count failed) skipped=$(count ignored)
if [ "${#failed_steps[@]}" -gt 0 ]; then
    printf 'failed: %s\n' "${failed_steps[@]}"
    [ "$failed" -gt 0 ] || failed=${#failed_steps[@]}
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
