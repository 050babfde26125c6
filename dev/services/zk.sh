# ZooKeeper: one server, and an ensemble of three.

GROUPS_KNOWN+=(zk zk3)

ZK_JAR=/usr/share/java/zookeeper.jar
ZK_LOG_JAR=/usr/share/java/slf4j-simple.jar

# zk_server NAME PORT [LINE OF CONFIGURATION]..
zk_server() {
    local name=$1 port=$2 folder=$SVC_DIR/$1 sync=no
    shift 2
    mkdir -p "$folder/data"
    # A write that has reached the system outlives the process.
    [ "$SVC_DURABLE" != disk ] || sync=yes
    {
        # Half-second ticks, so that sessions may be short.
        printf 'tickTime=500\nminSessionTimeout=500\nmaxSessionTimeout=60000\ninitLimit=20\nsyncLimit=10\n'
        printf 'dataDir=%s/data\nclientPort=%s\nclientPortAddress=%s\n' "$folder" "$port" "$(host_of "$name")"
        printf 'admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\npreAllocSize=1024\n'
        [ $# -eq 0 ] || printf '%s\n' "$@"
    } >"$folder/zoo.cfg"
    # Empty containers go within half a second instead of a minute.
    FAMILY=zk spawn "$name" "$port" java -Xms16m -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
        -Xshare:auto -Dzookeeper.forceSync=$sync -Dzookeeper.extendedTypesEnabled=true \
        -Dznode.container.checkIntervalMs=500 -Dznode.container.maxPerMinute=100000 \
        -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$ZK_JAR:$ZK_LOG_JAR" \
        org.apache.zookeeper.server.quorum.QuorumPeerMain "$folder/zoo.cfg"
}

# Its number in the ensemble is kept among its data.
zk_prepare() {
    [ "$1" = zk ] || echo "${1#z}" >"$SVC_DIR/$1/data/myid"
}

# zk_asked NAME WORD
zk_asked() {
    # shellcheck disable=SC2016,SC2046
    $(inside "$1") timeout 5 bash -c 'exec 3<>"/dev/tcp/$1/$2" && echo "$3" >&3 && cat <&3' asked \
        "$(host_of "$1")" "$(server_file "$1" port)" "$2"
}

# It says its mode once it serves. Without a majority it serves nobody, but is there.
zk_answers() {
    # shellcheck disable=SC2046
    if most_alive $("$(group_of "$1")_members"); then
        zk_asked "$1" srvr | grep -q Mode:
    else
        zk_asked "$1" ruok | grep -q imok
    fi
}

zk_needs() {
    echo java $ZK_JAR $ZK_LOG_JAR
}

zk_members() {
    echo zk
}

zk_url() {
    echo "zk://$(host_of zk):$((BASE + 50))"
}

zk_whole() {
    zk_answers zk
}

zk_up() {
    zk_server zk $((BASE + 50)) && wait_until zk zk -- zk_whole
}

zk3_needs() {
    zk_needs
}

zk3_members() {
    echo z{1..3}
}

zk3_url() {
    local number list=""
    for number in 1 2 3; do
        list+="${list:+,}$(host_of "z$number"):$((BASE + 50 + number))"
    done
    echo "zk://$list"
}

zk3_answers() {
    zk_answers "$1"
}

zk3_whole() {
    local name
    for name in $(zk3_members); do
        is_alive "$name" && zk_answers "$name" || return 1
    done
}

zk3_up() {
    local number ensemble=()
    for number in 1 2 3; do
        ensemble+=("server.$number=$(host_of "z$number"):$((BASE + 53 + number)):$((BASE + 56 + number))")
    done
    for number in 1 2 3; do
        zk_server "z$number" $((BASE + 50 + number)) "${ensemble[@]}" || return 1
    done
    # shellcheck disable=SC2046
    wait_until zk3 $(zk3_members) -- zk3_whole
}
