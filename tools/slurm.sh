#!/usr/bin/env bash
# Unpacks Debian's Slurm and munge into a folder, for tests. It installs nothing on this machine: their programs find their libraries and
# plugins by LD_LIBRARY_PATH and PluginDir (test/slurm). slurmrestd, and slurmdbd and its MariaDB, come along if they can be had; tests that need them are
# skipped otherwise.
#
#   tools/slurm.sh DIR
set -euo pipefail

to=$(mkdir -p "$1" && cd "$1" && pwd)
packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libmunge2 liblua5.1-0 libhwloc15 libnuma1 libjson-c5 libreadline8)
rest=(slurmrestd slurm-wlm-jwt-plugin libhttp-parser2.9 libjwt0 libb64-0d libjansson4)
accounting=(slurmdbd slurm-wlm-mysql-plugin mariadb-server-core mariadb-client-core libmariadb3 libaio1 liburing2)
command -v apt-get >/dev/null || { echo "Slurm for the tests comes from Debian packages, and there is no apt-get. Run them on Debian 12." >&2; exit 1; }

debs=$(mktemp -d)
trap 'rm -rf "$debs"' EXIT
download() { (cd "$debs" && apt-get -qq -o APT::Sandbox::User=root download "$@"); }
# The lists of packages may be old, or not there.
download "${packages[@]}" 2>"$debs/errors" || { apt-get update -qq && download "${packages[@]}"; } || { cat "$debs/errors" >&2; exit 1; }
download "${rest[@]}" 2>"$debs/errors" || echo "No slurmrestd for the tests, which skip what needs it: $(tail -n 1 "$debs/errors")" >&2
download "${accounting[@]}" 2>"$debs/errors" || echo "No slurmdbd for the tests, which skip what needs it: $(tail -n 1 "$debs/errors")" >&2

rm -rf "$to/root" "$to/version"
mkdir "$to/root"
for deb in "$debs"/*.deb; do dpkg-deb -x "$deb" "$to/root"; done

lib=$to/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")
export LD_LIBRARY_PATH=$lib:$lib/slurm-wlm
ln -sfn "$lib" "$to/lib"
missing=$(ldd "$to"/root/usr/sbin/* "$to"/root/usr/bin/s* "$lib"/slurm-wlm/{auth_munge,cred_munge,job_submit_lua,select_cons_tres,proctrack_linuxproc}.so 2>/dev/null | grep 'not found' | sort -u || true)
[ -z "$missing" ] || { echo "Slurm needs libraries that are not there:" >&2; echo "$missing" >&2; exit 1; }
# Libraries of MariaDB that this machine lacks, such as libpcre2: the tests that need it are skipped.
if [ -e "$to/root/usr/sbin/mariadbd" ] && ldd "$to"/root/usr/sbin/{mariadbd,slurmdbd} "$lib/slurm-wlm/accounting_storage_mysql.so" | grep 'not found' | sort -u >&2; then
  rm "$to/root/usr/sbin/mariadbd"
fi
dpkg-deb -f "$debs"/slurmctld_*.deb Version >"$to/version"
echo "Slurm for the tests: $(cat "$to/version") in $to"
