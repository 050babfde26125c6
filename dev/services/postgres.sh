# PostgreSQL. It refuses to run as root, and then runs as the user that its package has made.

GROUPS_KNOWN+=(postgres)

# postgres_program NAME: its path where the distribution keeps several releases side by side.
postgres_program() {
    local program
    # shellcheck disable=SC2012
    program=$(ls -d /usr/lib/postgresql/*/bin/"$1" 2>/dev/null | sort -V | tail -n 1)
    echo "${program:-$1}"
}

# postgres_server NAME PORT [SETTING]..
postgres_server() {
    local name=$1 port=$2 setting settings=()
    shift 2
    mkdir -p "$SVC_DIR/$name"
    # TERM would wait until its clients have gone.
    echo INT >"$SVC_DIR/$name/stop"
    # What is committed has reached the system, and outlives the process.
    case $SVC_DURABLE in
    none) settings=(fsync=off full_page_writes=off synchronous_commit=off) ;;
    process) settings=(fsync=off full_page_writes=off) ;;
    esac
    settings+=(max_connections=200 shared_buffers=16MB min_wal_size=32MB max_wal_size=64MB jit=off)
    # Nothing of it lies outside of its folder, where it would be left after a SIGKILL.
    settings+=(unix_socket_directories= dynamic_shared_memory_type=mmap)
    settings+=("listen_addresses=$(host_of "$name")" "port=$port" "$@")
    # shellcheck disable=SC2046
    FAMILY=postgres spawn "$name" "$port" $(as_user postgres) "$(postgres_program postgres)" -D "$SVC_DIR/$name/data" \
        $(for setting in "${settings[@]}"; do echo -c "$setting"; done)
}

# A copy of its primary, if the server has one, and otherwise an empty database.
postgres_prepare() {
    local name=$1 folder=$SVC_DIR/$1 primary
    [ ! -f "$folder/data/PG_VERSION" ] || return 0
    give postgres "$folder/data" || return 1
    if [ -f "$folder/primary" ]; then
        primary=$(cat "$folder/primary")
        # shellcheck disable=SC2046
        (cd "$folder/data" && exec $(inside "$name") $(as_user postgres) "$(postgres_program pg_basebackup)" -D . \
            -h "$(host_of "$primary")" -p "$(server_file "$primary" port)" -U postgres -w -R -X stream -c fast --no-sync)
    else
        # shellcheck disable=SC2046
        (cd "$folder/data" && exec $(as_user postgres) "$(postgres_program initdb)" -D . -U postgres -A trust -E UTF8 \
            --locale=C.UTF-8 --no-sync --wal-segsize=4) || return 1
        # In a namespace the clients are at other addresses.
        [ "$(host_of "$name")" = "$HOST" ] ||
            printf 'host %s all 0.0.0.0/0 trust\n' all replication >>"$folder/data/pg_hba.conf"
    fi >>"$folder/log" 2>&1
}

# A killed server's last processes end by themselves; before that there must be no other one. What it would take for
# the sign of a living one is a zombie that somebody has yet to reap.
postgres_settle() {
    local data=$SVC_DIR/$1/data tries shared=""
    ! is_alive "$1" || return 0
    for ((tries = 0; tries < 500; tries++)); do
        [ -n "$(find /proc/[0-9]*/cwd -maxdepth 0 -lname "$data" 2>/dev/null)" ] || break
        sleep 0.02
    done
    [ -f "$data/postmaster.pid" ] || return 0
    read -r _ shared < <(sed -n 7p "$data/postmaster.pid")
    [ -z "$shared" ] || ipcrm -m "$shared" 2>/dev/null
    rm -f "$data/postmaster.pid"
}

# postgres_asked NAME DATABASE QUERY
postgres_asked() {
    # shellcheck disable=SC2046
    $(inside "$1") timeout 10 "$(postgres_program psql)" -qAtXw -c "$3" \
        "host=$(host_of "$1") port=$(server_file "$1" port) user=postgres dbname=$2 connect_timeout=5"
}

postgres_answers() {
    [ "$(postgres_asked "$1" postgres 'select 1')" = 1 ]
}

postgres_needs() {
    echo "$(postgres_program postgres)" "$(postgres_program initdb)" "$(postgres_program psql)" ipcrm
}

postgres_members() {
    echo postgres
}

postgres_url() {
    echo "postgres://postgres@$(host_of postgres):$((BASE + 60))/postgres"
}

postgres_whole() {
    postgres_answers postgres
}

postgres_up() {
    postgres_server postgres $((BASE + 60)) && wait_until postgres postgres -- postgres_whole
}
