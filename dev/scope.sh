#!/usr/bin/env bash
# scope.sh [PACKAGE..]: cargo's options for the whole workspace, or for these packages of it, with all features. Without protoc it
# leaves out what can't be built, and says so.
set -euo pipefail
cd "$(dirname "$0")/.."
. dev/build_needs.sh

packages=--workspace
[ $# -eq 0 ] || packages=$(printf -- '-p %s ' "$@")
crates=$(wanting_protoc)
if [ -z "$crates" ] || has_protoc; then
    echo "$packages --all-features"
    exit
fi
echo "!! NOT BUILT:" $crates "and what uses it: there is no protoc (packages protobuf-compiler and libprotobuf-dev)" >&2

# A feature is out if it leads to such a crate, or to a feature that is out.
awk -v crates="$crates" -v wanted="$*" '
    function leads(list, to) { return index(list, "\"" to "\"") }
    FNR == 1 { section = "" }
    /^\[/ { section = $1 }
    section == "[package]" && $1 == "name" { package = $3; gsub(/"/, "", package); all[package] }
    section == "[features]" && $2 == "=" { n++; of[n] = package; name[n] = $1; list[n] = $0; next }
    section == "[features]" && n { list[n] = list[n] $0 }
    section ~ /dependencies/ && section !~ /^\[workspace/ && !/optional *= *true/ {
        for (i = split(crates, c, /[ \n]/); i > 0; i--) if (index($1, c[i]) == 1) out[package]
    }
    END {
        for (i = split(crates, c, /[ \n]/); i > 0; i--) {
            out[c[i]]
            for (f = 1; f <= n; f++) if (leads(list[f], c[i]) || leads(list[f], "dep:" c[i])) bad[f]
        }
        do {
            more = 0
            for (f = 1; f <= n; f++) for (g in bad) {
                if (f in bad || !(of[f] == of[g] && leads(list[f], name[g]) ||
                    leads(list[f], of[g] "/" name[g]) || leads(list[f], of[g] "?/" name[g]))) continue
                bad[f]
                more = 1
                break
            }
        } while (more)
        if (wanted == "") { printf "--workspace"; for (p in out) printf " --exclude %s", p }
        else for (i = split(wanted, w, " "); i > 0; i--) { asked[w[i]]; printf " -p %s", w[i] }
        for (f = 1; f <= n; f++)
            if (!(f in bad) && !(of[f] in out) && (wanted == "" || of[f] in asked)) printf " --features %s/%s", of[f], name[f]
        print ""
    }' Cargo.toml ./*/Cargo.toml
