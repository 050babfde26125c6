# Where a server runs: on loopback, or in a network namespace with an address of its own.

# Remembers SVC_PLACES for as long as the set is up.
keep_places() {
    # shellcheck disable=SC2086
    [ -z "${SVC_PLACES:-}" ] || printf '%s\n' $SVC_PLACES >"$SVC_DIR/places"
}

host_of() {
    local name namespace address
    if [ -f "$SVC_DIR/places" ]; then
        while IFS='=' read -r name namespace address; do
            [ "$name" != "$1" ] || { echo "$address"; return; }
        done <"$SVC_DIR/places"
    fi
    echo "$HOST"
}

# inside NAME: what to put before a command that is to run where the server does.
inside() {
    local name namespace
    [ -f "$SVC_DIR/places" ] || return 0
    while IFS='=' read -r name namespace _; do
        [ "$name" != "$1" ] || { echo "ip netns exec $namespace"; return; }
    done <"$SVC_DIR/places"
}
