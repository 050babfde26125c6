# What the crates need to be built, besides Rust.

# The crates with a protocol that is compiled from its definition.
PROTOC_CRATES=(distlock-etcd)

has_compiler() {
    command -v cc >/dev/null || command -v gcc >/dev/null
}

# The compiler of protocols, and the definitions that come with it.
has_protoc() {
    [ -n "${PROTOC:-}" ] || {
        command -v protoc >/dev/null &&
            [ -e "${PROTOC_INCLUDE:-$(dirname "$(dirname "$(command -v protoc)")")/include}/google/protobuf/descriptor.proto" ]
    }
}

# The crates of this workspace that want protoc.
wanting_protoc() {
    local crate
    for crate in "${PROTOC_CRATES[@]}"; do
        ! grep -lxq "name = \"$crate\"" ./*/Cargo.toml || echo "$crate"
    done
}

# install_packages PACKAGE..: where that is possible without asking anybody.
install_packages() {
    local sudo=()
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" != 0 ]; then
        sudo=(sudo -n)
        sudo -n true 2>/dev/null || return 1
    fi
    "${sudo[@]}" apt-get update -q &&
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}
