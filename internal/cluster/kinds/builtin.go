package kinds

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/units"
)

// builtinGroups are the groups of the kinds whose names policies and CarbonPlans use without a group. A
// PodGroup is a group of Pods.
var builtinGroups = map[string]string{
	"AppWrapper": "workload.codeflare.dev", "Deployment": "apps", "Job": "batch", "JobSet": "jobset.x-k8s.io", "MPIJob": "kubeflow.org",
	"Pod": "", "PodGroup": "", "PyTorchJob": "kubeflow.org", "RayCluster": "ray.io", "RayJob": "ray.io", "TrainJob": "trainer.kubeflow.org",
}

//go:embed builtin/*.yaml
var files embed.FS

// Builtin returns the built-in kinds by name.
func Builtin() []*Kind { return slices.Clone(builtin()) }

var builtin = sync.OnceValue(func() []*Kind {
	entries, err := fs.ReadDir(files, "builtin")
	if err != nil {
		panic(err) // part of the binary
	}
	var out []*Kind
	for _, e := range entries {
		text, err := fs.ReadFile(files, "builtin/"+e.Name())
		if err != nil {
			panic(err)
		}
		k, err := Parse(text)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", e.Name(), err)) // a test reads them all
		}
		out = append(out, k)
	}
	sort.Slice(out, func(a, b int) bool { return out[a].Name < out[b].Name })
	return out
})

// With returns the built-in kinds and those of WorkloadKinds, which replace built-in ones of the same group
// and kind. Of several WorkloadKinds that policies cannot tell apart the first counts; refused has, by the
// name of the WorkloadKind, an error that names both for each of the others.
func With(further []*Kind) (all []*Kind, refused map[string]error) {
	all, refused = Builtin(), map[string]error{}
	for _, k := range further {
		i := slices.IndexFunc(all, func(x *Kind) bool { return x.Name == k.Name })
		switch {
		case i < 0:
			all = append(all, k)
		case slices.Contains(builtin(), all[i]): // of the same group, as names are
			all[i] = k
		default:
			refused[k.From] = fmt.Errorf("%w %q: spec.kind: %s is %s of WorkloadKind %q already; accepted: one WorkloadKind for each name that policies use", ErrKind, k.From, k.Name, all[i].GroupKind(), all[i].From)
		}
	}
	return all, refused
}

// DefaultNames are the kinds that a policy governs where it names none: batch work with an
// end of its own.
var DefaultNames = []string{"Job", "JobSet", "MPIJob", "PyTorchJob", "TrainJob", "RayJob", "AppWrapper"}

// Named returns built-in kinds by name. The error wraps ErrKind and lists those there are.
func Named(names []string) ([]*Kind, error) {
	byName := map[string]*Kind{}
	var all []string
	for _, k := range Builtin() {
		byName[k.Name] = k
		all = append(all, k.Name)
	}
	var out []*Kind
	for _, name := range names {
		k := byName[name]
		if k == nil {
			return nil, fmt.Errorf("%w: %q; accepted: %s", ErrKind, name, strings.Join(all, ", "))
		}
		out = append(out, k)
	}
	return out, nil
}

// Parse reads a WorkloadKind from YAML, strictly.
func Parse(text []byte) (*Kind, error) {
	var w v1alpha1.WorkloadKind
	if err := yaml.UnmarshalStrict(text, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKind, units.ReadError(err))
	}
	if w.APIVersion != v1alpha1.GroupVersion.String() || w.Kind != "WorkloadKind" || w.Name == "" {
		return nil, fmt.Errorf("%w: %s %s %q; accepted: a %s WorkloadKind with a name", ErrKind, w.APIVersion, w.Kind, w.Name, v1alpha1.GroupVersion)
	}
	return New(w.Name, &w.Spec)
}
