package generate_test

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/workload"
)

func TestInstancesAreValidAndRepeat(t *testing.T) {
	kinds := []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic}
	for seed := range uint64(50) {
		o := generate.Options{Seed: seed, Jobs: 40, Clusters: 3, Slots: 30, Kinds: kinds, Memory: seed%2 == 0, Varying: seed%3 == 0, Measured: seed%3 == 1, Unequal: seed%5 < 2, Gaps: seed%7 < 3}
		if seed%4 == 0 {
			o.Objective = plan.MOSP
		}
		a, err := generate.Instance(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if b, _ := generate.Instance(o); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: two draws differ", seed)
		}
	}
}

// TestPaperDistributions: Caspian, Section V.
func TestPaperDistributions(t *testing.T) {
	p, err := generate.Instance(generate.Options{Jobs: 20_000, Clusters: 3, Slots: 40, Objective: plan.MOSP})
	if err != nil {
		t.Fatal(err)
	}
	var length, request, slack float64
	for i := range p.Jobs {
		j := &p.Jobs[i]
		length += j.Length / 20_000
		request += j.Request["gpu"] / 20_000
		slack += float64(j.Deadline-j.Arrival) / j.Length / 20_000
		if beta := float64(j.Deadline-j.Arrival) / j.Length; beta < 2 || beta > 5 {
			t.Fatalf("job %s: beta %v", j.ID, beta)
		}
	}
	for what, v := range map[string][2]float64{"length": {length, 3}, "request": {request, 3}} {
		if math.Abs(v[0]-v[1]) > 0.05 {
			t.Errorf("mean %s %v, want %v", what, v[0], v[1])
		}
	}
	if p.Clusters[0].Capacity["gpu"][0] != 32 {
		t.Errorf("capacity %v, want 32", p.Clusters[0].Capacity["gpu"][0])
	}
}

func TestLoadSetsTheCapacity(t *testing.T) {
	p, err := generate.Instance(generate.Options{Jobs: 2000, Clusters: 4, Slots: 48, Load: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	demand := 0.0
	for i := range p.Jobs {
		demand += p.Jobs[i].Length * p.Jobs[i].Request["gpu"]
	}
	if load := demand / (p.Clusters[0].Capacity["gpu"][0] * 4 * 48); math.Abs(load-0.5) > 0.01 {
		t.Errorf("load %v, want 0.5", load)
	}
}

// TestWhatPlainDrawsLack: each option puts into instances what its name says.
func TestWhatPlainDrawsLack(t *testing.T) {
	o := generate.Options{Jobs: 300, Clusters: 4, Slots: 100, Kinds: []workload.Kind{workload.Elastic}, Load: 0.5}
	plain, err := generate.Instance(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Measured, o.Unequal, o.Gaps = true, true, true
	hard, err := generate.Instance(o)
	if err != nil {
		t.Fatal(err)
	}
	count := func(p *plan.Problem) (idle, closed, clean int, ratio float64) {
		least, most := math.Inf(1), 0.0
		for j := range p.Jobs {
			for _, v := range p.Jobs[j].Curve {
				if v == 0 {
					idle++
				}
			}
		}
		for c := range p.Clusters {
			largest := 0.0
			for slot, v := range p.Clusters[c].Capacity["gpu"] {
				largest = math.Max(largest, v)
				if v == 0 {
					closed++
				}
				if p.Clusters[c].Intensity[slot] == 0 {
					clean++
				}
			}
			least, most = math.Min(least, largest), math.Max(most, largest)
		}
		return idle, closed, clean, most / least
	}
	if idle, closed, clean, ratio := count(plain); idle+closed+clean > 0 || ratio != 1 {
		t.Errorf("plain: %d, %d, %d, %v", idle, closed, clean, ratio)
	}
	if idle, closed, clean, ratio := count(hard); idle < 50 || closed < 20 || clean < 20 || ratio != 8 {
		t.Errorf("hard: %d workers that add nothing, %d closed and %d clean slots, capacities 1 : %v", idle, closed, clean, ratio)
	}
}

func TestOptions(t *testing.T) {
	good := generate.Options{Jobs: 1, Clusters: 1, Slots: 1}
	for name, spoil := range map[string]func(o *generate.Options){
		"jobs": func(o *generate.Options) { o.Jobs = 0 }, "slots": func(o *generate.Options) { o.Slots = 1 << 30 },
		"objective": func(o *generate.Options) { o.Objective = "cheap" }, "kinds": func(o *generate.Options) { o.Kinds = []workload.Kind{"soft"} },
		"load": func(o *generate.Options) { o.Load = math.NaN() }, "slack": func(o *generate.Options) { o.SlackLow, o.SlackHigh = 3, 2 },
		"scale": func(o *generate.Options) { o.MaxScale = -1 }, "capacity": func(o *generate.Options) { o.Capacity = -1 },
	} {
		o := good
		spoil(&o)
		if _, err := generate.Instance(o); !errors.Is(err, generate.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := generate.Instance(good); err != nil {
		t.Error(err)
	}
}
