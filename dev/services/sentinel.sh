# A master, two replicas and three sentinels that watch over them.

GROUPS_KNOWN+=(sentinel)

sentinel_needs() {
    redis_needs
}

sentinel_members() {
    echo ms{0..2} se{0..2}
}

sentinel_url() {
    echo "redis+sentinel://$(hosts $((BASE + 15)) 3)/mymaster"
}

sentinel_answers() {
    redis_answers "$1"
}

# Every sentinel sees enough sentinels to fail over, and all see one master, to which both others are linked.
sentinel_whole() {
    local port master first=""
    for port in $((BASE + 15)) $((BASE + 16)) $((BASE + 17)); do
        [[ $(redis_command "$port" sentinel ckquorum mymaster) == "OK 3 usable"* ]] || return 1
        master=$(redis_command "$port" sentinel get-master-addr-by-name mymaster | tail -n 1)
        [ "$master" = "${first:=$master}" ] || return 1
    done
    both_replicas_linked "$master"
}

sentinel_up() {
    local number
    redis_server ms0 $((BASE + 10)) 'repl-diskless-sync-delay 0'
    for number in 1 2; do
        redis_server "ms$number" $((BASE + 10 + number)) 'repl-diskless-sync-delay 0' "replicaof $HOST $((BASE + 10))"
    done
    # The replicas are linked before the sentinels look: they ask again only every 10 s.
    wait_until replicas ms0 ms1 ms2 -- both_replicas_linked $((BASE + 10)) || return 1
    for number in 0 1 2; do
        sentinel_server "$number"
    done
    wait_until sentinel se0 se1 se2 -- sentinel_whole
}

both_replicas_linked() {
    [ "$(redis_command "$1" info replication | grep -c state=online)" = 2 ]
}

# The identities, replicas and peers are written down at once, which saves the sentinels 2 to 10 s of finding out.
sentinel_server() {
    local number=$1 other folder=$SVC_DIR/se$1 port=$((BASE + 15 + $1))
    mkdir -p "$folder/data"
    {
        printf 'port %s\nbind %s\nprotected-mode no\ndir %s/data\n' "$port" "$HOST" "$folder"
        printf 'sentinel monitor mymaster %s %s 2\n' "$HOST" $((BASE + 10))
        # Long enough that a busy machine isn't taken for a dead server.
        printf 'sentinel down-after-milliseconds mymaster 2000\n'
        printf 'sentinel failover-timeout mymaster 5000\n'
        printf 'sentinel parallel-syncs mymaster 2\n'
        printf 'sentinel myid %s\n' "$(sentinel_id "$number")"
        for other in 1 2; do
            printf 'sentinel known-replica mymaster %s %s\n' "$HOST" $((BASE + 10 + other))
        done
        for other in 0 1 2; do
            [ "$other" = "$number" ] ||
                printf 'sentinel known-sentinel mymaster %s %s %s\n' "$HOST" $((BASE + 15 + other)) "$(sentinel_id "$other")"
        done
    } >"$folder/sentinel.conf"
    spawn "se$number" "$port" redis-server "$folder/sentinel.conf" --sentinel
}

sentinel_id() {
    printf '%040x' $((BASE * 10 + $1 + 1))
}
