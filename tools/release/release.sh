#!/usr/bin/env bash
# Makes a release of the present commit in dist/: binaries, archives and a manifest for krew, the chart, bills of materials, checksums.
# Each binary is built twice, the second time from a copy elsewhere, and must come out the same.
#
#   tools/release/release.sh v0.1.0 [URL-OF-DIST [HOMEPAGE]]
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${1:?accepted: a version, as in v0.1.0}
url=${2:-} home=${3:-${2:-}}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || { echo "version: \"$version\"; accepted: vMAJOR.MINOR.PATCH" >&2; exit 1; }
[ -z "$(git status --porcelain)" ] || { echo "the working tree differs from the commit: commit first" >&2; exit 1; }

build() { # DIR OS ARCH FILE
	(cd "$1" && CGO_ENABLED=0 GOOS=$2 GOARCH=$3 go build -trimpath -buildvcs=false \
		-ldflags "-s -w -buildid= -X lull.dev/lull/internal/base/version.Version=$version" -o "$4" ./cmd/lull)
}

make -s bin/release bin/helm
rm -rf dist && mkdir dist
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git archive HEAD | tar -x -C "$copy"
for arch in amd64 arm64; do
	name=lull-linux-$arch
	build . linux $arch "$PWD/dist/$name"
	build "$copy" linux $arch "$copy/$name"
	cmp "dist/$name" "$copy/$name" || { echo "$name is not reproducible" >&2; exit 1; }
	bin/release sbom "dist/$name" "$version" > "dist/$name.cdx.json"
	# For krew: the same bytes of the same commit, whoever packs them.
	cp "dist/$name" "$copy/lull"
	tar -C "$copy" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -c LICENSE lull | gzip -9n > "dist/$name.tar.gz"
done
if [ -n "$url" ]; then
	bin/release krew dist "$version" "$url" "$home" > dist/lull.yaml
else
	echo "No manifest for krew: it takes URL=..., where dist/ will be published, and HOMEPAGE=..." >&2
fi
bin/helm package charts/lull --version "${version#v}" --app-version "$version" -d dist >/dev/null
(cd dist && sha256sum -- * > SHA256SUMS)
cat dist/SHA256SUMS
