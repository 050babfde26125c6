# The stores that tests run on, for `make test` and `make conform`. One a line:
#   store      its name for `make conform B=`, and in CONFORMANCE_STORE
#   package    the crate with its backend; while the workspace has no such crate, the line says nothing
#   feature    the feature of that crate that it needs, or `all`; the same holds while the crate has no such feature
#   group      its servers, as dev/services.sh names them, or - if it needs none
#   program    the crate's test program with the conformance suite
#   run        `always`: its servers are there in `make test`; `named`: only where it is asked for
STORES='
memory          distlock-conformance  all       -          memory       always
sqlite          distlock-sql          sqlite    -          conformance  always
redis           distlock-redis        all       redis      conformance  always
redis-queue     distlock-redis        all       redis      conformance  always
sentinel        distlock-redis        all       sentinel   conformance  always
sentinel-queue  distlock-redis        all       sentinel   conformance  always
cluster         distlock-redis        all       cluster    conformance  always
cluster-queue   distlock-redis        all       cluster    conformance  always
valkey          distlock-redis        all       valkey     conformance  named
valkey-queue    distlock-redis        all       valkey     conformance  named
redis8          distlock-redis        all       redis8     conformance  named
redis8-queue    distlock-redis        all       redis8     conformance  named
redis6          distlock-redis        all       redis6     conformance  named
redis6-queue    distlock-redis        all       redis6     conformance  named
redlock         distlock-redis        all       redlock    redlock_conformance  always
redlock3        distlock-redis        all       redlock    redlock_conformance  always
redlock-down    distlock-redis        all       redlock    redlock_conformance  always
redlock-frozen  distlock-redis        all       redlock    redlock_conformance  always
etcd            distlock-etcd         all       etcd       conformance  always
etcd3           distlock-etcd         all       etcd3      conformance  always
etcd35          distlock-etcd         all       etcd35     conformance  named
postgres        distlock-sql          postgres  postgres   conformance  always
postgres-advisory  distlock-sql       postgres  postgres   conformance  always
mysql-named     distlock-sql          mysql     mysql      conformance  always
pgbouncer       distlock-sql          postgres  pgbouncer  conformance  always
mysql           distlock-sql          mysql     mysql      conformance  always
zk              distlock-zk           all       zk         conformance  always
zk3             distlock-zk           all       zk3        conformance  always
'

# The lines of the stores that there is a backend for.
stores() {
    local line
    while read -r -a line; do
        [ ${#line[@]} -eq 0 ] || ! has_backend "${line[1]}" "${line[2]}" || echo "${line[*]}"
    done <<<"$STORES"
}

# has_backend PACKAGE FEATURE
has_backend() {
    local manifest
    manifest=$(grep -lx "name = \"$1\"" ./*/Cargo.toml) || return 1
    [ "$2" = all ] || grep -q "^$2 = " "$manifest"
}

# The groups of servers that `make test` starts.
groups_tested() {
    stores | awk '$6 == "always" && $4 != "-" && !seen[$4]++ {print $4}'
}

# The groups that a package is tested on.
groups_of() {
    stores | awk -v package="$1" '$2 == package && $6 == "always" && !seen[$4]++ {print $4}'
}
