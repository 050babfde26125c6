#!/usr/bin/env bash
# The slow checks before a release: feature combinations, what each pulls in, licences and bans, the public API against its
# listing, packages that build by themselves, the size and the start of the command, and the oldest versions that the manifests allow.
set -euo pipefail
cd "$(dirname "$0")/.."

. dev/build_needs.sh
[ -z "$(wanting_protoc)" ] || has_protoc || install_packages protobuf-compiler libprotobuf-dev

. dev/tools.sh
need cargo-hack 0.6.46
need cargo-deny 0.20.2

cargo hack check --feature-powerset --no-dev-deps -p distlock-core -p distlock-sql -p distlock-redis -p distlock-etcd -p distlock-zk
cargo hack check --each-feature --no-dev-deps -p distlock-bench -p distlock-cli
# Some two thousand sets, which take hours; any two features first. Both of the group touch the core alone, where each was checked
# above. At the root cargo takes the features to be those of all default members, so in this copy the facade is the only one.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git archive HEAD | tar -x -C "$copy"
(
    cd "$copy"
    sed -i 's/^default-members = .*/default-members = ["."]/' Cargo.toml
    export CARGO_TARGET_DIR=$OLDPWD/target
    cargo hack check --feature-powerset --depth 2 --no-dev-deps -p distlock
    cargo hack check --feature-powerset --group-features blocking,serde --no-dev-deps -p distlock
)

cargo test -p distlock --test feature_trees --test packaging --test dependency_rule

cargo deny check bans licenses sources

./dev/api.sh check

# With the release of Rust that the manifests name.
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rustup toolchain install "$oldest" --profile minimal --no-self-update
cargo "+$oldest" check --workspace --all-features --locked

# Every crate that is published, built from its package.
cargo package --workspace --exclude distlock-examples --exclude distlock-testbed --all-features --allow-dirty

# Users run that one, installed as the pages say; it must not grow unseen.
cargo install --locked --path lock-cli --features full --root "$copy/installed" --no-track
size=$(stat -c %s "$copy/installed/bin/distlock")
echo "distlock with all stores: $((size / 1024 / 1024)) MiB stripped"
[ "$size" -le $((25 * 1024 * 1024)) ]

# What people put around a cron job must not be felt.
BINARY=$copy/installed/bin/distlock ./dev/startup.sh

(
    cd "$copy"
    RUSTC_BOOTSTRAP=1 cargo update -Z direct-minimal-versions
    cargo check --workspace --all-features
)
echo "all gates passed"
