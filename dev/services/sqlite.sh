# A file: no server, but a URL like the others'.

GROUPS_KNOWN+=(sqlite)

sqlite_needs() {
    :
}

sqlite_members() {
    :
}

sqlite_url() {
    echo "sqlite:$SVC_DIR/locks.db"
}

sqlite_whole() {
    :
}

sqlite_up() {
    :
}
