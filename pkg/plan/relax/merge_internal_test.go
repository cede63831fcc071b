package relax

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/workload"
)

// drawn is an instance of few slots, so that many jobs are alike, and prices for it.
func drawn(t *testing.T, seed uint64, objective plan.ObjectiveKind) (*Model, []float64) {
	t.Helper()
	p, err := generate.Instance(generate.Options{
		Seed: seed, Jobs: 120, Clusters: 1 + int(seed%3), Slots: 12, Load: 0.6,
		Kinds: []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic},
	})
	if err != nil {
		t.Fatal(err)
	}
	for j := range p.Jobs {
		job := &p.Jobs[j]
		job.Arrival, job.Deadline = job.Arrival/6*6, (job.Deadline+3)/4*4
		if j%10 == 0 {
			job.Deadline = job.Arrival + 1 // too soon for most
		}
	}
	if p.Objective.Kind = objective; objective == plan.MOSP {
		p.Objective.Weights, p.Objective.Theta = [3]float64{0.5, 1, 1}, &[3]float64{1, 1, 1}
	}
	m := New(p, TermsOf(p))
	rng := rand.New(rand.NewPCG(seed, 3))
	lambda := make([]float64, len(m.Cap))
	for i := range lambda {
		lambda[i] = m.Bounded(i, math.Round(8*rng.Float64())*m.Unit(i)/4) // with ties
	}
	return m, lambda
}

// TestStartsAreBestResponses compares the starts that are found together with those found job
// by job.
func TestStartsAreBestResponses(t *testing.T) {
	rigid, none := 0, 0
	for seed := range uint64(60) {
		m, lambda := drawn(t, seed, plan.Carbon)
		e := NewPricer(m)
		e.Lagrangian(lambda, make([]float64, len(m.Cap)))
		for j := range m.jobs {
			jb := &m.jobs[j]
			cl := &m.classes[jb.class]
			if cl.kind != workload.Rigid {
				continue
			}
			cost, slot, cluster := e.started(j)
			wantCost, wantSlot, wantCluster := e.run(jb, cl)
			if math.Abs(cost-wantCost) > 1e-12*wantCost || slot != wantSlot || slot >= 0 && cluster != wantCluster {
				t.Fatalf("seed %d, job %d: cost %v from slot %d on cluster %d, want %v, %d, %d", seed, j, cost, slot, cluster, wantCost, wantSlot, wantCluster)
			}
			rigid++
			if slot < 0 {
				none++
			}
		}
	}
	if rigid < 1000 || none == 0 {
		t.Errorf("%d rigid jobs, %d without a start: the test shows too little", rigid, none)
	}
}

// TestMergedJobsAskForTheSame: the Lagrangian and the demand are those of all jobs.
func TestMergedJobsAskForTheSame(t *testing.T) {
	for _, objective := range []plan.ObjectiveKind{plan.Carbon, plan.MOSP} {
		fewer := 0
		for seed := range uint64(60) {
			m, lambda := drawn(t, seed, objective)
			twice := *m // every job has one that is alike
			twice.jobs = append(slices.Clone(m.jobs), m.jobs...)
			merged := twice.merged()
			if len(merged.jobs) > len(m.jobs) {
				t.Fatalf("seed %d: %d of %d jobs left", seed, len(merged.jobs), len(twice.jobs))
			}
			if len(merged.jobs) < len(m.jobs) {
				fewer++
			}
			use, want := make([]float64, len(m.Cap)), make([]float64, len(m.Cap))
			got, all := NewPricer(merged).Lagrangian(lambda, use), NewPricer(&twice).Lagrangian(lambda, want)
			if math.Abs(got-all) > 1e-9*math.Abs(all) {
				t.Errorf("%s, seed %d: L is %v, want %v", objective, seed, got, all)
			}
			for i := range use {
				if math.Abs(use[i]-want[i]) > 1e-9*(1+want[i]) {
					t.Fatalf("%s, seed %d, row %d: demand %v, want %v", objective, seed, i, use[i], want[i])
				}
			}
		}
		if objective == plan.Carbon && fewer == 0 {
			t.Error("no jobs of an instance were alike")
		}
	}
}
