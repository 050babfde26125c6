# Cargo's subcommands that the slow checks use.

# need TOOL VERSION: installs it if there is none.
need() {
    command -v "$1" >/dev/null || cargo install --locked "$1" --version "$2"
}
