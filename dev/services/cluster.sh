# A cluster of three masters with a replica each.

GROUPS_KNOWN+=(cluster)

CLUSTER_SLOTS=(0-5460 5461-10922 10923-16383)

cluster_needs() {
    redis_needs
}

cluster_members() {
    echo cl{0..5}
}

cluster_url() {
    echo "redis+cluster://$(hosts $((BASE + 20)) 6)"
}

cluster_answers() {
    redis_answers "$1"
}

# Every node finds all slots served, three replicas, and its own replication linked.
cluster_whole() {
    local port
    for ((port = BASE + 20; port < BASE + 26; port++)); do
        redis_command "$port" cluster info | grep -q cluster_state:ok || return 1
        [ "$(redis_command "$port" cluster nodes | grep -v fail | grep -c slave)" = 3 ] || return 1
        redis_command "$port" info replication | grep -Eq 'master_link_status:up|connected_slaves:1' || return 1
    done
}

# The nodes start as members of a cluster that is written into their files. Redis itself then takes no writes
# for two more seconds.
cluster_up() {
    local number
    for number in 0 1 2 3 4 5; do
        mkdir -p "$SVC_DIR/cl$number"
        cluster_nodes "$number" >"$SVC_DIR/cl$number/nodes.conf"
        # The bus would take the port 10000 higher. A long time-out, so that a busy machine isn't taken for a dead
        # node. The members' file is not in data/: a wiped node has lost its keys, not its place.
        redis_server "cl$number" $((BASE + 20 + number)) \
            'cluster-enabled yes' \
            "cluster-config-file $SVC_DIR/cl$number/nodes.conf" \
            "cluster-port $((BASE + 30 + number))" \
            'cluster-node-timeout 2000' \
            'cluster-replica-validity-factor 0' \
            'repl-diskless-sync-delay 0'
    done
    # shellcheck disable=SC2046
    wait_until cluster $(cluster_members) -- cluster_whole
}

# The file of node NUMBER: id address flags master ping pong epoch link slots
cluster_nodes() {
    local number=$1 node flags master slots
    for node in 0 1 2 3 4 5; do
        flags=master
        master=-
        slots=" ${CLUSTER_SLOTS[node % 3]}"
        if [ "$node" -ge 3 ]; then
            flags=slave
            master=$(cluster_id $((node - 3)))
            slots=""
        fi
        [ "$node" != "$number" ] || flags=myself,$flags
        printf '%s %s:%s@%s %s %s 0 0 %s connected%s\n' "$(cluster_id "$node")" "$HOST" $((BASE + 20 + node)) \
            $((BASE + 30 + node)) "$flags" "$master" $((node % 3 + 1)) "$slots"
    done
    echo 'vars currentEpoch 6 lastVoteEpoch 0'
}

cluster_id() {
    printf '%040x' $((BASE * 10 + $1 + 1))
}
