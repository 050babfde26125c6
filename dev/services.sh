#!/usr/bin/env bash
# Runs the real lock servers that tests need as plain processes on loopback ports.
#
#   services.sh up [GROUP..]            start (default: all but the optional); prints export lines when ready; may be repeated
#   services.sh down [GROUP..]          stop and wipe
#   services.sh run [GROUP..] -- CMD..  up, run CMD with the variables exported, and down whatever happens
#   services.sh hold [GROUP..]          up, and down as soon as the standard input ends
#   services.sh env [GROUP..]           the export lines of what is up
#   services.sh status                  every server: name, state, port, pid
#   services.sh wait GROUP..            wait until the group is whole again
#   services.sh kill NAME [SIGNAL]      send a signal (default KILL) to one server, named as in status
#   services.sh pause|resume NAME       kill NAME STOP and CONT
#   services.sh start NAME              start a server again on its kept data, and wait until it answers
#   services.sh restart NAME [wiped]    kill a server if it runs, and start it on its kept data or on none
#   services.sh wipe NAME               delete the data of a server that is down
#   services.sh groups                  the names of all groups
#   services.sh missing [GROUP..]       the commands that the groups need and the machine lacks; fails if there are any
#   services.sh install [GROUP..]       install the packages of what is missing (root or sudo), starting no daemon
#
# A group whose LOCK_TEST_<GROUP>_URL the caller has set is not started: the caller's server is used.
# Settings:
#   SVC_DIR      folder of the set (default: one for the user); `run` and `hold` always make a new one
#   SVC_BASE     first port of the set's block of 100; default: the first block from SVC_FIRST on that is free
#   SVC_FIRST    where to look for a free block (21000)
#   SVC_TIMEOUT  seconds that a group may take to start (60)
#   SVC_PLACES   servers that run in network namespaces, as words NAME=NAMESPACE=ADDRESS (not Redis)
#   SVC_CLOCK    LIBRARY=FILE: a library that moves the servers' wall clocks by as much as the file says
#   SVC_DURABLE  what data outlives: `process` (default) a killed server; `disk` also a power cut; `none` nothing
set -uo pipefail

SELF=$(readlink -f "${BASH_SOURCE[0]}")
PARTS=$(dirname "$SELF")/services
HOST=127.0.0.1
SVC_TIMEOUT=${SVC_TIMEOUT:-60}
SVC_DURABLE=${SVC_DURABLE:-process}
GROUPS_KNOWN=()
GROUPS_OPTIONAL=()

die() {
    echo "services: $*" >&2
    exit 1
}

say() {
    echo "# $*" >&2
}

. "$PARTS/process.sh"
. "$PARTS/places.sh"
. "$PARTS/ports.sh"
. "$PARTS/install.sh"
# One file per family of stores. It adds its groups to GROUPS_KNOWN, or to GROUPS_OPTIONAL if they start only when named, and defines for each GROUP:
# GROUP_needs, GROUP_members, GROUP_url, GROUP_up, GROUP_whole (a probe of the group) and, for each of its
# servers, GROUP_answers NAME (a probe of one server).
. "$PARTS/redis.sh"
. "$PARTS/newer.sh"
. "$PARTS/sentinel.sh"
. "$PARTS/cluster.sh"
. "$PARTS/sqlite.sh"
. "$PARTS/etcd.sh"
. "$PARTS/zk.sh"
. "$PARTS/postgres.sh"
. "$PARTS/pgbouncer.sh"
. "$PARTS/pgstandby.sh"
. "$PARTS/mysql.sh"

variable_of() {
    echo "LOCK_TEST_${1^^}_URL"
}

# Whether the caller brought a server for this group.
is_external() {
    local variable
    variable=$(variable_of "$1")
    [ -n "${!variable:-}" ] || return 1
    ! is_up "$1" || [ "${!variable}" != "$("$1_url")" ]
}

