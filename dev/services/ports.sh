# A block of 100 ports for each set, below 32768 where the system takes no ports for outgoing connections. Who
# holds a lock on the block's file has reserved it. Offsets in the block:
#   0 redis   1-5 redlock   10-17 sentinel   20-35 cluster   36 valkey   37 redis8   38 redis6   40-47 etcd, etcd3
#   50-59 zk, zk3   60-64 postgres, pgbouncer, pgstandby   70-72 mysql, mysqlreplica   73-78 etcd35   the rest is free

BLOCK_FILES=/tmp/distlock-ports
LAST_BLOCK=32600

# Reserves a block for the set, unless it has one, and puts its first port into BASE.
claim_block() {
    local name
    if [ -n "$BASE" ] && is_alive .block; then
        [ "${SVC_BASE:-$BASE}" = "$BASE" ] || die "the set in $SVC_DIR is up on port $BASE; take it down first"
        return
    fi
    for name in $(server_names); do
        remove_server "$name" KILL
    done
    mkdir -p -m 1777 "$BLOCK_FILES"
    if [ -n "${SVC_BASE:-}" ]; then
        reserve "$SVC_BASE" || die "ports $SVC_BASE to $((SVC_BASE + 99)) are taken; set another SVC_BASE, or none"
        BASE=$SVC_BASE
    else
        reserve_first_free || die "no block of 100 ports is free from ${SVC_FIRST:-21000} on"
    fi
    echo "$BASE" >"$SVC_DIR/base"
    keep_reserved
}

reserve_first_free() {
    for ((BASE = ${SVC_FIRST:-21000}; BASE <= LAST_BLOCK; BASE += 100)); do
        ! reserve "$BASE" || return 0
    done
    return 1
}

# The reservation lasts as long as this process, which has inherited the lock.
keep_reserved() {
    mkdir -p "$SVC_DIR/.block"
    setsid sleep infinity </dev/null >/dev/null 2>&1 8>&- &
    remember .block $!
    exec 9<&-
}

# reserve BASE: leaves the lock on descriptor 9.
reserve() {
    local file=$BLOCK_FILES/$1
    # Other users reserve with the same files, so they are only ever created here, and opened for reading.
    [ -e "$file" ] || (umask 0 && : >"$file")
    exec 9<"$file" || return 1
    if ! flock --nonblock 9 || ! is_unused "$1"; then
        exec 9<&-
        return 1
    fi
}

# Whether nobody listens on any port of the block.
is_unused() {
    ss -Htln | awk -v from="$1" '
        {
            n = split($4, parts, ":")
            if (parts[n] + 0 >= from && parts[n] + 0 < from + 100) used = 1
        }
        END { exit used }'
}
