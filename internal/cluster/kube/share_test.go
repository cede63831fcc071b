package kube

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// TestUseOfOthers: pods of another policy's workloads are load as long as they are expected to run, and what
// is planned of the others is load when it is planned; pods of nobody's are load for good.
func TestUseOfOthers(t *testing.T) {
	// The other policy: one Job that runs, without a plan, and one that is planned in four hours.
	runs, waits := newJob("runs", running), newJob("waits")
	runs.UID, waits.UID = "uid-runs", "uid-waits"
	pod := func(owner string, cpu string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: types.UID(owner)}}, Namespace: "team"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}},
		}
	}
	theirs, strange := pod("uid-runs", "6"), pod("nobody", "3")
	in := func(others []Use, jobs ...*batchv1.Job) Input {
		out := Input{
			Now: now, Policy: &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}, Spec: policy}, Pods: []corev1.Pod{theirs, strange}, Others: others,
			Nodes: []corev1.Node{{Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16")},
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			}}},
		}
		for _, j := range jobs {
			out.Workloads = append(out.Workloads, workloadOf(t, j))
		}
		return out
	}
	other, err := Observe(in(nil, &runs, &waits))
	if err != nil {
		t.Fatal(err)
	}
	planned := []decide.Phase{{From: now.Add(4 * time.Hour), To: now.Add(6 * time.Hour), Cluster: LocalCluster, Workers: 1}}
	use := UseOf(&other, timegrid.Timeline{}, func(w *Workload) []decide.Phase {
		if w.UID() == "uid-waits" {
			return planned
		}
		return nil
	})
	if len(use.Stretches) != 2 || !use.Workloads["uid-runs"] || !use.Workloads["uid-waits"] {
		t.Fatalf("%+v", use)
	}
	v, err := Observe(in([]Use{use}))
	if err != nil {
		t.Fatal(err)
	}
	if load := v.Snapshot.Clusters[0].Load; load["cpu"] != 3 {
		t.Errorf("load %v; want the 3 CPUs of nobody's pod", load)
	}
	// A pod that was made since the decision counts once; one of a workload that is planned for later, and runs all the same, is load.
	since := in([]Use{use})
	since.Pods = append(since.Pods, pod("uid-runs", "2"), pod("uid-waits", "4"))
	if v, err := Observe(since); err != nil || v.Snapshot.Clusters[0].Load["cpu"] != 7 {
		t.Errorf("%v, load %v; want the 3 CPUs of nobody's pod, and 4", err, v.Snapshot.Clusters[0].Load)
	}
	ends := now.Add(other.Snapshot.Tasks[0].Remaining)
	if !ends.After(now) || ends.After(planned[0].From) {
		t.Fatalf("what runs is expected to end at %v", ends)
	}
	amount := map[string]float64{"uid-runs": other.Snapshot.Tasks[0].Request["cpu"], "uid-waits": other.Snapshot.Tasks[1].Request["cpu"]}
	begin := timegrid.Align(now, v.Snapshot.Slot)
	ahead := Expected(nil, []Use{use}, LocalCluster, timegrid.Timeline{}, begin, v.Snapshot.Slot)["cpu"]
	for slot, got := range ahead {
		from := begin.Add(time.Duration(slot) * v.Snapshot.Slot)
		to, want := from.Add(v.Snapshot.Slot), 0.0
		if from.Before(ends) {
			want += amount["uid-runs"]
		}
		if to.After(planned[0].From) && from.Before(planned[0].To) {
			want += amount["uid-waits"]
		}
		if got != want {
			t.Errorf("from %v on %v CPUs; want %v", from.Sub(now), got, want)
		}
	}
	if n := len(ahead); n < 24 || n > 25 { // to the end of the plan
		t.Errorf("%d slots", n)
	}
	// Without knowing the others everything stays.
	if v, err := Observe(in(nil)); err != nil || v.Snapshot.Clusters[0].Load["cpu"] != 9 {
		t.Errorf("%+v, %v", v.Snapshot.Clusters[0], err)
	}
	// What has overrun its plan takes its place through the present slot.
	late := UseOf(&other, timegrid.Timeline{}, func(*Workload) []decide.Phase {
		return []decide.Phase{{From: now.Add(-2 * time.Hour), To: now.Add(-time.Minute), Cluster: LocalCluster, Workers: 1}}
	})
	if len(late.Stretches) != 1 || !late.Stretches[0].To.Equal(ends) {
		t.Errorf("%+v", late.Stretches)
	}
}

// BenchmarkExpected adds five thousand planned workloads of others, four hours each.
func BenchmarkExpected(b *testing.B) {
	use := Use{}
	for i := range 5000 {
		from := now.Add(time.Duration(i%96) * time.Hour)
		use.Stretches = append(use.Stretches, Stretch{From: from, To: from.Add(4 * time.Hour), Cluster: LocalCluster, Amount: map[string]float64{"cpu": 1, "memory": 1 << 30}})
	}
	for b.Loop() {
		_ = Expected(nil, []Use{use}, LocalCluster, timegrid.Timeline{}, now, 15*time.Minute)
	}
}
