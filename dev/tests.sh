#!/usr/bin/env bash
# Runs every test of every crate against real servers, and ends with one line: N passed, N failed, N skipped.
# Installs what is missing where it may. What it can't have it leaves out and says so, unless CONFORMANCE_REQUIRE=1
# is set: then it fails.
set -uo pipefail
cd "$(dirname "$0")/.."

# The groups of servers that a backend is tested on.
STORES=(redis sentinel cluster)

fail() {
    echo "$*" >&2
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}

install_compiler() {
    command -v cc >/dev/null || command -v gcc >/dev/null && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -q && apt-get install -y -q gcc libc6-dev
    else
        fail "no C compiler: SQLite can't be built; install gcc or clang"
    fi
}

# The stores that can be started, or that the caller has started.
choose_stores() {
    local store variable
    stores=()
    for store in "${STORES[@]}"; do
        variable=LOCK_TEST_${store^^}_URL
        if [ -n "${!variable:-}" ] || ./dev/services.sh missing "$store" >/dev/null; then
            stores+=("$store")
        else
            left_out+=("$store")
        fi
    done
}

report_left_out() {
    [ ${#left_out[@]} -gt 0 ] || return 0
    echo "!! NOT TESTED: ${left_out[*]}"
    echo "!! there is no" $(./dev/services.sh missing "${left_out[@]}") "and no right to install it;"
    echo "!! have somebody run: dev/services.sh install"
}

step() {
    echo "== $*"
    "$@" 2>&1 | tee -a "$log"
    local status=${PIPESTATUS[0]}
    [ "$status" -eq 0 ] || failed_steps+=("$*")
}

count() {
    awk -v word="$1" '/^test result:/ {
        for (i = 1; i < NF; i++) if ($(i + 1) ~ "^" word) sum += $i
    } END {print sum + 0}' "$log"
}

run_everything() {
    failed_steps=()
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    # The core once without features: a feature must only add.
    step cargo test --no-fail-fast -p distlock-core -p distlock
    # Without choosing targets, so that the examples are built for the tests that run them.
    step cargo test --no-fail-fast --workspace --all-features

    local passed failed skipped
    passed=$(count passed) failed=$(count failed) skipped=$(count ignored)
    if [ "${#failed_steps[@]}" -gt 0 ]; then
        printf 'failed: %s\n' "${failed_steps[@]}"
        [ "$failed" -gt 0 ] || failed=${#failed_steps[@]}
    fi
    # On the file that tells the caller that the servers had started.
    echo "$passed passed, $failed failed, $skipped skipped" >"$SUMMARY"
    [ "$failed" -eq 0 ]
}

if [ "${1:-}" = --with-servers ]; then
    run_everything
    exit
fi

left_out=()
install_compiler
./dev/services.sh missing "${STORES[@]}" >/dev/null || ./dev/services.sh install "${STORES[@]}"
choose_stores
report_left_out
if [ ${#left_out[@]} -gt 0 ]; then
    [ "${CONFORMANCE_REQUIRE:-0}" != 1 ] || fail "CONFORMANCE_REQUIRE=1: nothing may be left out"
    export CONFORMANCE_REQUIRE=0
fi
export CONFORMANCE_REQUIRE=${CONFORMANCE_REQUIRE-1}

SUMMARY=$(mktemp)
export SUMMARY
trap 'rm -f "$SUMMARY"' EXIT
if [ ${#stores[@]} -gt 0 ]; then
    # A killed run must not go on, nor leave a server.
    setpriv --pdeathsig KILL -- ./dev/services.sh run "${stores[@]}" -- ./dev/tests.sh --with-servers
else
    ./dev/tests.sh --with-servers
fi
status=$?
report_left_out
[ -s "$SUMMARY" ] || fail "the servers did not start"
cat "$SUMMARY"
exit "$status"
