# A pooler with a PostgreSQL server of its own behind it. Of its databases two are pooled by transaction, one by session.
# Optional: the group has to be named.

GROUPS_OPTIONAL+=(pgbouncer)

pgbouncer_needs() {
    postgres_needs
    echo pgbouncer
}

pgbouncer_members() {
    echo pgpooled pgbouncer
}

pgbouncer_url() {
    echo "postgres://postgres@$(host_of pgbouncer):$((BASE + 62))/transaction"
}

pgbouncer_further_urls() {
    echo "SESSION postgres://postgres@$(host_of pgbouncer):$((BASE + 62))/session"
    echo "DIRECT postgres://postgres@$(host_of pgpooled):$((BASE + 61))/postgres"
}

pgbouncer_answers() {
    case $1 in
    pgbouncer) postgres_asked pgbouncer pgbouncer 'show version' ;;
    *) postgres_answers "$1" ;;
    esac
}

pgbouncer_whole() {
    [ "$(postgres_asked pgbouncer transaction 'select 1')$(postgres_asked pgbouncer session 'select 1')" = 11 ]
}

pgbouncer_up() {
    local folder=$SVC_DIR/pgbouncer server
    server="host=$(host_of pgpooled) port=$((BASE + 61)) dbname=postgres user=postgres"
    postgres_server pgpooled $((BASE + 61)) && wait_until pgpooled pgpooled -- postgres_answers pgpooled || return 1
    mkdir -p "$folder"
    {
        printf '[databases]\n'
        printf 'transaction = %s pool_mode=transaction pool_size=20\n' "$server"
        printf 'session = %s pool_mode=session pool_size=100\n' "$server"
        # Whoever comes next gets the server that was just used.
        printf 'narrow = %s pool_mode=transaction pool_size=1\n' "$server"
        printf '[pgbouncer]\nlisten_addr = %s\nlisten_port = %s\n' "$(host_of pgbouncer)" $((BASE + 62))
        printf 'unix_socket_dir =\nauth_type = any\nmax_client_conn = 500\nserver_login_retry = 1\n'
        # Drivers set it at the start of a connection, which a pooler can't pass on.
        printf 'ignore_startup_parameters = extra_float_digits\n'
    } >"$folder/pgbouncer.ini"
    # INT would wait for its clients.
    # shellcheck disable=SC2046
    spawn pgbouncer $((BASE + 62)) $(as_user postgres) pgbouncer -q "$folder/pgbouncer.ini"
    wait_until pgbouncer pgbouncer pgpooled -- pgbouncer_whole
}