is_up() {
    local name
    [ -n "${BASE:-}" ] || return 1
    for name in $("$1_members"); do
        is_alive "$name" || return 1
    done
}

group_of() {
    local group name
    for group in "${GROUPS_KNOWN[@]}" "${GROUPS_OPTIONAL[@]}"; do
        for name in $("${group}_members"); do
            [ "$name" != "$1" ] || { echo "$group"; return; }
        done
    done
    die "no server is called $1; see: $SELF status"
}

check_groups() {
    local group
    for group in "$@"; do
        [[ " ${GROUPS_KNOWN[*]} ${GROUPS_OPTIONAL[*]} " == *" $group "* ]] ||
            die "no group $group; there are: ${GROUPS_KNOWN[*]} ${GROUPS_OPTIONAL[*]}"
    done
}

start_group() {
    local group=$1 name began
    began=$(now_ms)
    # What a broken start left.
    for name in $("${group}_members"); do
        remove_server "$name" KILL
    done
    "${group}_up" || return 1
    say "$group is up after $(($(now_ms) - began)) ms"
}

cmd_up() {
    local group own=() pids=() pid failed=0
    for group in "$@"; do
        if is_external "$group"; then
            say "$group: the caller's $(variable_of "$group")"
        else
            own+=("$group")
        fi
    done
    check_missing "${own[@]}"
    # Two at once: the second waits, and finds everything running.
    lock_set
    claim_block
    keep_places
    for group in "${own[@]}"; do
        if ! is_up "$group"; then
            start_group "$group" &
            pids+=($!)
        fi
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || failed=1
    done
    unlock_set
    if [ "$failed" = 1 ]; then
        echo "services: not all groups are up; see $SVC_DIR/*/log" >&2
        return 1
    fi
    cmd_env "$@"
}

cmd_env() {
    local group variable
    for group in "$@"; do
        variable=$(variable_of "$group")
        if is_external "$group"; then
            echo "export $variable=${!variable@Q}"
        elif is_up "$group"; then
            echo "export $variable=$("${group}_url")"
            further_urls "$group"
        fi
    done
}

# The URLs of a group that has several, as lines of WORD URL.
further_urls() {
    local word url
    declare -F "$1_further_urls" >/dev/null || return 0
    while read -r word url; do
        echo "export LOCK_TEST_${1^^}_${word}_URL=$url"
    done < <("$1_further_urls")
}

