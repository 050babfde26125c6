# One Redis server, and five that know nothing of each other.

GROUPS_KNOWN+=(redis redlock)

# redis_server NAME PORT [LINE OF CONFIGURATION]..: Sentinel rewrites the file when a server changes its part.
redis_server() {
    local name=$1 port=$2 folder=$SVC_DIR/$1 log=yes sync=no
    shift 2
    [ "$(host_of "$name")" = "$HOST" ] || die "$name can't be put into a namespace"
    case $SVC_DURABLE in
    none) log=no ;;
    # The write reaches the system before the reply, so that it outlives the process without waiting for a disk.
    process) ;;
    disk) sync=always ;;
    *) die "SVC_DURABLE is none, process or disk, not $SVC_DURABLE" ;;
    esac
    mkdir -p "$folder/data"
    {
        printf 'port %s\nbind %s\nprotected-mode no\n' "$port" "$HOST"
        printf 'dir %s/data\nsave ""\nappendonly %s\nappendfsync %s\n' "$folder" "$log" "$sync"
        printf '%s\n' "${DEBUGGING-enable-debug-command local}"
        [ $# -eq 0 ] || printf '%s\n' "$@"
    } >"$folder/redis.conf"
    spawn "$name" "$port" "${PROGRAM:-redis-server}" "$folder/redis.conf"
}

redis_command() {
    timeout 5 redis-cli -h "$HOST" -p "$@"
}

redis_answers() {
    [ "$(redis_command "$(server_file "$1" port)" PING)" = PONG ]
}

# hosts FIRST_PORT NUMBER: h:p,h:p,…
hosts() {
    local port list=""
    for ((port = $1; port < $1 + $2; port++)); do
        list+="${list:+,}$HOST:$port"
    done
    echo "$list"
}

redis_needs() {
    echo redis-server redis-cli
}

redis_members() {
    echo redis
}

redis_url() {
    echo "redis://$HOST:$BASE/0"
}

redis_whole() {
    redis_answers redis
}

redis_up() {
    redis_server redis "$BASE"
    wait_until redis redis -- redis_whole
}

redlock_needs() {
    redis_needs
}

redlock_members() {
    echo redlock{0..4}
}

redlock_url() {
    echo "redlock://$(hosts $((BASE + 1)) 5)"
}

redlock_answers() {
    redis_answers "$1"
}

redlock_whole() {
    local name
    for name in $(redlock_members); do
        redis_answers "$name" || return 1
    done
}

redlock_up() {
    local number
    for number in 0 1 2 3 4; do
        redis_server "redlock$number" $((BASE + 1 + number))
    done
    # shellcheck disable=SC2046
    wait_until redlock $(redlock_members) -- redlock_whole
}
