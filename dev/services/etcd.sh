# etcd: one server; three members of a cluster; and optionally three of the release that the next distribution has.

GROUPS_KNOWN+=(etcd etcd3)
GROUPS_OPTIONAL+=(etcd35)

# etcd_server NAME CLIENT_PORT CLUSTER: the port for the other members is the next one.
etcd_server() {
    local name=$1 port=$2 cluster=$3 host sync=()
    host=$(host_of "$name")
    mkdir -p "$SVC_DIR/$name"
    # On TERM a leader looks for a successor for seconds, among others that end too.
    echo KILL >"$SVC_DIR/$name/stop"
    # A write that has reached the system outlives the process.
    [ "$SVC_DURABLE" = disk ] || sync=(--unsafe-no-fsync)
    # Half a second without a heartbeat is long enough for a busy machine.
    FAMILY=etcd spawn "$name" "$port" env GOMAXPROCS=2 "${PROGRAM:-etcd}" --name="$name" --data-dir="$SVC_DIR/$name/data" \
        --listen-client-urls="http://$host:$port" --advertise-client-urls="http://$host:$port" \
        --listen-peer-urls="http://$host:$((port + 1))" --initial-advertise-peer-urls="http://$host:$((port + 1))" \
        --initial-cluster="$cluster" --initial-cluster-state=new --initial-cluster-token="distlock-$BASE" \
        --heartbeat-interval=50 --election-timeout=500 --logger=zap --log-level=warn "${sync[@]}"
}

# The others let no member in again that has lost its data, unless it is replaced.
etcd_prepare() {
    local name=$1 command=$SVC_DIR/$1/command other endpoints="" peer
    [ -f "$SVC_DIR/$name/log" ] && [ ! -d "$SVC_DIR/$name/data/member" ] || return 0
    for other in $("$(group_of "$name")_members"); do
        [ "$other" = "$name" ] || ! is_alive "$other" ||
            endpoints+="${endpoints:+,}http://$(host_of "$other"):$(server_file "$other" port)"
    done
    [ -n "$endpoints" ] || return 0
    peer="http://$(host_of "$name"):$(($(server_file "$name" port) + 1))"
    wait_until "the replacement of $name" -- etcd_replace "$name" "$endpoints" "$peer" || return 1
    sed -i 's/--initial-cluster-state=new/--initial-cluster-state=existing/' "$command"
}

etcd_replace() {
    local name=$1 endpoints=$2 peer=$3 id ask
    # shellcheck disable=SC2046
    ask=($(inside "$name") env ETCDCTL_API=3 timeout 10 etcdctl --endpoints="$endpoints" member)
    id=$("${ask[@]}" list | awk -F ', ' -v name="$name" '$3 == name {print $1}') || return 1
    [ -z "$id" ] || "${ask[@]}" remove "$id" || return 1
    "${ask[@]}" list | grep -qF "$peer" || "${ask[@]}" add "$name" --peer-urls="$peer"
}

etcd_asked() {
    # shellcheck disable=SC2046
    $(inside "$1") curl --noproxy '*' -fsS -m 5 "http://$(host_of "$1"):$2"
}

# Its health implies a leader. Without a majority a member serves nobody but its peers.
etcd_answers() {
    local port
    port=$(server_file "$1" port)
    # shellcheck disable=SC2046
    if most_alive $("$(group_of "$1")_members"); then
        etcd_asked "$1" "$port/health" | grep -q '"health":"true"'
    else
        etcd_asked "$1" "$((port + 1))/version"
    fi
}

etcd_needs() {
    echo etcd curl
}

etcd_members() {
    echo etcd
}

etcd_url() {
    echo "etcd://$(host_of etcd):$((BASE + 40))"
}

etcd_whole() {
    etcd_answers etcd
}

etcd_up() {
    etcd_server etcd $((BASE + 40)) "etcd=http://$(host_of etcd):$((BASE + 41))" &&
        wait_until etcd etcd -- etcd_whole
}

etcd3_needs() {
    echo etcd etcdctl curl
}

etcd3_members() {
    echo e{0..2}
}

etcd3_url() {
    # shellcheck disable=SC2046
    etcd_cluster_url 42 $(etcd3_members)
}

etcd3_answers() {
    etcd_answers "$1"
}

etcd3_whole() {
    # shellcheck disable=SC2046
    etcd_all_answer $(etcd3_members)
}

etcd3_up() {
    # shellcheck disable=SC2046
    etcd_cluster 42 $(etcd3_members)
    # shellcheck disable=SC2046
    wait_until etcd3 $(etcd3_members) -- etcd3_whole
}

etcd35_needs() {
    echo "$UNPACKED/etcd35" etcdctl curl
}

etcd35_members() {
    echo n{0..2}
}

etcd35_url() {
    # shellcheck disable=SC2046
    etcd_cluster_url 73 $(etcd35_members)
}

etcd35_answers() {
    etcd_answers "$1"
}

etcd35_whole() {
    # shellcheck disable=SC2046
    etcd_all_answer $(etcd35_members)
}

etcd35_up() {
    # shellcheck disable=SC2046
    PROGRAM=$UNPACKED/etcd35 etcd_cluster 73 $(etcd35_members)
    # shellcheck disable=SC2046
    wait_until etcd35 $(etcd35_members) -- etcd35_whole
}

# etcd_cluster OFFSET MEMBER...: starts them, on two ports each from there on.
etcd_cluster() {
    local offset=$1 port name cluster=""
    shift
    port=$((BASE + offset))
    for name; do
        cluster+="${cluster:+,}$name=http://$(host_of "$name"):$((port + 1))"
        port=$((port + 2))
    done
    port=$((BASE + offset))
    for name; do
        etcd_server "$name" "$port" "$cluster" || return 1
        port=$((port + 2))
    done
}

# etcd_cluster_url OFFSET MEMBER...
etcd_cluster_url() {
    local port=$((BASE + $1)) name list=""
    shift
    for name; do
        list+="${list:+,}$(host_of "$name"):$port"
        port=$((port + 2))
    done
    echo "etcd://$list"
}

etcd_all_answer() {
    local name
    for name; do
        is_alive "$name" && etcd_answers "$name" || return 1
    done
}
