# Servers as plain processes. Each has a folder SVC_DIR/NAME with the files `command`, `pid`, `started`, `host`, `port`,
# `family` and `log`, and its data in `data/`.

# use_folder new|kept: the set's folder, and the first port of its block if it is up.
use_folder() {
    case $1 in
    new) SVC_DIR=$(mktemp -d "$(place_of_new)/distlock-services.XXXXXX") || exit 1 ;;
    *) SVC_DIR=${SVC_DIR:-${TMPDIR:-/tmp}/distlock-services-$(id -u)} ;;
    esac
    BASE=$(cat "$SVC_DIR/base" 2>/dev/null)
}

# In memory where that outlives what it has to: a server that appends to its log stands still while a busy disk takes
# other writes, and a lock in it ends meanwhile.
place_of_new() {
    if [ "$SVC_DURABLE" != disk ] && [ -z "${TMPDIR:-}" ] && [ -d /dev/shm ] && [ -w /dev/shm ]; then
        echo /dev/shm
    else
        echo "${TMPDIR:-/tmp}"
    fi
}

lock_set() {
    mkdir -p "$SVC_DIR" || exit 1
    # Servers that refuse to run as root must get at their own folders.
    [ "$(id -u)" != 0 ] || chmod 711 "$SVC_DIR"
    exec 8>"$SVC_DIR/lock"
    flock 8
}

unlock_set() {
    exec 8>&-
}

now_ms() {
    date +%s%3N
}

