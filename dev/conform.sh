#!/usr/bin/env bash
# conform.sh STORE [FILTER [OPTION..]]: the conformance suite on one store. The store's servers run for as long, unless the
# caller names one in LOCK_TEST_<GROUP>_URL.
set -euo pipefail
cd "$(dirname "$0")/.."
. dev/stores.sh
. dev/build_needs.sh
store=${1:-}
if ! read -r _ package feature group program _ < <(stores | awk -v store="$store" '$1 == store'); then
    echo "no backend for $store; there are:" $(stores | cut -d ' ' -f 1) >&2
    exit 64
fi
shift
features=(--features "$feature")
[ "$feature" != all ] || features=(--all-features)
if [[ " $(wanting_protoc) " == *" $package "* ]] && ! has_protoc; then
    install_packages protobuf-compiler libprotobuf-dev || {
        echo "$package needs protoc: install protobuf-compiler and libprotobuf-dev" >&2
        exit 1
    }
fi
export CONFORMANCE_REQUIRE=1 CONFORMANCE_STORE=$store
command=(cargo test -p "$package" "${features[@]}" --test "$program" -- "$@")
[ "$group" != - ] || exec "${command[@]}"
exec ./dev/services.sh run "$group" -- "${command[@]}"
