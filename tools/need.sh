#!/usr/bin/env bash
# Checks that commands are there, and installs the Debian packages of those that are not. Without the rights or the network
# for it, it says what to install.
#
#   tools/need.sh PACKAGE=COMMAND ...     COMMAND: a name in PATH, or a path, which may have a *
set -euo pipefail

missing=()
for need in "$@"; do
	command=${need#*=}
	command -v "$command" >/dev/null || compgen -G "$command" >/dev/null || missing+=("${need%%=*}")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	if apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; then
		exit 0
	fi
fi
echo "Missing: ${missing[*]}. Install these packages (Debian: apt-get install ${missing[*]}), and run make again." >&2
exit 1
