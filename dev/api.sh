#!/usr/bin/env bash
# api.sh check|write: the public API of the libraries that programs build on, an item a line, with all features: docs/api/CRATE.txt.
# Of what is published, distlock-bench is not among them: its library is there for the command, and may change in any release.
# What one release of Rust makes of it another may write differently, so that release is fixed here.
set -euo pipefail
cd "$(dirname "$0")/.."

RUST=1.95.0
CRATES=(distlock distlock-core distlock-redis distlock-etcd distlock-sql distlock-zk distlock-conformance)

. dev/tools.sh
need cargo-public-api 0.52.0

if rustc --version | grep -q "^rustc $RUST "; then
    rustc=() rustdoc=rustdoc
else
    rustup toolchain install "$RUST" --profile minimal --no-self-update
    rustc=("+$RUST") rustdoc=$(rustup which --toolchain "$RUST" rustdoc)
fi

listings=$(mktemp -d)
trap 'rm -rf "$listings"' EXIT
# The format is not stable yet. For rustdoc alone, since build scripts look at that variable too and would all run again.
printf '#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec "%s" "$@"\n' "$rustdoc" >"$listings/rustdoc"
chmod +x "$listings/rustdoc"
RUSTDOC="$listings/rustdoc" RUSTDOCFLAGS="-Z unstable-options --output-format json" \
    cargo "${rustc[@]}" doc --no-deps --lib --all-features $(printf -- '-p %s ' "${CRATES[@]}")

mkdir -p docs/api
changed=()
for crate in "${CRATES[@]}"; do
    # Neither what every type gets nor what the compiler works out by itself, which would be most of it.
    cargo public-api --rustdoc-json "target/doc/${crate//-/_}.json" -ss >"$listings/$crate.txt"
    if [ "$1" = write ]; then
        cp "$listings/$crate.txt" docs/api/
    elif ! diff -u "docs/api/$crate.txt" "$listings/$crate.txt"; then
        changed+=("$crate")
    fi
done
[ ${#changed[@]} = 0 ] || {
    echo "the public API of ${changed[*]} is not what docs/api says; if that is meant, run \`make api\` and commit what it changed" >&2
    exit 1
}
