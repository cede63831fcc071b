package dispatch

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
