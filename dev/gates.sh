#!/usr/bin/env bash
# The slow checks before a release: feature combinations, what the bare library pulls in, licences and bans, and
# the oldest versions that the manifests allow.
set -euo pipefail
cd "$(dirname "$0")/.."

need() {
    command -v "$1" >/dev/null || cargo install --locked "$1" --version "$2"
}
need cargo-hack 0.6.46
need cargo-deny 0.20.2

cargo hack check --each-feature --no-dev-deps -p distlock-core -p distlock-sql -p distlock-bench -p distlock-cli
cargo hack check --feature-powerset --no-dev-deps -p distlock

bare=$(cargo tree -p distlock --edges normal --prefix none --no-default-features)
for unwanted in sqlx libsqlite3-sys rustls openssl tonic redis; do
    if grep -q "^$unwanted" <<<"$bare"; then
        echo "distlock without features pulls in $unwanted" >&2
        exit 1
    fi
done

cargo deny check bans licenses sources

oldest=$(mktemp -d)
trap 'rm -rf "$oldest"' EXIT
git archive HEAD | tar -x -C "$oldest"
(
    cd "$oldest"
    RUSTC_BOOTSTRAP=1 cargo update -Z direct-minimal-versions
    cargo check --workspace --all-features
)
echo "all gates passed"
