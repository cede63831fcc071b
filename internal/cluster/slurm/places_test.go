package slurm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/joint"
)

// recorded is a look at a Slurm 22.05.8 with two partitions that share a node: batch has n1 to n3, gpu has n3 and n4; n2 and n4 drain, and
// n3 and n4 have 4 GPUs each. CR_Core_Memory, no slurmdbd.
func recorded(t *testing.T) Queue {
	t.Helper()
	var texts [2]string
	for i, name := range []string{"testdata/squeue.txt", "testdata/sinfo.txt"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	var q Queue
	var bad [2][]Bad
	q.Jobs, bad[0] = parseJobs(texts[0], end)
	q.Nodes, bad[1] = parseNodes(texts[1], end)
	if len(bad[0])+len(bad[1]) > 0 || len(q.Jobs) != 8 {
		t.Fatalf("%d jobs, %v", len(q.Jobs), bad)
	}
	return q
}

// TestNodesThatAreSwitchedOffCount as capacity, and their start counts before a --deadline. A job that waits for it has done nothing yet.
func TestNodesThatAreSwitchedOffCount(t *testing.T) {
	j := waiting()
	j.Deadline = at("15:00:00")
	latest := map[bool]string{false: "13:55:00", true: "13:45:00"}
	for off, want := range latest {
		in := inputAt(t, j)
		in.Boot, in.Queue.Nodes[1].Off = 10*time.Minute, off
		v := Observe(in)
		if got := v.Jobs[0].Latest; v.Snapshot.Clusters[0].Capacity[cpu] != 32 || !got.Equal(at(want)) {
			t.Errorf("off %v: latest start %v, want %s; capacity %v", off, got, want, v.Snapshot.Clusters[0].Capacity)
		}
	}
	j.State, j.Reason, j.Started, j.AdminComment = stateConfiguring, "None", at("08:30:00"), Mark{Phase: Released}.String()
	if v := Observe(inputAt(t, j)); v.Snapshot.Tasks[0].Remaining != time.Hour || v.Snapshot.Tasks[0].State != decide.Running {
		t.Errorf("%+v", v.Snapshot.Tasks[0])
	}
}

func TestPlacesOfARecordedSlurm(t *testing.T) {
	q := recorded(t)
	want := []Node{
		{Name: "n1", CPUs: 16, UsedCPUs: 4, Memory: 16000 << 20, UsedMemory: 2000 << 20, Partitions: []string{"batch"}},
		{Name: "n2", CPUs: 2, UsedCPUs: 2, Memory: 2048 << 20, UsedMemory: 2048 << 20, Partitions: []string{"batch"}},
		{Name: "n3", CPUs: 16, UsedCPUs: 3, Memory: 32000 << 20, UsedMemory: 2000 << 20, GPUs: 4, GPUTypes: map[string]int{"a100": 4}, Partitions: []string{"gpu", "batch"}},
		{Name: "n4", CPUs: 4, UsedCPUs: 4, Memory: 1500 << 20, UsedMemory: 1500 << 20, GPUs: 1, GPUTypes: map[string]int{"a100": 1}, Partitions: []string{"gpu"}},
	}
	if !reflect.DeepEqual(q.Nodes, want) {
		t.Errorf("nodes %+v\nwant  %+v", q.Nodes, want)
	}
	p := newPlaces(q.Nodes, true)
	if got, want := p.capacity(q.Nodes), map[string]float64{ // n3 counts once in cpu
		"cpu": 38, "cpu@batch": 34, "cpu@gpu": 20, "memory": 51548 << 20, "memory@batch": 50048 << 20, "memory@gpu": 33500 << 20, "gpu": 5, "gpu@batch": 4, "gpu@gpu": 5,
		"gpu:a100": 5, "gpu:a100@batch": 4, "gpu:a100@gpu": 5,
	}; !maps.Equal(got, want) {
		t.Errorf("capacity %v\nwant     %v", got, want)
	}
	requests := map[string]map[string]float64{
		"51":       {"cpu": 2, "cpu@gpu": 2, "memory": 1000 << 20, "memory@gpu": 1000 << 20, "gpu": 2, "gpu@gpu": 2},
		"52":       {"cpu": 2, "cpu@gpu": 2, "memory": 2000 << 20, "memory@gpu": 2000 << 20, "gpu": 2, "gpu@gpu": 2, "gpu:a100": 2, "gpu:a100@gpu": 2},
		"53":       {"cpu": 3, "cpu@gpu": 3, "memory": 500 << 20, "memory@gpu": 500 << 20, "gpu": 3, "gpu@gpu": 3},
		"54":       {"cpu": 2, "cpu@batch": 2, "memory": 2048 << 20, "memory@batch": 2048 << 20},
		"55":       {"cpu": 4, "cpu@batch": 4, "memory": 2000 << 20, "memory@batch": 2000 << 20},
		"56":       {"cpu": 2, "memory": 1000 << 20}, // in either partition
		"57_[1-4]": {"cpu": 2, "cpu@batch": 2, "memory": 3072 << 20, "memory@batch": 3072 << 20},
		"58":       {"cpu": 2, "cpu@gpu": 2, "memory": 64000 << 20, "memory@gpu": 64000 << 20, "gpu": 4, "gpu@gpu": 4},
	}
	for i := range q.Jobs {
		j := &q.Jobs[i]
		if got := p.request(j, 1); !maps.Equal(got, requests[j.ID]) {
			t.Errorf("job %s asks for %v\nwant %v", j.ID, got, requests[j.ID])
		}
	}
	for i := range q.Jobs {
		if n := q.Jobs[i].licences("power"); (n == 2) != (q.Jobs[i].Number == 57) {
			t.Errorf("job %s asks for %d licences", q.Jobs[i].ID, n)
		}
	}
	if got := newPlaces(q.Nodes, false).request(&q.Jobs[0], 1)["memory"]; got != 0 {
		t.Errorf("memory %v; want none: Slurm does not share it out", got)
	}
}

// TestGPUsOfATypeAreAResource: three jobs ask for all a100, all h100, and any two. The first two fit beside each other, and only one of two that ask for all a100.
// A type that no node states bounds nothing: sinfo may have cut its list.
func TestGPUsOfATypeAreAResource(t *testing.T) {
	asks := func(n int, kind string) Job {
		j := waiting()
		j.ID, j.Number, j.CPUs, j.GPUs = fmt.Sprint(n), n, 1, 2
		if kind != "" {
			j.GPUTypes = map[string]int{kind: 2}
		}
		return j
	}
	in := inputAt(t, asks(1, "a100"), asks(2, "a100"), asks(3, "h100"), asks(4, ""), asks(5, "l40"))
	in.Queue.Nodes = []Node{{Name: "n1", CPUs: 64, GPUs: 6, GPUTypes: map[string]int{"a100": 2, "h100": 4}}}
	v := Observe(in)
	all := v.Snapshot.Clusters[0].Capacity
	for i, want := range []map[string]float64{
		{"cpu": 1, "gpu": 2, "gpu:a100": 2}, {"cpu": 1, "gpu": 2, "gpu:a100": 2}, {"cpu": 1, "gpu": 2, "gpu:h100": 2}, {"cpu": 1, "gpu": 2}, {"cpu": 1, "gpu": 2},
	} {
		if got := v.Snapshot.Tasks[i].Request; !maps.Equal(got, want) {
			t.Errorf("job %s asks for %v; want %v", v.Jobs[i].Job.ID, got, want)
		}
	}
	if want := map[string]float64{"cpu": 64, "gpu": 6, "gpu:a100": 2, "gpu:h100": 4}; !maps.Equal(all, want) {
		t.Errorf("capacity %v; want %v", all, want)
	}
	in.Queue.Jobs[0].State, in.Queue.Jobs[0].Comment, in.Queue.Jobs[0].Started = stateRunning, "", at("08:30:00")
	if v = Observe(in); v.Snapshot.Clusters[0].Load["gpu:a100"] != 2 {
		t.Errorf("load %v; want 2 a100", v.Snapshot.Clusters[0].Load)
	}
	if _, err := decide.Decide(t.Context(), v.Snapshot, joint.Planner{}); err != nil {
		t.Error(err)
	}
	j := asks(6, "a100")
	j.ID, j.Tasks = "6_[1-8]", 8
	in.Queue.Jobs = []Job{j}
	if v = Observe(in); v.Snapshot.Tasks[0].Request["gpu:a100"] != 2 {
		t.Errorf("an array asks for %v; want one task at a time", v.Snapshot.Tasks[0].Request)
	}
}

// TestLoadIsThatOfThePartition; it is no more than there is.
func TestLoadIsThatOfThePartition(t *testing.T) {
	in := inputAt(t)
	in.Queue, in.Memory = recorded(t), true
	v := Observe(in)
	load := v.Snapshot.Clusters[0].Load
	for r, want := range map[string]float64{"cpu": 13, "cpu@batch": 6, "cpu@gpu": 7, "gpu": 5, "gpu@gpu": 5, "gpu@batch": 0, "memory@gpu": 3500 << 20} {
		if load[r] != want {
			t.Errorf("load of %s is %v; want %v", r, load[r], want)
		}
	}
}

// TestAnArrayIsAsWideAsItsPartition: 20 tasks of 4 CPUs run at once if the partition has all nodes; one of 16 CPUs runs 4 at a time.
func TestAnArrayIsAsWideAsItsPartition(t *testing.T) {
	j := waiting()
	j.ID, j.Tasks, j.GPUs = "12_[1-20]", 20, 1
	in := inputAt(t, j)
	in.Queue.Nodes = []Node{
		{Name: "n1", CPUs: 64, GPUs: 64, Partitions: []string{"all", "short"}}, {Name: "n2", CPUs: 16, GPUs: 2, Partitions: []string{"all", "batch"}},
	}
	for partition, want := range map[string]map[string]float64{
		"all":         {"cpu": 80, "gpu": 20},
		"short":       {"cpu": 64, "cpu@short": 64, "gpu": 16, "gpu@short": 16},
		"batch":       {"cpu": 8, "cpu@batch": 8, "gpu": 2, "gpu@batch": 2}, // its GPUs
		"short,batch": {"cpu": 80, "gpu": 20},
		"unknown":     {"cpu": 80, "gpu": 20},
	} {
		in.Queue.Jobs[0].Partition = partition
		v := Observe(in)
		if len(v.Jobs) != 1 || !maps.Equal(v.Snapshot.Tasks[0].Request, want) {
			t.Errorf("%s: %+v; want %v", partition, v.Snapshot.Tasks, want)
		}
	}
}

// TestBoundsOfPlacesAreRight compares with a flow from jobs to nodes: what fits fits the bounds. If of two partitions that share nodes one has all
// of the other's, what fits the bounds fits.
func TestBoundsOfPlacesAreRight(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	agree, tooLarge := 0, 0
	for range 20000 {
		nodes := make([]Node, 1+random.IntN(6))
		for i := range nodes {
			nodes[i] = Node{Name: fmt.Sprintf("n%d", i), CPUs: random.IntN(4)}
		}
		nested := random.IntN(2) == 0
		names := []string{"a", "b", "c", "d"}[:1+random.IntN(4)]
		spans := map[string][2]int{}
		for i, name := range names {
			from, to := random.IntN(len(nodes)), 0
			to = from + 1 + random.IntN(len(nodes)-from)
			if nested && i > 0 { // inside the one before, or beside all
				before := spans[names[i-1]]
				from = before[0] + random.IntN(before[1]-before[0])
				to = from + 1 + random.IntN(before[1]-from)
			}
			spans[name] = [2]int{from, to}
			for n := from; n < to; n++ {
				nodes[n].Partitions = append(nodes[n].Partitions, name)
			}
		}
		demand := map[string]int{}
		p := newPlaces(nodes, false)
		use := map[string]float64{}
		for _, name := range names {
			if demand[name] = random.IntN(6); demand[name] > 0 {
				for r, v := range p.request(&Job{CPUs: demand[name], Partition: name}, 1) {
					use[r] += v
				}
			}
		}
		bounds, fits := true, flows(nodes, names, demand)
		for r, all := range p.capacity(nodes) {
			bounds = bounds && use[r] <= all
		}
		switch {
		case fits && !bounds, nested && fits != bounds:
			t.Fatalf("nodes %+v, demand %v: fits %v, bounds %v", nodes, demand, fits, bounds)
		case fits == bounds:
			agree++
		default:
			tooLarge++
		}
	}
	t.Logf("bounds are right in %d cases, too large in %d", agree, tooLarge)
}

// flows reports whether the nodes have room for what the partitions demand, by augmenting paths of one CPU each.
func flows(nodes []Node, names []string, demand map[string]int) bool {
	placed := make([]map[string]int, len(nodes))
	for i := range placed {
		placed[i] = map[string]int{}
	}
	var place func(name string, tried map[int]bool) bool
	place = func(name string, tried map[int]bool) bool {
		for i := range nodes {
			in := false
			for _, of := range nodes[i].Partitions {
				in = in || of == name
			}
			if !in || tried[i] {
				continue
			}
			tried[i] = true
			total := 0
			for _, n := range placed[i] {
				total += n
			}
			if total < nodes[i].CPUs {
				placed[i][name]++
				return true
			}
			for _, other := range names {
				if placed[i][other] > 0 && other != name && place(other, tried) {
					placed[i][other]--
					placed[i][name]++
					return true
				}
			}
		}
		return false
	}
	for _, name := range names {
		for range demand[name] {
			if !place(name, map[int]bool{}) {
				return false
			}
		}
	}
	return true
}

// TestLicencesOfAJob: also one without a number. Those of a server are others.
func TestLicencesOfAJob(t *testing.T) {
	for list, want := range map[string]int{"": 0, "power:4": 4, "matlab:2,power:3": 3, "power": 1, "power@server:2": 0, "power:x": 1, "powerful:4": 0, "power=5": 5} {
		if got := (&Job{Licences: list}).licences("power"); got != want {
			t.Errorf("%q: %d; want %d", list, got, want)
		}
	}
}
