# MariaDB: one server, and a primary with a replica. It refuses to run as root, and then runs as the user that its package has made.

GROUPS_KNOWN+=(mysql mysqlreplica)

# mysql_server NAME PORT [OPTION]..: after each start it runs the statements in the file `init.sql`.
mysql_server() {
    local name=$1 port=$2 folder=$SVC_DIR/$1 flush
    shift 2
    case $SVC_DURABLE in
    none) flush=0 ;;
    # What is committed has reached the system, and outlives the process.
    process) flush=2 ;;
    *) flush=1 ;;
    esac
    mkdir -p "$folder"
    {
        echo 'SET sql_log_bin = 0;'
        echo 'CREATE DATABASE IF NOT EXISTS locks;'
        # In a namespace the clients are at other addresses.
        [ "$(host_of "$name")" = "$HOST" ] ||
            printf '%s\n' "CREATE USER IF NOT EXISTS root@'%';" "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;"
        cat
    } >"$folder/init.sql"
    # Its socket would lie at a path that is too long for one.
    # shellcheck disable=SC2046
    FAMILY=mysql spawn "$name" "$port" $(as_user mysql) "$(mysql_program mariadbd)" --no-defaults --datadir="$folder/data" \
        --tmpdir="$folder/tmp" --port="$port" --bind-address="$(host_of "$name")" --socket= --pid-file="$folder/data/pid" \
        --init-file="$folder/init.sql" --skip-name-resolve --max-connections=300 --innodb-buffer-pool-size=32M \
        --innodb-log-file-size=16M --innodb-use-native-aio=0 --innodb-flush-log-at-trx-commit=$flush \
        --aria-pagecache-buffer-size=8M --key-buffer-size=1M "$@"
}

mysql_program() {
    PATH=$PATH:/usr/sbin command -v "$1" || echo "$1"
}

mysql_prepare() {
    local folder=$SVC_DIR/$1
    give mysql "$folder/tmp" || return 1
    [ ! -d "$folder/data/mysql" ] || return 0
    give mysql "$folder/data" || return 1
    # shellcheck disable=SC2046
    (cd "$folder/data" && exec $(as_user mysql) mariadb-install-db --no-defaults --datadir="$folder/data" \
        --tmpdir="$folder/tmp" --auth-root-authentication-method=normal --skip-test-db --innodb-log-file-size=16M) \
        >>"$folder/log" 2>&1
}

# mysql_asked NAME QUERY
mysql_asked() {
    # shellcheck disable=SC2046
    $(inside "$1") timeout 10 mariadb --no-defaults -h "$(host_of "$1")" -P "$(server_file "$1" port)" -u root \
        --connect-timeout=5 --batch --skip-column-names -e "$2"
}

mysql_answers() {
    [ "$(mysql_asked "$1" "select count(*) from information_schema.schemata where schema_name = 'locks'")" = 1 ]
}

mysql_needs() {
    echo mariadbd mariadb-install-db mariadb
}

mysql_members() {
    echo mysql
}

mysql_url() {
    echo "mysql://root@$(host_of mysql):$((BASE + 70))/locks"
}

mysql_whole() {
    mysql_answers mysql
}

mysql_up() {
    mysql_server mysql $((BASE + 70)) </dev/null && wait_until mysql mysql -- mysql_whole
}

mysqlreplica_needs() {
    mysql_needs
}

mysqlreplica_members() {
    echo my0 my1
}

mysqlreplica_url() {
    echo "mysql://root@$(host_of my0):$((BASE + 71))/locks"
}

mysqlreplica_further_urls() {
    echo "REPLICA mysql://root@$(host_of my1):$((BASE + 72))/locks"
}

mysqlreplica_answers() {
    mysql_answers "$1"
}

mysqlreplica_whole() {
    mysql_answers my0 && mysql_answers my1 || return 1
    mysql_asked my1 "show global status like 'slave_running'" | grep -q ON
}

mysqlreplica_up() {
    mysql_server my0 $((BASE + 71)) --server-id=1 --log-bin=log --binlog-format=ROW </dev/null &&
        mysql_server my1 $((BASE + 72)) --server-id=2 --log-bin=log --binlog-format=ROW --log-slave-updates \
            --skip-slave-start --read-only <<-STATEMENTS || return 1
			CHANGE MASTER TO MASTER_HOST = '$(host_of my0)', MASTER_PORT = $((BASE + 71)), MASTER_USER = 'root', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos;
			START SLAVE;
		STATEMENTS
    wait_until mysqlreplica my0 my1 -- mysqlreplica_whole
}
