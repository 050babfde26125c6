# A PostgreSQL primary with a streaming standby. The standby can be made synchronous, by its name:
#   alter system set synchronous_standby_names = 'standby'; select pg_reload_conf();

GROUPS_KNOWN+=(pgstandby)

pgstandby_needs() {
    postgres_needs
    postgres_program pg_basebackup
}

pgstandby_members() {
    echo pgs0 pgs1
}

pgstandby_url() {
    echo "postgres://postgres@$(host_of pgs0):$((BASE + 63))/postgres"
}

pgstandby_further_urls() {
    echo "STANDBY postgres://postgres@$(host_of pgs1):$((BASE + 64))/postgres"
}

pgstandby_answers() {
    postgres_answers "$1"
}

# Whoever is the primary by now has a standby that streams.
pgstandby_whole() {
    local name streaming=""
    for name in pgs0 pgs1; do
        streaming+=$(postgres_asked "$name" postgres \
            "select count(*) from pg_stat_replication where state = 'streaming' and not pg_is_in_recovery()") || return 1
    done
    [[ $streaming == *1* ]]
}

pgstandby_up() {
    postgres_server pgs0 $((BASE + 63)) wal_keep_size=64MB && wait_until pgs0 pgs0 -- postgres_answers pgs0 || return 1
    mkdir -p "$SVC_DIR/pgs1"
    echo pgs0 >"$SVC_DIR/pgs1/primary"
    # Its cluster's name is what it is called at the primary.
    postgres_server pgs1 $((BASE + 64)) cluster_name=standby wal_retrieve_retry_interval=200ms &&
        wait_until pgstandby pgs0 pgs1 -- pgstandby_whole
}
