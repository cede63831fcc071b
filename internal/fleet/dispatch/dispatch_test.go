package dispatch

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
)

func TestAllowed(t *testing.T) {
	cluster := func(name, zone, multiKueue string) v1alpha1.ComputeCluster {
		return v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ComputeClusterSpec{Zone: zone, Access: v1alpha1.ClusterAccess{MultiKueueCluster: multiKueue}}}
	}
	list := &v1alpha1.ComputeClusterList{Items: []v1alpha1.ComputeCluster{cluster("toronto", "ca-on", "mk-1"), cluster("frankfurt", "de", "mk-2"), cluster("tokyo", "jp-tk", "mk-3")}}
	of := []string{"toronto", "frankfurt", "gone"}
	for _, x := range []struct {
		annotations map[string]string
		want        []string
	}{
		{nil, []string{"mk-1", "mk-2"}},
		{map[string]string{v1alpha1.AnnotationZones: "de"}, []string{"mk-2"}},
		{map[string]string{v1alpha1.AnnotationClusters: "toronto, frankfurt", v1alpha1.AnnotationZones: "fr,ca-on"}, []string{"mk-1"}},
		{map[string]string{v1alpha1.AnnotationZones: "jp-tk"}, nil}, // not one of the policy's
	} {
		if got := Allowed(list, of, x.annotations); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%v: %v, want %v", x.annotations, got, x.want)
		}
	}
	if multiKueueOf(list, "tokyo") != "mk-3" || multiKueueOf(list, "gone") != "gone" {
		t.Error("names of clusters are mixed up")
	}
}

func TestAwaitsAndLeaves(t *testing.T) {
	for name, x := range map[string]struct {
		w              kueue.Workload
		awaits, leaves bool
	}{
		"queued":     {kueue.Workload{Active: true}, false, false},
		"with quota": {kueue.Workload{Active: true, Reserved: true}, true, false},
		"sent":       {kueue.Workload{Active: true, Reserved: true, Cluster: "a"}, false, false},
		"runs here":  {kueue.Workload{Active: true, Reserved: true, Admitted: true}, false, false},
		"evicted":    {kueue.Workload{Active: true, Reserved: true, Evicted: true}, false, true},
		"parked":     {kueue.Workload{Reserved: true, Cluster: "a"}, false, true},
		"gone":       {kueue.Workload{Evicted: true}, false, false},
		"finished":   {kueue.Workload{Active: true, Reserved: true, Finished: true}, false, false},
		"a copy":     {kueue.Workload{Active: true, Reserved: true, OfHub: true}, false, false},
	} {
		if Awaits(&x.w) != x.awaits || Leaves(&x.w) != x.leaves {
			t.Errorf("%s: awaits %v, leaves %v; want %v, %v", name, Awaits(&x.w), Leaves(&x.w), x.awaits, x.leaves)
		}
	}
}

// TestTargetIsOfTheOwner: a Workload goes where its own Job is planned. A later Job of the same name says nothing of it.
func TestTargetIsOfTheOwner(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(batchv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "second", Annotations: map[string]string{v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationCluster: "toronto"}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(job).Build()
	d := &Dispatcher{Reader: c, Live: c, Client: c}
	for owner, want := range map[types.UID][]string{"first": nil, "second": {"toronto"}} {
		w := &kueue.Workload{Namespace: "n", OwnedBy: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "a", UID: owner}}}
		if got, open, err := d.target(context.Background(), w, false); err != nil || open || !slices.Equal(got, want) {
			t.Errorf("Workload of the %s Job goes to %v (any: %v), %v; want %v", owner, got, open, err, want)
		}
	}
}

