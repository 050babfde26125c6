#!/usr/bin/env bash
# Runs every test of every crate against real servers, and ends with one line: N passed, N failed, N skipped.
# Installs what is missing where it may. What it can't have it leaves out and says so, unless CONFORMANCE_REQUIRE=1
# is set: then it fails.
set -uo pipefail
cd "$(dirname "$0")/.."

. dev/stores.sh
. dev/build_needs.sh

fail() {
    echo "$*" >&2
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}

# What the build needs. A crate whose compiler can't be had is left out with its servers.
install_build_needs() {
    local crate
    has_compiler || install_packages gcc libc6-dev || fail "no C compiler: SQLite can't be built; install gcc or clang"
    [ -n "$(wanting_protoc)" ] && ! has_protoc || return 0
    install_packages protobuf-compiler libprotobuf-dev
    has_protoc && return
    for crate in $(wanting_protoc); do
        left_out+=("$crate")
        lacking+=(protoc)
        # shellcheck disable=SC2207
        unbuilt+=($(groups_of "$crate"))
    done
}

# The servers that can be started, or that the caller has started.
choose_groups() {
    local group variable wanted=()
    groups=()
    for group in $(groups_tested); do
        [[ " ${unbuilt[*]} " == *" $group "* ]] || wanted+=("$group")
    done
    ./dev/services.sh missing "${wanted[@]}" >/dev/null || ./dev/services.sh install "${wanted[@]}"
    for group in "${wanted[@]}"; do
        variable=LOCK_TEST_${group^^}_URL
        if [ -n "${!variable:-}" ] || ./dev/services.sh missing "$group" >/dev/null; then
            groups+=("$group")
        else
            left_out+=("$group")
            # shellcheck disable=SC2207
            lacking+=($(./dev/services.sh missing "$group"))
        fi
    done
}

report_left_out() {
    [ ${#left_out[@]} -gt 0 ] || return 0
    echo "!! NOT TESTED: ${left_out[*]}"
    echo "!! there is no" $(printf '%s\n' "${lacking[@]}" | sort -u) "and no right to install it;"
    echo "!! have somebody run: dev/services.sh install"
    [[ " ${lacking[*]} " != *" protoc "* ]] || echo "!! and install the packages protobuf-compiler and libprotobuf-dev"
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

# What the failed tests said, once more at the end, where it is found.
print_failures() {
    awk '/^failures:$/ { shown = 1 }
        /^test result:/ { shown = 0 }
        /^---- / || /^$/ { lines = 0 }
        shown && ++lines <= 15' "$log"
}

run_everything() {
    failed_steps=()
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    # The core once without features: a feature must only add.
    step cargo test --no-fail-fast -p distlock-core -p distlock
    # Without choosing targets, so that the examples are built for the tests that run them.
    # shellcheck disable=SC2046
    step cargo test --no-fail-fast $(./dev/scope.sh)

    local passed failed skipped
    passed=$(count passed) failed=$(count failed) skipped=$(count ignored)
    if [ "${#failed_steps[@]}" -gt 0 ]; then
        print_failures
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

left_out=() lacking=() unbuilt=()
install_build_needs
choose_groups
report_left_out
if [ ${#left_out[@]} -gt 0 ]; then
    [ "${CONFORMANCE_REQUIRE:-0}" != 1 ] || fail "CONFORMANCE_REQUIRE=1: nothing may be left out"
    export CONFORMANCE_REQUIRE=0
fi
export CONFORMANCE_REQUIRE=${CONFORMANCE_REQUIRE-1}

SUMMARY=$(mktemp)
export SUMMARY
trap 'rm -f "$SUMMARY"' EXIT
if [ ${#groups[@]} -gt 0 ]; then
    # A killed run must not go on, nor leave a server.
    setpriv --pdeathsig KILL -- ./dev/services.sh run "${groups[@]}" -- ./dev/tests.sh --with-servers
else
    ./dev/tests.sh --with-servers
fi
status=$?
report_left_out
[ -s "$SUMMARY" ] || fail "the servers did not start"
cat "$SUMMARY"
exit "$status"
