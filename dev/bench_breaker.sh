#!/usr/bin/env bash
# bench_breaker.sh break|mend GROUP: kills the leading server of a group of dev/services.sh, or starts again what is down
# and waits until the group is whole. For `distlock bench --breaker`, below `services.sh run`.
set -euo pipefail
cd "$(dirname "$0")"
deed=${1:-} group=${2:-}

# Every server as: name state port
servers() {
    ./services.sh status | awk '{print $1, $2, $4}'
}

name_at() {
    servers | awk -v port="$1" '$3 == port {print $1}'
}

ports_of() {
    servers | awk -v names="$1" '$1 ~ names && $2 == "up" {print $3}'
}

leader_of() {
    local port
    case $1 in
    sentinel)
        port=$(ports_of '^se' | head -n 1)
        name_at "$(redis-cli -p "$port" sentinel get-master-addr-by-name mymaster | tail -n 1)"
        ;;
    cluster)
        for port in $(ports_of '^cl'); do
            if [ "$(redis-cli -p "$port" role | head -n 1)" = master ]; then
                name_at "$port"
                return
            fi
        done
        ;;
    etcd3)
        for port in $(ports_of '^e[0-9]$'); do
            if ETCDCTL_API=3 etcdctl --endpoints="http://127.0.0.1:$port" endpoint status | awk -F ', ' '$5 == "true" {ok = 1} END {exit !ok}'; then
                name_at "$port"
                return
            fi
        done
        ;;
    zk3)
        for port in $(ports_of '^z[0-9]$'); do
            # shellcheck disable=SC2016
            if timeout 5 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" && echo srvr >&3 && cat <&3' ask "$port" | grep -q 'Mode: leader'; then
                name_at "$port"
                return
            fi
        done
        ;;
    esac
}

case $deed in
break)
    leader=$(leader_of "$group")
    if [ -z "$leader" ]; then
        echo "no leading server of $group is known" >&2
        exit 1
    fi
    ./services.sh kill "$leader"
    ;;
mend)
    for name in $(servers | awk '$2 == "down" {print $1}'); do
        ./services.sh start "$name"
    done
    ./services.sh wait "$group"
    ;;
*)
    echo "write: bench_breaker.sh break|mend GROUP" >&2
    exit 64
    ;;
esac
