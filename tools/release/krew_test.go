package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// plugin is a manifest of krew: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Caveats          string `json:"caveats"`
		Homepage         string `json:"homepage"`
		Platforms        []struct {
			URI      string `json:"uri"`
			Sha256   string `json:"sha256"`
			Bin      string `json:"bin"`
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			Files []struct {
				From string `json:"from"`
				To   string `json:"to"`
			} `json:"files"`
		} `json:"platforms"`
	} `json:"spec"`
}

// TestKrew: the manifest of a release keeps the rules by which krew validates manifests, and names each archive with its checksum.
func TestKrew(t *testing.T) {
	folder := t.TempDir()
	sums := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		name := "lull-linux-" + arch
		for _, file := range []string{name, name + ".cdx.json", name + ".tar.gz"} {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		sum := sha256.Sum256([]byte(name + ".tar.gz"))
		sums["https://example.com/v1.2.3/"+name+".tar.gz linux "+arch] = hex.EncodeToString(sum[:])
	}
	var out bytes.Buffer
	if err := run([]string{"krew", folder, "v1.2.3", "https://example.com/v1.2.3/", "https://example.com"}, &out); err != nil {
		t.Fatal(err)
	}
	var p plugin
	if err := yaml.UnmarshalStrict(out.Bytes(), &p); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	s := p.Spec
	switch {
	case p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin":
		t.Errorf("%s %s", p.APIVersion, p.Kind)
	case !regexp.MustCompile(`^[\w-]+$`).MatchString(p.Metadata.Name) || p.Metadata.Name != "lull":
		t.Errorf("name %q", p.Metadata.Name)
	case s.Version != "v1.2.3" || s.Homepage != "https://example.com":
		t.Errorf("version %q, homepage %q", s.Version, s.Homepage)
	case s.ShortDescription == "" || len(s.ShortDescription) > 50 || strings.ContainsAny(s.ShortDescription, "\r\n"):
		t.Errorf("short description %q: accepted: one line of 50 characters at most", s.ShortDescription)
	case s.Description == "" || s.Caveats == "":
		t.Error("no description, or no caveats")
	}
	for _, x := range s.Platforms {
		of := x.URI + " " + x.Selector.MatchLabels["os"] + " " + x.Selector.MatchLabels["arch"]
		if sums[of] == "" || x.Sha256 != sums[of] || x.Bin != "lull" || len(x.Selector.MatchLabels) != 2 {
			t.Errorf("%+v", x)
		}
		delete(sums, of)
		if len(x.Files) != 2 || x.Files[0].From != "lull" || x.Files[1].From != "LICENSE" || x.Files[0].To == "" || x.Files[1].To == "" {
			t.Errorf("files %+v: want the binary and its licence", x.Files)
		}
	}
	if len(sums) > 0 {
		t.Errorf("not in the manifest: %v", sums)
	}
	for name, args := range map[string][]string{
		"a version without v": {folder, "1.2.3", "https://example.com", "https://example.com"},
		"no https":            {folder, "v1.2.3", "http://example.com", "https://example.com"},
		"no host":             {folder, "v1.2.3", "https://example.com", "example.com"},
		"a quote":             {folder, "v1.2.3", `https://example.com/"`, "https://example.com"},
		"no archive":          {t.TempDir(), "v1.2.3", "https://example.com", "https://example.com"},
		"no folder":           {folder + "-absent", "v1.2.3", "https://example.com", "https://example.com"},
	} {
		if err := run(append([]string{"krew"}, args...), &bytes.Buffer{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
