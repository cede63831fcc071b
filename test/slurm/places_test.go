//go:build slurm

package slurm

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// observed is what Lull sees of the cluster.
func observed(t *testing.T) (slurm.Queue, slurm.View) {
	t.Helper()
	client := slurm.Commands{Dir: lab.root + "/usr/bin"}
	about, err := client.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !about.Memory {
		t.Error("Slurm shares out memory, and Check does not say so")
	}
	q, err := client.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return q, slurm.Observe(slurm.Input{Now: time.Now(), Queue: q, Config: &slurm.Config{}, Zone: "DE", Slot: time.Minute, Memory: about.Memory})
}

// TestCPUsMemoryAndGPUsOfPartitions: a partition with a node of its own is a place, partitions of the same nodes are none. What jobs ask for and use
// is as they stated it. A drained node leaves the capacity, those of its jobs first.
func TestCPUsMemoryAndGPUsOfPartitions(t *testing.T) {
	empty(t)
	registered(t)
	must(t, "scontrol", "update", "NodeName=n2", "Gres=gpu:a100:4")
	t.Cleanup(func() {
		empty(t)
		must(t, "scontrol", "update", "NodeName=n2", "Gres=") // else Slurm drains it: slurmd knows of no GPU
		must(t, "scontrol", "update", "NodeName=n2", "State=RESUME")
		if err := wait("node n2 to be idle", func() bool { return must(t, "sinfo", "-h", "-N", "-n", "n2", "-p", "narrow", "-o", "%T") == "idle" }); err != nil {
			t.Error(err)
		}
	})
	const mib = 1 << 20
	waits := submit(t, "sleep 1", "--partition=narrow", "--begin=now+600", "--comment=lull:max-delay=1h", "-n3", "--mem=300", "--gpus-per-task=1")
	runs := submit(t, "sleep 600", "--partition=narrow", "-n2", "--mem=500M", "--gres=gpu:a100:1")
	until(t, runs, "running", running)
	_, v := observed(t)
	here := v.Snapshot.Clusters[0]
	if want := map[string]float64{
		"cpu": 32, "memory": 32000 * mib, "gpu": 4, "gpu:a100": 4, "cpu@narrow": 16, "memory@narrow": 16000 * mib, "gpu@narrow": 4, "gpu:a100@narrow": 4,
	}; !maps.Equal(here.Capacity, want) {
		t.Errorf("capacity %v\nwant     %v", here.Capacity, want)
	}
	for r, want := range map[string]float64{"cpu": 2, "cpu@narrow": 2, "memory": 500 * mib, "memory@narrow": 500 * mib, "gpu": 1, "gpu@narrow": 1, "gpu:a100": 1, "gpu:a100@narrow": 1} {
		if here.Load[r] != want {
			t.Errorf("load of %s is %v; want %v", r, here.Load[r], want)
		}
	}
	for _, l := range v.Left {
		if l.Job.ID == waits {
			if got, want := v.Request(l.Job), (map[string]float64{"cpu": 3, "cpu@narrow": 3, "memory": 300 * mib, "memory@narrow": 300 * mib, "gpu": 3, "gpu@narrow": 3}); !maps.Equal(got, want) {
				t.Errorf("a job asks for %v; want %v", got, want)
			}
		}
	}
	must(t, "scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
	if _, v = observed(t); v.Snapshot.Clusters[0].Capacity["cpu@narrow"] != 2 || v.Snapshot.Clusters[0].Capacity["memory@narrow"] != 500*mib || v.Snapshot.Clusters[0].Capacity["gpu@narrow"] != 1 {
		t.Errorf("a node that drains: %v", v.Snapshot.Clusters[0].Capacity)
	}
	must(t, "scancel", runs)
	if err := wait("a drained node without a job", func() bool { _, v = observed(t); return v.Snapshot.Clusters[0].Capacity["cpu@narrow"] == 0 }); err != nil {
		t.Errorf("%v: %v", err, v.Snapshot.Clusters[0].Capacity)
	}
}

// TestJobsOfAPartitionWaitForEachOther: two jobs fill a partition, beside which a node is free. They are planned one after the other.
func TestJobsOfAPartitionWaitForEachOther(t *testing.T) {
	empty(t)
	controller(t, curve(t, [2]time.Duration{5 * time.Minute, 10 * time.Minute}))
	var begins []time.Time
	id := ""
	for range 2 {
		id = submit(t, "sleep 1", "--partition=narrow", "-n16", "--comment=lull:max-delay=15m,runtime=60s")
		begins = append(begins, until(t, id, "planned", planned).at(t, "StartTime"))
	}
	var found struct{ Items []slurm.Explanation }
	if text := explain(t, id, "-o", "json"); json.Unmarshal([]byte(text), &found) != nil || len(found.Items) != 1 ||
		found.Items[0].Job != id || found.Items[0].Does != "waiting" || found.Items[0].Request["cpu@narrow"] != 16 || !found.Items[0].Begin.Equal(begins[1]) {
		t.Errorf("explain -o json: %s", text)
	}
	if apart := begins[1].Sub(begins[0]).Abs(); apart < 55*time.Second {
		t.Errorf("begin times %v; want them a run apart: the partition has 16 CPUs", begins)
	}
	other := submit(t, "sleep 1", "--partition=batch", "-n16", "--comment=lull:max-delay=15m,runtime=60s")
	if at := until(t, other, "planned", planned).at(t, "StartTime"); at.Sub(begins[0]).Abs() > 5*time.Second && at.Sub(begins[1]).Abs() > 5*time.Second {
		t.Errorf("a job of the whole cluster begins at %v, those of the partition at %v; want it beside one of them", at, begins)
	}
}
