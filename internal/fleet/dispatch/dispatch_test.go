package dispatch

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
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
