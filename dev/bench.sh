#!/usr/bin/env bash
# bench.sh full|quick: compares stores on servers of their own, and leaves the report in target/bench. What the machine
# lacks is left out, and said. Settings: BENCH_OUT, the folder; BENCH_PROFILE, release or dev; BENCH_PEERS=no.
set -euo pipefail
cd "$(dirname "$0")/.."
. dev/build_needs.sh

mode=${1:-full}
out=${BENCH_OUT:-target/bench}
profile=${BENCH_PROFILE:-release}

case $mode in
full) wanted=(redis sentinel cluster redlock etcd etcd3 postgres mysql zk zk3) ;;
quick) wanted=(redis etcd postgres) ;;
*)
    echo "write: bench.sh full|quick" >&2
    exit 64
    ;;
esac

folder_of() {
    [ "$profile" = dev ] && echo debug || echo "$profile"
}

build() {
    local features=sqlite,redis,postgres,mysql,zk
    if has_protoc || install_packages protobuf-compiler libprotobuf-dev; then
        features+=,etcd
    else
        echo "!! without etcd: there is no protoc" >&2
        wanted=("${wanted[@]/etcd*/}")
    fi
    cargo build --profile "$profile" -p distlock-cli --features "$features"
    [ "${BENCH_PEERS:-yes}" = yes ] || return 0
    # Other people's libraries may fail to build; the report then names them as missing.
    local peers=()
    [[ $features != *etcd* ]] || peers=(--features etcd)
    cargo build --profile "$profile" --manifest-path peers/Cargo.toml --target-dir target/peers "${peers[@]}" ||
        echo "!! without peers: they can't be built" >&2
}

# Stage two, with the servers' URLs in the environment.
compare() {
    local label url arguments=() peers
    peers=target/peers/$(folder_of)/distlock-peers
    data=$(mktemp -d "$PWD/$out/data.XXXXXX")
    trap 'rm -rf "$data"' EXIT
    store() {
        [ -z "$2" ] || arguments+=(--store "$1=$2")
    }
    [ "$mode" = quick ] || store memory memory:
    store sqlite "sqlite:$data/locks.db"
    store redis "${LOCK_TEST_REDIS_URL:-}"
    store etcd "${LOCK_TEST_ETCD_URL:-}"
    store postgres "${LOCK_TEST_POSTGRES_URL:-}"
    if [ "$mode" = full ]; then
        url=${LOCK_TEST_REDIS_URL:-}
        store redis-queue "${url:+$url?queue=true}"
        for label in sentinel cluster redlock etcd3 mysql zk zk3; do
            url=LOCK_TEST_${label^^}_URL
            store "$label" "${!url:-}"
        done
        url=${LOCK_TEST_POSTGRES_URL:-}
        store postgres-advisory "${url:+postgres+advisory${url#postgres}}"
        url=${LOCK_TEST_MYSQL_URL:-}
        store mysql-named "${url:+mysql+named${url#mysql}}"
        arguments+=(--breaker ./dev/bench_breaker.sh)
        for label in sentinel cluster etcd3 zk3; do
            url=LOCK_TEST_${label^^}_URL
            [ -z "${!url:-}" ] || arguments+=(--failover "$label")
        done
        arguments+=(--round 400ms)
    else
        arguments+=(--quick)
    fi
    [ -z "${SVC_DURABLE:-}" ] || arguments+=(--durability "$SVC_DURABLE")
    [ "${BENCH_PEERS:-yes}" != yes ] || [ ! -x "$peers" ] || arguments+=(--peers "$peers")
    "target/$(folder_of)/distlock" bench --out "$out" "${arguments[@]}"
}

mkdir -p "$out"
if [ "${2:-}" = --with-servers ]; then
    compare
    exit
fi
build
groups=()
for group in "${wanted[@]}"; do
    if [ -z "$group" ]; then
        continue
    elif ./dev/services.sh missing "$group" >/dev/null || ./dev/services.sh install "$group"; then
        groups+=("$group")
    else
        echo "!! without $group: $(./dev/services.sh missing "$group" | tr '\n' ' ')missing" >&2
    fi
done
# Durable: what a grant costs where it outlives a power cut.
export SVC_DURABLE=${SVC_DURABLE:-disk}
exec ./dev/services.sh run "${groups[@]}" -- ./dev/bench.sh "$mode" --with-servers
