#!/usr/bin/env bash
# Runs make targets one after another and prints how each ended and the minutes it took. The log of each is in bin/suites/.
# Usage: tools/suites.sh TARGET...
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p bin/suites
failed=0 table=""
for suite in "$@"; do
	start=$(date +%s)
	result=pass
	make "$suite" >"bin/suites/$suite.log" 2>&1 </dev/null || { result=FAIL; failed=1; }
	line=$(printf '%-18s %s %4d min' "$suite" $result $((($(date +%s) - start + 59) / 60)))
	echo "$line"
	[ $result = pass ] || { grep -nE '^ *(--- FAIL|FAIL|panic:)|\*\*\*' "bin/suites/$suite.log" | head -40; }
	table+="$line"$'\n'
done
printf '\n%s' "$table"
exit $failed