// TestTargetGoesOnToTheNextOwner: an owner that is gone, that Lull may not read, or whose name another object has, says nothing of the
// other owners. If all owners of a Workload have been replaced, it goes to no cluster.
func TestTargetGoesOnToTheNextOwner(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(batchv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	job := func(name string, uid types.UID, annotations map[string]string) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: uid, Annotations: annotations}}
	}
	governed := map[string]string{v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationCluster: "toronto"}
	held := map[string]string{v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: "true"}
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		job("replaced", "later", governed), job("governed", "u", governed), job("held", "u", held), job("free", "u", nil), job("secret", "u", nil),
	).Build(), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		switch key.Name {
		case "secret":
			return apierrors.NewForbidden(schema.GroupResource{}, key.Name, nil)
		case "unserved": // its CustomResourceDefinition is gone, or this version of it
			return &meta.NoKindMatchError{}
		}
		return c.Get(ctx, key, o, opts...)
	}})
	d := &Dispatcher{Reader: c, Live: c, Client: c}
	for _, tc := range []struct {
		owners string
		want   []string
		open   bool
	}{
		{"replaced", nil, false},
		{"replaced replaced", nil, false},
		{"replaced governed", []string{"toronto"}, false},
		{"replaced held", nil, false},
		{"replaced free", nil, true},
		{"gone governed", []string{"toronto"}, false},
		{"gone held", nil, false},
		{"secret held", nil, false},
		{"secret governed", []string{"toronto"}, false},
		{"unserved governed", []string{"toronto"}, false},
		{"unserved held", nil, false},
		{"unserved", nil, true},
		{"free governed", []string{"toronto"}, false},
		{"gone", nil, true},
		{"secret", nil, true},
		{"replaced secret", nil, true},
		{"free", nil, true},
		{"", nil, true},
	} {
		w := &kueue.Workload{Namespace: "n"}
		for _, name := range strings.Fields(tc.owners) {
			w.OwnedBy = append(w.OwnedBy, metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: "u"})
		}
		if got, open, err := d.target(t.Context(), w, false); err != nil || open != tc.open || !slices.Equal(got, tc.want) {
			t.Errorf("owned by %q, it goes to %v (any: %v), %v; want %v (any: %v)", tc.owners, got, open, err, tc.want, tc.open)
		}
	}
}

// TestLetGoGoesOnToTheNextOwner: the quota of a Workload that leaves a cluster is given back, though one of its owners is gone or
// replaced.
func TestLetGoGoesOnToTheNextOwner(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(batchv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	named := func(kind, name, at string, value any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
		u.SetGroupVersionKind(kueue.GroupVersion.WithKind(kind))
		if err := unstructured.SetNestedField(u.Object, value, "spec", at); err != nil {
			t.Fatal(err)
		}
		return u
	}
	jobs, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"gone", "replaced"} {
		check := named("AdmissionCheck", "mk", "controllerName", multiKueue)
		if err := unstructured.SetNestedField(check.Object, "all", "spec", "parameters", "name"); err != nil {
			t.Fatal(err)
		}
		running := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "u"}, Status: batchv1.JobStatus{Active: 2}}
		c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(running).WithObjects(
			check, named("MultiKueueConfig", "all", "clusters", []any{"toronto"}), running,
			&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "replaced", UID: "later"}},
		).Build()
		d := &Dispatcher{Reader: c, Live: c, Client: c, Kind: func(schema.GroupVersionKind) *kinds.Kind { return jobs[0] }}
		w := &kueue.Workload{Namespace: "n", Name: "w", Checks: map[string]string{"mk": kueue.CheckPending}, OwnedBy: []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: other, UID: "u"}, {APIVersion: "batch/v1", Kind: "Job", Name: "a", UID: "u"},
		}}
		wrote, wait, err := d.LetGo(t.Context(), w, func(context.Context, string, types.NamespacedName) (there, known bool, err error) {
			return false, true, nil
		})
		var job batchv1.Job
		if err := errors.Join(err, c.Get(t.Context(), client.ObjectKeyFromObject(running), &job)); err != nil || !wrote || wait || job.Status.Active != 0 {
			t.Errorf("with an owner that is %s: wrote %v, wait %v, %d active, %v", other, wrote, wait, job.Status.Active, err)
		}
	}
}
