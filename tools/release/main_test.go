package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// self is this test's own binary, with what it is linked from.
func self(t *testing.T) (binary string, deps []*debug.Module) {
	t.Helper()
	binary, err := os.Executable()
	info, ok := debug.ReadBuildInfo()
	if err != nil || !ok || len(info.Deps) == 0 {
		t.Fatal(err, ok)
	}
	return binary, info.Deps
}

func TestSBOM(t *testing.T) {
	binary, deps := self(t)
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := run([]string{"sbom", binary, "v1.2.3"}, out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two runs differ")
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(&first, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	of := bom.Metadata.Component
	if of.Version != "v1.2.3" || of.Hashes == nil || (*of.Hashes)[0].Value != hex.EncodeToString(sum[:]) {
		t.Errorf("of %+v", of)
	}
	components := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		components[c.PackageURL] = c
	}
	for _, d := range deps {
		c, there := components["pkg:golang/"+d.Path+"@"+d.Version]
		if !there || c.Licenses == nil || len(*c.Licenses) == 0 {
			t.Errorf("%s: %+v", d.Path, c)
		}
	}
	if len(components) != len(deps)+1 { // and Go
		t.Errorf("%d components of %d modules", len(components), len(deps))
	}
}

func TestLicences(t *testing.T) {
	binary, _ := self(t)
	var out bytes.Buffer
	if err := run([]string{"licences", binary}, &out); err != nil || !strings.Contains(out.String(), "github.com/CycloneDX/cyclonedx-go") || !strings.Contains(out.String(), "Apache-2.0") {
		t.Errorf("%v\n%s", err, out.String())
	}
	before := accepted
	defer func() { accepted = before }()
	accepted = []string{"MIT"}
	if err := run([]string{"licences", binary}, &out); err == nil || !strings.Contains(err.Error(), "Apache-2.0") {
		t.Errorf("a licence that is not accepted: %v", err)
	}
}

func TestRefused(t *testing.T) {
	other := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(other, []byte("no binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"sbom"}, {"sbom", other}, {"list", other}, {"licences", other}, {"licences", other + "-absent"}} {
		if err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
