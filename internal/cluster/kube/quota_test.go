package kube

import (
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// TestLeastQuotaCounts: the least of all quotas counts, of requests only, and a quota of some pods only is left out.
func TestLeastQuotaCounts(t *testing.T) {
	quota := func(hard map[corev1.ResourceName]string, scopes ...corev1.ResourceQuotaScope) corev1.ResourceQuota {
		q := corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}, Scopes: scopes}}
		for r, text := range hard {
			q.Spec.Hard[r] = resource.MustParse(text)
		}
		return q
	}
	chosen := quota(map[corev1.ResourceName]string{"cpu": "1"})
	chosen.Spec.ScopeSelector = &corev1.ScopeSelector{}
	got := Quota([]corev1.ResourceQuota{
		quota(map[corev1.ResourceName]string{"requests.cpu": "8", "requests.nvidia.com/gpu": "2", "pods": "3", "limits.cpu": "1", "count/jobs.batch": "1"}),
		quota(map[corev1.ResourceName]string{"cpu": "6", "memory": "1Gi"}),
		quota(map[corev1.ResourceName]string{"cpu": "1"}, corev1.ResourceQuotaScopeTerminating),
		chosen,
	})
	if want := map[string]float64{"cpu": 6, "memory": 1 << 30, "nvidia.com/gpu": 2}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Quota(nil); len(got) > 0 {
		t.Errorf("no quotas bound %v", got)
	}
}

// TestTasksStayWithinTheirQuota: in each slot the tasks may use what the nodes have left beside others, and what the namespace has left of its quota
// beside its other pods, whichever is less.
func TestTasksStayWithinTheirQuota(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	timeline := timegrid.Timeline{}
	for n := range 3000 {
		some := func(most float64) float64 { return math.Floor(most * rng.Float64()) }
		slots := func(most int) (out []float64) {
			for range rng.IntN(most) {
				out = append(out, some(20))
			}
			return out
		}
		here := decide.Cluster{Name: LocalCluster, Capacity: map[string]float64{"cpu": some(100), "memory": 7}, Load: map[string]float64{"cpu": some(40)}, LoadAt: map[string][]float64{"cpu": slots(6)}}
		if rng.IntN(3) == 0 {
			here.CapacityAt = map[string][]float64{"cpu": append(slots(5), some(100))}
		}
		v := View{Namespace: "team", Snapshot: decide.Snapshot{Now: now, Slot: time.Hour, Clusters: []decide.Cluster{here}}, beside: map[string]float64{"cpu": some(30)}}
		running := 0.0
		if rng.IntN(2) == 0 {
			running = some(10)
			v.Snapshot.Tasks = []decide.Task{{State: decide.Running, Request: map[string]float64{"cpu": running}}, {State: decide.Waiting, Request: map[string]float64{"cpu": 50}}}
		}
		var others []Use
		planned := make([]float64, 8)
		for h := range planned {
			namespace := []string{"team", "stranger"}[rng.IntN(2)]
			amount := some(15)
			if namespace == "team" {
				planned[h] += amount
			}
			others = append(others, Use{Namespace: namespace, Stretches: []Stretch{{
				From: now.Add(time.Duration(h) * time.Hour), To: now.Add(time.Duration(h+1) * time.Hour), Cluster: LocalCluster, Amount: map[string]float64{"cpu": amount},
			}}})
		}
		hard := some(60)
		was := maps.Clone(v.Snapshot.Clusters[0].Load)
		v.WithinQuota(map[string]float64{"cpu": hard, "nvidia.com/gpu": 1}, others, timeline)
		got := v.Snapshot.Clusters[0]
		hard = math.Max(hard, running+v.beside["cpu"]+planned[0])
		for h := range 12 {
			offered := here.Capacity["cpu"]
			if steps := here.CapacityAt["cpu"]; len(steps) > 0 {
				offered = steps[min(h, len(steps)-1)]
			}
			taken := v.beside["cpu"]
			if h < len(planned) {
				taken += planned[h]
			}
			want := math.Max(0, math.Min(offered-here.Load["cpu"]-at(here.LoadAt["cpu"], h), hard-taken))
			has := got.Capacity["cpu"]
			if steps := got.CapacityAt["cpu"]; len(steps) > 0 {
				has = steps[min(h, len(steps)-1)]
			}
			free := math.Max(0, has-got.Load["cpu"]-at(got.LoadAt["cpu"], h))
			if math.Abs(free-want) > 1e-9 || free > hard {
				t.Fatalf("case %d, slot %d: %v of %v is free, want %v", n, h, free, has, want)
			}
		}
		if !maps.Equal(was, here.Load) || got.Capacity["memory"] != 7 || got.Capacity["nvidia.com/gpu"] != 0 {
			t.Fatalf("case %d: what the quota does not name has changed, or the caller's: %v", n, got)
		}
	}
}
