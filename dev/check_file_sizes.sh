#!/usr/bin/env bash
# Fails if a Rust file is longer than 500 lines; names those over 300.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
while read -r lines file; do
    if [ "$lines" -gt 500 ]; then
        echo "$file has $lines lines; the limit is 500: split it by responsibility"
        failed=1
    elif [ "$lines" -gt 300 ]; then
        echo "note: $file has $lines lines; 300 is long"
    fi
done < <(git ls-files -z '*.rs' | xargs -0 wc -l | awk '$2 != "total" {print $1, $2}')
exit "$failed"
