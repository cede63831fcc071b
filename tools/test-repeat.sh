#!/usr/bin/env bash
# Runs tests N times while a process keeps one core busy, then lists which failed and how often. It exits with the
# status of go test: not 0 if a test failed.
# Usage: tools/test-repeat.sh N RUN PACKAGE...     (make test-repeat N=20 PKG=./internal/accounting/ledger RUN=TestKilledWritersLoseNoEntry)
set -euo pipefail

n=$1 run=$2
shift 2
cd "$(dirname "$0")/.."
events=$(mktemp)
(while :; do :; done) &
load=$!
trap 'kill $load; rm -f "$events"' EXIT

status=0
bin/gotestsum --format pkgname-and-test-fails --jsonfile "$events" -- -count="$n" -timeout "$((10 * n))m" -run "$run" "$@" || status=$?

echo
awk -v n="$n" '
/"Action":"fail"/ {
	package = $0; sub(/.*"Package":"/, "", package); sub(/".*/, "", package)
	if ($0 ~ /"Test":"/) { test = $0; sub(/.*"Test":"/, "", test); sub(/".*/, "", test); failed[package]++ }
	else { test = "(the package itself)" }
	times[package "\t" test]++
}
END {
	for (key in times) {
		split(key, of, "\t")
		if (of[2] == "(the package itself)" && failed[of[1]]) continue # for its tests
		printf "%4d of %d  %s  %s\n", times[key], n, of[1], of[2]; any = 1
	}
	if (!any) print "No test failed in " n " runs."
}' "$events" | sort -rn
exit $status
