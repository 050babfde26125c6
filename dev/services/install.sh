# What the groups need, and how to get it on Debian and its like.

# The commands that this script itself needs; they are there on any full system.
OWN_NEEDS=(flock setsid setpriv ss ps ip timeout find)

package_of() {
    case $1 in
    redis-server) echo redis-server redis-sentinel ;;
    redis-cli) echo redis-tools ;;
    etcd) echo etcd-server ;;
    etcdctl) echo etcd-client ;;
    curl) echo curl ;;
    java) echo default-jre-headless ;;
    */zookeeper.jar) echo libzookeeper-java ;;
    */slf4j-simple.jar) echo libslf4j-java ;;
    postgres | initdb | pg_basebackup) echo postgresql ;;
    psql) echo postgresql-client ;;
    pgbouncer) echo pgbouncer ;;
    mariadbd | mariadb-install-db) echo mariadb-server ;;
    mariadb) echo mariadb-client ;;
    flock | setsid | setpriv | ipcrm) echo util-linux ;;
    ss | ip) echo iproute2 ;;
    ps) echo procps ;;
    timeout) echo coreutils ;;
    find) echo findutils ;;
    *) die "nobody knows the package of $1" ;;
    esac
}

cmd_missing() {
    local group command missing=0
    for command in "${OWN_NEEDS[@]}" $(for group in "$@"; do "${group}_needs"; done | tr ' ' '\n' | sort -u); do
        if ! [ -e "$command" ] && ! PATH=$PATH:/usr/sbin:/sbin command -v "$command" >/dev/null; then
            echo "$command"
            missing=1
        fi
    done
    return "$missing"
}

check_missing() {
    local missing
    missing=$(cmd_missing "$@") || die "$* can't start without" $missing "- run: $SELF install"
}

cmd_install() {
    local command packages=()
    for command in $(cmd_missing "$@"); do
        if wheel_of "$command" >/dev/null || deb_of "$command" >/dev/null; then
            unpack "$command"
            continue
        fi
        # shellcheck disable=SC2207
        packages+=($(package_of "$command"))
    done
    [ ${#packages[@]} -gt 0 ] || return 0
    as_root true || die "may not install ${packages[*]}: neither root nor sudo"
    command -v apt-get >/dev/null || die "install these by hand: ${packages[*]}"
    trap allow_daemons EXIT
    forbid_daemons
    as_root apt-get update -q &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@" 2>/dev/null
    fi
}

POLICY=/usr/sbin/policy-rc.d

# A package's daemon would sit on the store's usual port, and nobody would ever stop it.
forbid_daemons() {
    if [ -e "$POLICY" ]; then
        as_root mv "$POLICY" "$POLICY.before-distlock"
    fi
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$POLICY" >/dev/null
    as_root chmod 755 "$POLICY"
}

allow_daemons() {
    as_root rm -f "$POLICY"
    if [ -e "$POLICY.before-distlock" ]; then
        as_root mv "$POLICY.before-distlock" "$POLICY"
    fi
}
