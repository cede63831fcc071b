package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// archives are the names of the archives of a release for krew, by what runs them: lull-OS-ARCH.tar.gz.
var archives = regexp.MustCompile(`^lull-([a-z0-9]+)-([a-z0-9]+)\.tar\.gz$`)

// versions are those that krew accepts.
var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// writeKrew writes the manifest by which krew, the manager of kubectl's plugins, installs the archives of a folder: kubectl lull. base is the address
// of the folder of the release, and home the page of the project; both begin with https://.
func writeKrew(out io.Writer, folder, version, base, home string) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("version: %q; accepted: vMAJOR.MINOR.PATCH", version)
	}
	for _, address := range []string{base, home} {
		if u, err := url.Parse(address); err != nil || u.Scheme != "https" || u.Host == "" || strings.ContainsAny(address, " \"\\\n") {
			return fmt.Errorf("address: %q; accepted: one that begins with https:// and a host", address)
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var platforms strings.Builder
	for _, e := range entries { // in the order of their names
		m := archives.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&platforms, `  - selector: {matchLabels: {os: %s, arch: %s}}
    uri: "%s/%s"
    sha256: %s
    bin: lull
    files:
    - {from: lull, to: .}
    - {from: LICENSE, to: .}
`, m[1], m[2], strings.TrimSuffix(base, "/"), e.Name(), hex.EncodeToString(sum[:]))
	}
	if platforms.Len() == 0 {
		return fmt.Errorf("%s: no archive; accepted: a folder with lull-OS-ARCH.tar.gz", folder)
	}
	_, err = fmt.Fprintf(out, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: lull
spec:
  version: %s
  homepage: "%s"
  shortDescription: Run batch work when the electricity is clean
  description: |
    Lull holds Jobs and other batch work until the electricity grid is clean, and keeps their deadlines.
    This plugin says what is held and why, plans, reports what was saved, and releases.
  caveats: |
    Lull must be installed in the cluster, except for planning and simulation. Begin with: kubectl lull status
  platforms:
%s`, version, home, platforms.String())
	return err
}
