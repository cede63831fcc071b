#!/usr/bin/env bash
# Tests on a real Slurm, in two minutes, what Lull promises of Slurm: job_submit.lua holds a job, the job is released by plan, and it starts in time if Lull is dead. Where a
# real Slurm cannot be had, it says why, and succeeds: without root, without apt-get, without Debian's packages or the libraries that they need, where user nobody may
# not read the tree, and where Slurm does not start. make test-slurm fails there.
#
#   tools/slurmshort.sh DIR LULL
set -euo pipefail

skip() { echo "Skipped the tests on a real Slurm: $*" >&2; exit 0; }

[ "$(id -u)" = 0 ] || skip "they need root"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ ! -e "$1/version" ]; then
  # Without a network, apt-get fails at once, or when the time is over.
  timeout 180 "$(dirname "$0")/slurm.sh" "$1" >"$log" 2>&1 || skip "its packages cannot be had: $(tail -n 1 "$log")"
fi
from=$(cd "$1" && pwd)
LD_LIBRARY_PATH="$from/lib:$from/lib/slurm-wlm" "$from/root/usr/sbin/slurmctld-wlm" -V >/dev/null 2>&1 || skip "slurmctld of $1 does not run on this machine"

export LULL_SLURM=$from LULL_BIN
LULL_BIN=$(realpath "$2")
if ! "${GO:-go}" test -tags slurm -count=1 -timeout 15m -run '^(TestEachJobStartsInTimeWithoutLull|TestRestartOfLull)$' ./test/slurm >"$log" 2>&1; then
  ! grep -q '^Slurm does not start' "$log" || skip "$(grep '^Slurm does not start' "$log")"
  cat "$log"
  exit 1
fi
cat "$log"