server_names() {
    local folder
    for folder in "$SVC_DIR"/*/; do
        [ ! -f "$folder/command" ] || basename "$folder"
    done
}

server_file() {
    cat "$SVC_DIR/$1/$2" 2>/dev/null || echo -
}

# spawn NAME PORT COMMAND..: starts a server; the command is kept for a later start. A FAMILY in front of it names whose
# functions FAMILY_prepare NAME and FAMILY_settle NAME are to be called before each start and after each end.
spawn() {
    local name=$1 port=$2
    shift 2
    mkdir -p "$SVC_DIR/$name/data"
    # shellcheck disable=SC2046
    printf '%q ' $(inside "$name") $(clocked) "$@" >"$SVC_DIR/$name/command"
    host_of "$name" >"$SVC_DIR/$name/host"
    echo "$port" >"$SVC_DIR/$name/port"
    echo "${FAMILY:-}" >"$SVC_DIR/$name/family"
    hook "$name" prepare || return 1
    launch "$name"
}

# What to put before a server's command so that its wall clock can be moved.
clocked() {
    [ -z "${SVC_CLOCK:-}" ] || echo "env LD_PRELOAD=${SVC_CLOCK%%=*} DISTLOCK_WALL_CLOCK=${SVC_CLOCK#*=}"
}

# hook NAME prepare|settle
hook() {
    local family=""
    { read -r family <"$SVC_DIR/$1/family"; } 2>/dev/null
    ! declare -F "${family}_$2" >/dev/null || "${family}_$2" "$1"
}

# as_user USER: what to put before a command that refuses to run as root.
as_user() {
    [ "$(id -u)" != 0 ] || echo "setpriv --reuid=$1 --regid=$1 --clear-groups --"
}

# give USER FOLDER: makes a folder, for such a command.
give() {
    mkdir -p "$2" && chmod 700 "$2" || return 1
    [ "$(id -u)" = 0 ] || return 0
    chown -R "$1:" "$2" || return 1
    # shellcheck disable=SC2046
    $(as_user "$1") test -w "$2" || die "$1 can't reach $2; set TMPDIR to a folder that everybody may enter"
}

# In a session of its own, so that a signal to the caller's group doesn't reach it; without our locks, which
# would otherwise last as long as the server.
launch() {
    local folder=$SVC_DIR/$1
    (
        cd "$folder" || exit 1
        eval "exec setsid $(cat command)"
    ) </dev/null >>"$folder/log" 2>&1 8>&- 9>&- &
    remember "$1" $!
}

# Writes a process down. A pid is ours only while its start time is the same.
remember() {
    local state
    state=$(process_state "$2") && echo "${state##* }" >"$SVC_DIR/$1/started"
    echo "$2" >"$SVC_DIR/$1/pid"
    # Nobody wants the shell to report its end.
    disown "$2" 2>/dev/null
}

# The state letter of a process, how many threads it has, and its start time.
process_state() {
    local line fields
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    # The command's name, in parentheses, may contain blanks.
    read -ra fields <<<"${line##*) }"
    echo "${fields[0]} ${fields[17]} ${fields[19]}"
}

is_alive() {
    local pid state threads started
    { read -r pid <"$SVC_DIR/$1/pid"; } 2>/dev/null || return 1
    read -r state threads started < <(process_state "$pid") || return 1
    # A zombie's other threads may still be on their way out, with all that the process has opened.
    { [ "$state" != Z ] || [ "$threads" -gt 1 ]; } && [ "$started" = "$(server_file "$1" started)" ]
}

# send_signal NAME SIGNAL. What a server can't catch is for all of its processes.
send_signal() {
    local pid
    is_alive "$1" || return 1
    pid=$(server_file "$1" pid)
    case $2 in
    KILL | 9 | STOP | 19 | CONT | 18)
        # shellcheck disable=SC2046
        kill -s "$2" "$pid" $(descendants "$pid") 2>/dev/null
        return 0
        ;;
    *) kill -s "$2" "$pid" 2>/dev/null ;;
    esac
}

descendants() {
    local pid
    for pid in $(ps -o pid= --ppid "$1"); do
        echo "$pid"
        descendants "$pid"
    done
}

# Waits until a killed server is out of the way; a zombie has let go of its ports and files.
wait_gone() {
    local tries
    for ((tries = 0; tries < 500; tries++)); do
        is_alive "$1" || return 0
        sleep 0.02
    done
    die "$1 does not end"
}

# remove_server NAME SIGNAL: ends a server, gently first if the signal is, and removes its folder.
remove_server() {
    local name=$1 signal=$2 tries
    # PostgreSQL for one waits on TERM until its clients leave.
    [ "$signal" != TERM ] || [ ! -f "$SVC_DIR/$name/stop" ] || signal=$(cat "$SVC_DIR/$name/stop")
    if send_signal "$name" "$signal"; then
        # A stopped process would never see the signal.
        send_signal "$name" CONT
        for ((tries = 0; tries < 100; tries++)); do
            is_alive "$name" || break
            sleep 0.05
        done
        send_signal "$name" KILL
        wait_gone "$name"
    fi
    hook "$name" settle
    rm -rf "${SVC_DIR:?}/$name"
}

# wait_until WHAT NAME.. -- PROBE..: polls until the probe succeeds *and* the named servers live: a stranger on
# the same port would answer for a server that failed to start.
wait_until() {
    local what=$1 names=() name deadline pause=2
    shift
    while [ "$1" != -- ]; do
        names+=("$1")
        shift
    done
    shift
    deadline=$(($(now_ms) + SVC_TIMEOUT * 1000))
    until "$@" >/dev/null 2>&1 && all_alive "${names[@]}"; do
        for name in "${names[@]}"; do
            if ! is_alive "$name"; then
                echo "services: $name has ended; its last words:" >&2
                tail -n 5 "$SVC_DIR/$name/log" >&2
                return 1
            fi
        done
        if [ "$(now_ms)" -ge "$deadline" ]; then
            echo "services: $what is not ready after $SVC_TIMEOUT s" >&2
            return 1
        fi
        # Each question starts processes: rarer ones, the longer it takes.
        sleep "$(printf '0.%02d' "$pause")"
        pause=$((pause < 20 ? pause + 1 : 20))
    done
}

all_alive() {
    local name
    for name in "$@"; do
        is_alive "$name" || return 1
    done
}

# Whether enough of these servers live to agree on anything.
most_alive() {
    local name alive=0
    for name in "$@"; do
        ! is_alive "$name" || alive=$((alive + 1))
    done
    [ $((alive * 2)) -gt $# ]
}
