// Command release says what a binary is made of, as a CycloneDX bill of materials or as a list of
// licences, and writes the manifest of a release for krew.
//
//	release sbom BINARY VERSION > sbom.cdx.json
//	release licences BINARY > licences.md
//	release krew FOLDER VERSION URL HOMEPAGE > lull.yaml
//
// The first two are made of what the Go linker has written into the binary, and of the files of licences in
// the module cache. Equal binaries give equal bytes.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// accepted are the licences that a part of Lull may have: all of them let an Apache-licensed program
// be given away with it.
var accepted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense", "CC0-1.0", "0BSD", "Zlib"}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 5 && args[0] == "krew" {
		return writeKrew(out, args[1], args[2], args[3], args[4])
	}
	sbom := len(args) == 3 && args[0] == "sbom"
	if !sbom && (len(args) != 2 || args[0] != "licences") {
		return errors.New("accepted: sbom BINARY VERSION, licences BINARY, or krew FOLDER VERSION URL HOMEPAGE")
	}
	modules, err := modulesOf(args[1])
	if err != nil {
		return err
	}
	if sbom {
		return writeSBOM(out, args[1], args[2], modules)
	}
	return writeLicences(out, modules)
}

// module is a part of a binary.
type module struct {
	path, version string
	licences      []string
}

func (m *module) purl() string { return "pkg:golang/" + m.path + "@" + m.version }

// modulesOf are what a binary is linked from, but for itself, by path, with their licences.
func modulesOf(binary string) ([]module, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	// Go itself is a part too.
	std := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
	out := []module{{path: "std", version: std, licences: []string{"BSD-3-Clause"}}}
	of, err := assets.DefaultClassifier()
	if err != nil {
		return nil, err
	}
	for _, d := range info.Deps {
		m := module{path: d.Path, version: d.Version}
		if d.Replace != nil {
			m.path, m.version = d.Replace.Path, d.Replace.Version
		}
		if m.licences, err = licencesOf(of, m.path, m.version); err != nil {
			return nil, fmt.Errorf("%s@%s: %w", m.path, m.version, err)
		}
		out = append(out, m)
	}
	sort.Slice(out, func(a, b int) bool { return out[a].path < out[b].path })
	return out, nil
}

// licencesOf are those that the files of licences at a module's root hold.
func licencesOf(of *classifier.Classifier, path, version string) ([]string, error) {
	text, err := exec.Command("go", "mod", "download", "-json", path+"@"+version).Output()
	if err != nil {
		return nil, err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(text, &module); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(module.Dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") && !strings.HasPrefix(name, "UNLICENSE") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(module.Dir, e.Name()))
		if err != nil {
			return nil, err
		}
		for _, m := range of.Match(text).Matches {
			if m.MatchType == "License" && !slices.Contains(found, m.Name) {
				found = append(found, m.Name)
			}
		}
	}
	sort.Strings(found)
	return found, nil
}

// writeLicences writes a table, and fails where a part has no licence that is accepted.
func writeLicences(out io.Writer, modules []module) error {
	fmt.Fprintf(out, "# Licences\n\nFor those who review what they install: each module in the binary, with its licence.\n\nModules linked into `lull`, with their licences. `make licences` writes this page.\n\n| module | licences |\n|---|---|\n")
	var bad []string
	for i := range modules {
		m := &modules[i]
		fmt.Fprintf(out, "| %s | %s |\n", m.path, strings.Join(m.licences, ", "))
		if len(m.licences) == 0 || !slices.ContainsFunc(m.licences, func(l string) bool { return slices.Contains(accepted, l) }) {
			bad = append(bad, fmt.Sprintf("%s (%s)", m.path, strings.Join(m.licences, ", ")))
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("without a licence that is accepted (%s): %s", strings.Join(accepted, ", "), strings.Join(bad, "; "))
	}
	return nil
}

// writeSBOM writes a bill of materials in CycloneDX 1.6 (ECMA-424).
func writeSBOM(out io.Writer, binary, version string, modules []module) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	self := cdx.Component{
		BOMRef: "lull", Type: cdx.ComponentTypeApplication, Name: "lull", Version: version,
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: digest}},
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	bom := cdx.NewBOM()
	// By the binary, so that equal ones have equal bills.
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%s-%s-%s-%s-%s", digest[0:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
	bom.Metadata = &cdx.Metadata{Component: &self}
	var components []cdx.Component
	var refs []string
	for i := range modules {
		m := &modules[i]
		var licences cdx.Licenses
		for _, l := range m.licences {
			licences = append(licences, cdx.LicenseChoice{License: &cdx.License{ID: l}})
		}
		components = append(components, cdx.Component{
			BOMRef: m.purl(), Type: cdx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: m.purl(), Licenses: &licences,
		})
		refs = append(refs, m.purl())
	}
	bom.Components, bom.Dependencies = &components, &[]cdx.Dependency{{Ref: "lull", Dependencies: &refs}}
	encoder := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON)
	return encoder.SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}
