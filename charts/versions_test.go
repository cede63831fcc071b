package charts

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

// TestOneVersionIsStored: each custom resource has one version, which is stored and served, and converts nothing. docs/design/0013-packaging.md
// says what a second one needs.
func TestOneVersionIsStored(t *testing.T) {
	files, err := filepath.Glob("lull/files/crd/lull.dev_*.yaml")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d files, %v; want one for each custom resource", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Conversion any
				Versions   []struct {
					Name                        string
					Served, Storage, Deprecated bool
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if v := crd.Spec.Versions; len(v) != 1 || v[0].Name != v1alpha1.GroupVersion.Version || !v[0].Served || !v[0].Storage || v[0].Deprecated || crd.Spec.Conversion != nil {
			t.Errorf("%s: versions %+v, conversion %v; want %s alone, stored and served", file, v, crd.Spec.Conversion, v1alpha1.GroupVersion.Version)
		}
	}
}
