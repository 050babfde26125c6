#!/usr/bin/env bash
# conform.sh STORE [FILTER [OPTION..]]: the conformance suite on one store. The store's servers run for as long, unless the
# caller names one in LOCK_TEST_<STORE>_URL.
set -euo pipefail
cd "$(dirname "$0")/.."
store=$1
shift
export CONFORMANCE_REQUIRE=1
case $store in
memory)
    exec cargo test -p distlock-conformance --test memory -- "$@"
    ;;
sqlite)
    exec cargo test -p distlock-sql --features sqlite --test conformance -- "$@"
    ;;
redis | sentinel | cluster | valkey | redis8 | redis-queue | sentinel-queue | cluster-queue | valkey-queue | redis8-queue)
    export CONFORMANCE_STORE=$store
    exec ./dev/services.sh run "${store%-queue}" -- \
        cargo test -p distlock-redis --all-features --test conformance -- "$@"
    ;;
*)
    echo "no backend $store; there are: memory sqlite redis sentinel cluster valkey redis8, the last five also with -queue" >&2
    exit 64
    ;;
esac
