#!/usr/bin/env bash
# docs.sh: writes the generated pages anew, and turns the crates' documentation and all Markdown pages into HTML below target/doc. Ends
# with the path to begin at. Without protoc it leaves out, loudly, what needs that.
set -euo pipefail
cd "$(dirname "$0")/.."
doc=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/doc
repository=https://github.com/distlock/distlock/blob/main

scope=$(./dev/scope.sh distlock)
UPDATE_DOCS=1 cargo test $scope --test generated_docs
UPDATE_DOCS=1 cargo test -p distlock-cli --test cli -- reference
scope=$(./dev/scope.sh)
cargo doc $scope --no-deps

rm -rf "$doc/pages"
mkdir -p "$doc/pages"
cat >"$doc/pages/style.html" <<'END'
<style>
body { max-width: 60em; margin: 2em auto; padding: 0 1em; font: 16px/1.5 sans-serif }
table { border-collapse: collapse } td, th { border: 1px solid #ccc; padding: .2em .6em; text-align: left; vertical-align: top }
pre { background: #f4f4f4; padding: .6em; overflow-x: auto }
</style>
END

# html FILE.md FOLDER
html() {
    rustdoc --markdown-no-toc --html-in-header "$doc/pages/style.html" -o "$2" "$1"
}

# localise PAGE FOLDER UP: links of a page in the sources' FOLDER lead to other pages, UP from its own; to items of the code by a search;
# and to files that are no pages on the web.
localise() {
    sed -E -i \
        -e "s,href=\"$repository/([^\"#]*)\.md([#\"]),href=\"$3\1.html\2,g" \
        -e "s,href=\"crate::guide::([a-z_]+)\",href=\"${3}docs/guide/\1.html\",g" \
        -e "s,href=\"(crate::)?([A-Za-z_]+::)*([A-Za-z_]+)\",href=\"$3../distlock/index.html?search=\3\",g" \
        -e "s,href=\"([^\":#]*)\.md([#\"]),href=\"\1.html\2,g" \
        -e "s,href=\"([^\":#]*\.(rs|json|yml|toml|sh))\",href=\"$repository/$2/\1\",g" "$1"
}

git ls-files '*.md' | while read -r page; do
    folder=$(dirname "$page")
    html "$page" "$doc/pages/$folder"
    localise "$doc/pages/${page%.md}.html" "$folder" "$([ "$folder" = . ] || sed 's,[^/]*,..,g; s,$,/,' <<<"$folder")"
done

# list TITLE PAGE..: a heading, and the pages by their own titles.
list() {
    printf '\n## %s\n\n' "$1"
    shift
    local page
    for page; do
        echo "- [$(sed -n '1s/^# *//p' "$page")](pages/${page%.md}.html)"
    done
}

{
    echo '# distlock'
    list 'Start here' README.md docs/architecture.md CONTRIBUTING.md
    list 'The guide' docs/guide/*.md
    list 'The stores' docs/backends/README.md $(ls docs/backends/*.md | grep -v README)
    list 'Running it' docs/operations/*.md
    list 'Reference' docs/{guarantees,options,cli,metrics,performance,scenarios,testing}.md
    list 'Decisions' docs/adr/*.md
    printf '\n## The crates\n\n'
    for crate in $(sed -n 's/^name = "\(distlock[a-z-]*\)"$/\1/p' Cargo.toml ./*/Cargo.toml | tr - _ | sort -u); do
        [ ! -e "$doc/$crate/index.html" ] || echo "- [$crate]($crate/index.html)"
    done
} >"$doc/index.md"
html "$doc/index.md" "$doc"
rm "$doc/index.md"

echo "$doc/index.html"
