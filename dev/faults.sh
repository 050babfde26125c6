#!/usr/bin/env bash
# faults.sh run STORE|all FAULT|all, faults.sh quick, faults.sh summarise: cells of the grid of faults, on servers of their own.
# Results go to target/faults/, and from there, by `summarise`, to docs/faults/results.json, of which `make docs` makes a page.
set -euo pipefail
cd "$(dirname "$0")/.."

# Built as the tests are, so that it shares what is built for them.
# shellcheck disable=SC2046
program=$(cargo test --no-run --quiet --message-format=json $(./dev/scope.sh) --example faults |
    sed -n 's/.*"name":"faults".*"executable":"\([^"]*\)".*/\1/p')
case ${1:-} in
summarise)
    mkdir -p docs/faults
    exec "$program" summarise docs/faults/results.json
    ;;
run) store=$2 ;;
quick) store=all ;;
*)
    sed -n '2,3s/^# //p' "$0"
    exit 64
    ;;
esac
export CONFORMANCE_REQUIRE=${CONFORMANCE_REQUIRE-1}
groups=$("$program" groups "$store")
[ -n "$groups" ] || exec "$program" "$@"
# shellcheck disable=SC2086
./dev/services.sh missing $groups >/dev/null || ./dev/services.sh install $groups
# shellcheck disable=SC2086
exec ./dev/services.sh run $groups -- "$program" "$@"
