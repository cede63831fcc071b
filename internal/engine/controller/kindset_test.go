package controller

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
)

// listCache is a cache of which only lists are read.
type listCache struct {
	cache.Cache
	client client.Client
}

func (c listCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.client.List(ctx, list, opts...)
}

// nothing is an API server that serves no kind of workload.
type nothing struct{ client.Reader }

func (nothing) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return &meta.NoKindMatchError{}
}

// TestWorkloadKindsRefused: a WorkloadKind for another group's Job leaves batch/v1 Job as it is; of two that
// collide the younger is refused, with a condition that names both; a path that Lull cannot read is refused.
func TestWorkloadKindsRefused(t *testing.T) {
	ctx := context.Background()
	kind := func(name, group, suspend string, age time.Duration) *v1alpha1.WorkloadKind {
		return &v1alpha1.WorkloadKind{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-age))},
			Spec: v1alpha1.WorkloadKindSpec{
				Group: group, Version: "v1", Kind: "Job", Resource: "jobs", Hold: v1alpha1.HoldSpec{Suspend: v1alpha1.Path(suspend)},
				Pods: []v1alpha1.PodsSpec{{Template: "spec.template"}},
			},
		}
	}
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.WorkloadKind{}).WithObjects(
		kind("volcano", "batch.volcano.sh", "spec.suspend", time.Hour), kind("a-copy", "batch.volcano.sh", "spec.suspend", time.Minute),
		kind("furiko", "execution.furiko.io", "spec.template.spec.suspend", time.Minute),
	).Build()
	s := NewKindSet()
	s.cache, s.live, s.status = listCache{client: c}, nothing{}, c.Status()
	builtin := s.Of(schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"})
	for range 2 { // the second time nothing is written
		s.sync(ctx)
	}
	if s.Of(builtin.GVK()) != builtin {
		t.Error("batch/v1 Job is another kind now")
	}
	if k := s.Of(schema.GroupVersionKind{Group: "batch.volcano.sh", Version: "v1", Kind: "Job"}); k == nil || k.From != "volcano" || k.Name != "Job.batch.volcano.sh" {
		t.Errorf("Volcano's Job is %+v", k)
	}
	for name, want := range map[string]string{"volcano": "", "a-copy": `"volcano"`, "furiko": "spec.template.spec.suspend"} {
		var w v1alpha1.WorkloadKind
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &w); err != nil {
			t.Fatal(err)
		}
		ready := meta.FindStatusCondition(w.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || (ready.Status == metav1.ConditionTrue) != (want == "") || !strings.Contains(ready.Message, want) || want != "" && !strings.Contains(ready.Message, name) {
			t.Errorf("%s: %+v, want %s named", name, ready, want)
		}
	}
	if err := c.DeleteAllOf(ctx, &v1alpha1.WorkloadKind{}); err != nil {
		t.Fatal(err)
	}
	s.sync(ctx)
	if _, told := s.told["furiko"]; told || len(s.further) > 0 {
		t.Errorf("kept of WorkloadKinds that are gone: %v, %v", s.told, s.further)
	}
}

// asked records which kinds are asked for, in their order.
type asked struct {
	nothing
	kinds *[]string
}

func (a asked) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	*a.kinds = append(*a.kinds, list.GetObjectKind().GroupVersionKind().String())
	return a.nothing.List(ctx, list, opts...)
}

// TestKindsAreAskedForInOneOrder: sync goes through the kinds in the same order each time.
func TestKindsAreAskedForInOneOrder(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	s := NewKindSet()
	var first []string
	for range 5 {
		var kinds []string
		s.cache, s.live = listCache{client: fake.NewClientBuilder().WithScheme(scheme).Build()}, asked{kinds: &kinds}
		s.sync(t.Context())
		if first == nil {
			first = kinds
		}
		if len(kinds) < 5 || !slices.Equal(kinds, first) {
			t.Fatalf("asked for %v, before for %v", kinds, first)
		}
	}
}

// unserved is a cache of an API server that lacks the CustomResourceDefinition of WorkloadKinds.
type unserved struct{ cache.Cache }

func (unserved) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return &meta.NoKindMatchError{}
}

// TestMissingCustomResourcesAreNotReady: a leader is not ready while Lull's CustomResourceDefinitions are missing, as it decides nothing; one that does not lead is ready.
func TestMissingCustomResourcesAreNotReady(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	s := NewKindSet()
	s.cache, s.live = unserved{}, nothing{}
	s.sync(t.Context())
	leads, follows := elected{make(chan struct{})}, elected{make(chan struct{})}
	close(leads.c)
	if err := checkKinds(leads, s); err == nil || !strings.Contains(err.Error(), "CustomResourceDefinitions of Lull") {
		t.Errorf("without them a leader is ready: %v", err)
	}
	if err := checkKinds(follows, s); err != nil {
		t.Errorf("a replica that does not lead: %v", err)
	}
	s.cache = listCache{client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	s.sync(t.Context())
	if err := checkKinds(leads, s); err != nil {
		t.Errorf("with them: %v", err)
	}
}

// elected is a manager that only says when it leads.
type elected struct{ c chan struct{} }

func (e elected) Elected() <-chan struct{} { return e.c }
