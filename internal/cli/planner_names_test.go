package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestPolicyAcceptsThePlannersThereAre: the API server accepts the planners that the controller can build, and no
// other name, so that a misspelt one is refused with the list.
func TestPolicyAcceptsThePlannersThereAre(t *testing.T) {
	var accepted []string
	for _, name := range schemaOf(t, "lull.dev_carbonpolicies.yaml").Properties["spec"].Properties["planner"].Properties["name"].Enum {
		accepted = append(accepted, name.(string))
	}
	want := plannerNames()
	slices.Sort(want)
	slices.Sort(accepted)
	if !slices.Equal(accepted, want) {
		t.Errorf("a CarbonPolicy accepts planners %v, want %v", accepted, want)
	}
	for _, name := range want {
		if _, err := NewPlanner(name, nil, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for params, want := range map[string]string{"revise": "leave it out", "reserved": "accepted: effort, gap, reserve"} {
		if _, err := NewPlanner("joint", map[string]string{params: "changes"}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", params, err, want)
		}
	}
}

// schemaOf is the schema of a custom resource, by the name of its file.
func schemaOf(t *testing.T, file string) schema {
	t.Helper()
	text, err := os.ReadFile(tree + "/charts/lull/files/crd/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema schema }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}