cmd_down() {
    local group name pids=()
    [ -d "$SVC_DIR" ] || return 0
    lock_set
    for group in "$@"; do
        for name in $("${group}_members"); do
            remove_server "$name" TERM &
            pids+=($!)
        done
    done
    [ ${#pids[@]} = 0 ] || wait "${pids[@]}"
    if [ -z "$(server_names)" ]; then
        remove_server .block KILL
        rm -rf "${SVC_DIR:?}"
    fi
    unlock_set
}

# The watcher that survives whoever started it: the standard input ends with that process, however it ends.
cmd_hold() {
    # Nobody may be left to read what it says.
    trap '' PIPE
    trap 'exit 130' INT TERM HUP
    trap 'cmd_down "${GROUPS_KNOWN[@]}" "${GROUPS_OPTIONAL[@]}"' EXIT
    cmd_up "$@" || exit 1
    echo "# ready in $SVC_DIR"
    while read -r _; do
        :
    done
}

cmd_run() {
    local wanted=() line="" status child=""
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        wanted+=("$1")
        shift
    done
    [ "${1:-}" = -- ] && [ $# -gt 1 ] || die "write: $SELF run [GROUP..] -- COMMAND.."
    shift
    [ ${#wanted[@]} -gt 0 ] || wanted=("${GROUPS_KNOWN[@]}")
    check_groups "${wanted[@]}"
    # Before the servers start, so that no signal can come between.
    trap 'stopped=130; [ -n "${child:-}" ] || exit 130; kill "$child" 2>/dev/null' INT TERM HUP
    coproc HOLD { exec setsid "$SELF" hold "${wanted[@]}"; }
    local holder=$HOLD_PID answers=${HOLD[0]} input=${HOLD[1]}
    while IFS= read -r line <&"$answers"; do
        [[ $line != "# ready in "* ]] || break
        eval "$line"
    done
    if [[ $line != "# ready in "* ]]; then
        wait "$holder"
        exit 1
    fi
    # The command must not hold the pipe open.
    (
        eval "exec $answers<&- $input>&-"
        # So that the command may break the servers of its own set.
        export SVC_DIR=${line#"# ready in "}
        exec setpriv --pdeathsig KILL -- "$@"
    ) &
    child=$!
    wait "$child"
    status=$?
    # A trapped signal ends a wait early.
    while kill -0 "$child" 2>/dev/null; do
        wait "$child"
        status=$?
    done
    eval "exec $input>&-"
    wait "$holder"
    exit "${stopped:-$status}"
}

cmd_status() {
    local name state
    for name in $(server_names); do
        state=down
        ! is_alive "$name" || state=up
        printf '%-10s %-5s port %-6s pid %s\n' "$name" "$state" "$(server_file "$name" port)" "$(server_file "$name" pid)"
    done
}

cmd_wait() {
    local group
    for group in "$@"; do
        wait_until "$group" -- "${group}_whole" || return 1
    done
}

cmd_kill() {
    local name=$1 signal=${2:-KILL}
    send_signal "$name" "$signal" || die "$name is not running"
    case $signal in
    KILL | 9)
        wait_gone "$name"
        hook "$name" settle
        ;;
    esac
}

cmd_start() {
    local name=$1 group
    group=$(group_of "$name") || exit 1
    [ -f "$SVC_DIR/$name/command" ] || die "$name has never been up"
    is_alive "$name" && return 0
    wait_gone "$name"
    hook "$name" settle
    hook "$name" prepare || die "$name can't be started; see $SVC_DIR/$name/log"
    launch "$name"
    wait_until "$name" "$name" -- "${group}_answers" "$name"
}

cmd_wipe() {
    local name=$1
    [ -d "$SVC_DIR/$name" ] || die "$name has never been up"
    ! is_alive "$name" || die "$name is running; kill it first"
    rm -rf "${SVC_DIR:?}/$name/data"
    mkdir -p "$SVC_DIR/$name/data"
}

# Whoever asked may go away meanwhile, and ask again: one restart of a server is over before the next begins.
cmd_restart() {
    local name=$1 data=${2:-kept}
    [ -f "$SVC_DIR/$name/command" ] || die "$name has never been up"
    trap '' PIPE
    exec 8>"$SVC_DIR/$name/restarting"
    flock 8
    ! is_alive "$name" || cmd_kill "$name"
    [ "$data" != wiped ] || cmd_wipe "$name"
    cmd_start "$name"
}

usage() {
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$SELF"
    exit 64
}

main() {
    local command=${1:-}
    [ $# -eq 0 ] || shift
    case $command in
    hold) use_folder new ;;
    run) ;;
    *) use_folder kept ;;
    esac
    case $command in
    up | down | env | missing | install | hold)
        [ $# -gt 0 ] || set -- "${GROUPS_KNOWN[@]}"
        check_groups "$@"
        "cmd_$command" "$@"
        ;;
    wait)
        check_groups "$@"
        cmd_wait "$@"
        ;;
    run) cmd_run "$@" ;;
    status) cmd_status ;;
    groups) echo "${GROUPS_KNOWN[*]} ${GROUPS_OPTIONAL[*]}" ;;
    kill | start | wipe | restart)
        [ $# -gt 0 ] || usage
        "cmd_$command" "$@"
        ;;
    pause) cmd_kill "${1:?which server?}" STOP ;;
    resume) cmd_kill "${1:?which server?}" CONT ;;
    *) usage ;;
    esac
}

main "$@"
