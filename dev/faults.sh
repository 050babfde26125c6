#!/usr/bin/env bash
# faults.sh run STORE|all FAULT|all, faults.sh quick, faults.sh summarise: cells of the grid of faults, on servers of their own.
# SEED decides all random choices, of cells, cases and nemeses; without it there is another one each time. Results go to
# target/faults/, and from there, by `summarise`, to docs/faults/results.json, of which `make docs` makes a page.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-}:$# in
run:3) store=$2 replay="make faults B=$2 F=$3" ;;
quick:1) store=all replay="make faults-quick" ;;
summarise:1) ;;
*)
    sed -n '2,4s/^# //p' "$0"
    exit 64
    ;;
esac
seed=${SEED:-${FAULT_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}}
if ! [[ $seed =~ ^[0-9]{1,19}$ ]]; then
    echo "SEED=$seed is no number below 10^19" >&2
    exit 64
fi

# Built as the tests are, so that it shares what is built for them.
# shellcheck disable=SC2046
program=$(cargo test --no-run --quiet --message-format=json $(./dev/scope.sh) --example faults |
    sed -n 's/.*"name":"faults".*"executable":"\([^"]*\)".*/\1/p')
if [ "$1" = summarise ]; then
    mkdir -p docs/faults
    exec "$program" summarise docs/faults/results.json
fi

export CONFORMANCE_REQUIRE=${CONFORMANCE_REQUIRE-1}
export FAULT_SEED=$seed CONFORMANCE_SEED=$seed NEMESIS_SEED=$seed TEST_SEED=$seed
replay+=" SEED=$seed"
echo "seed $seed; once more: $replay"
groups=$("$program" groups "$store")
with_servers=()
if [ -n "$groups" ]; then
    # shellcheck disable=SC2086
    ./dev/services.sh missing $groups >/dev/null || ./dev/services.sh install $groups
    # shellcheck disable=SC2206
    with_servers=(./dev/services.sh run $groups --)
fi
status=0
"${with_servers[@]}" "$program" "$@" || status=$?
[ "$status" -eq 0 ] || [ "$status" -eq 64 ] || echo "replay it by: $replay" >&2
exit "$status"
