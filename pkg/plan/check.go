package plan

import (
	"errors"
	"fmt"
	"math"

	"lull.dev/lull/pkg/workload"
)

// ErrPlan marks a plan that breaks a constraint of its problem.
var ErrPlan = errors.New("plan is not feasible")

// Tolerances of Check, those of the independent scorer.
const (
	checkEps = 1e-6 // capacity (relative), fractions
	workEps  = 1e-4 // work done (relative)
)

// Check reports every constraint that pl breaks: capacity, arrival, deadline,
// scale, cluster, work (Problem.Need), contiguity of rigid jobs and, for the carbon objective,
// that every job is planned. The error joins one error per fault, each wrapping
// ErrPlan; it is nil when pl is feasible.
//
// Complexity: O(segments x resources + clusters x resources x slots).
func Check(p *Problem, pl Plan) error {
	k := checker{p: p, used: map[string][][]float64{}, seen: make([]bool, len(p.Jobs))}
	for _, jp := range pl.Jobs {
		k.job(jp)
	}
	k.capacity()
	if p.Objective.Kind == Carbon {
		for j, done := range k.seen {
			if !done {
				k.fault("job %q: not planned", p.Jobs[j].ID)
			}
		}
	}
	return errors.Join(k.faults...)
}

type checker struct {
	p      *Problem
	used   map[string][][]float64 // resource -> cluster -> slot
	seen   []bool
	faults []error
}

func (k *checker) fault(format string, args ...any) {
	k.faults = append(k.faults, fmt.Errorf("%w: "+format, append([]any{ErrPlan}, args...)...))
}

// slotUse is what one job does in one slot.
type slotUse struct {
	cluster, peak int
	fraction      float64
}

func (k *checker) job(jp JobPlan) {
	if jp.Job < 0 || jp.Job >= len(k.p.Jobs) {
		k.fault("job index %d is not in the problem", jp.Job)
		return
	}
	j := &k.p.Jobs[jp.Job]
	if k.seen[jp.Job] {
		k.fault("job %q: planned twice", j.ID)
		return
	}
	if len(jp.Segments) == 0 {
		return
	}
	k.seen[jp.Job] = true
	work, last, first := 0.0, -1, k.p.Grid.N
	slots := map[int]slotUse{}
	clusters := map[int]bool{}
	for _, s := range jp.Segments {
		if !k.segment(j, s) {
			continue
		}
		work += s.Fraction * j.Throughput(s.Workers)
		use, again := slots[s.Slot]
		if again && use.cluster != s.Cluster {
			k.fault("job %q: two clusters in slot %d", j.ID, s.Slot)
		}
		slots[s.Slot] = slotUse{s.Cluster, max(use.peak, s.Workers), use.fraction + s.Fraction}
		clusters[s.Cluster] = true
		first, last = min(first, s.Slot), max(last, s.Slot)
	}
	for t, use := range slots {
		if use.fraction > 1+checkEps {
			k.fault("job %q: slot %d used %.6f times", j.ID, t, use.fraction)
		}
		for r, q := range j.Request {
			k.use(r)[use.cluster][t] += q * float64(use.peak)
		}
	}
	if len(clusters) > 1 && !j.Migratable {
		k.fault("job %q: changes cluster and is not migratable", j.ID)
	}
	if last < 0 {
		return
	}
	if j.Kind == workload.Rigid && len(slots) != last-first+1 {
		k.fault("job %q: rigid job interrupted", j.ID)
	}
	if j.Kind == workload.Rigid && len(clusters) > 1 {
		k.fault("job %q: rigid job on two clusters", j.ID)
	}
	// Z would reward a run that goes on, a pause bridged by next to no work would spare its
	// restart, and next to no work elsewhere would bring a move forward.
	if (k.p.Objective.Kind == MOSP || j.RestartKWh+j.TransferKWh > 0) && j.Kind != workload.Elastic && len(slots) > j.Slots() {
		k.fault("job %q: %d slots used, its work needs %d", j.ID, len(slots), j.Slots())
	}
	need := k.p.Need(jp.Job, jp.Segments)
	cutOff := k.p.Objective.Kind == MOSP && j.Kind == workload.Rigid && last == k.p.Grid.N-1
	if work+workEps*max(1, need) < need && !cutOff {
		k.fault("job %q: %.4f of %.4f work done", j.ID, work, need)
	}
}

// segment checks what concerns one segment alone; false when it cannot be
// counted at all.
func (k *checker) segment(j *workload.Job, s Segment) bool {
	switch {
	case s.Cluster < 0 || s.Cluster >= len(k.p.Clusters):
		k.fault("job %q: unknown cluster %d", j.ID, s.Cluster)
		return false
	case s.Slot < 0 || s.Slot >= k.p.Grid.N:
		k.fault("job %q: slot %d outside the horizon of %d", j.ID, s.Slot, k.p.Grid.N)
		return false
	case s.Workers < j.MinWorkers || s.Workers > j.MaxWorkers:
		k.fault("job %q: %d workers outside %d..%d", j.ID, s.Workers, j.MinWorkers, j.MaxWorkers)
		return false
	}
	if s.Slot < j.Arrival {
		k.fault("job %q: slot %d before arrival %d", j.ID, s.Slot, j.Arrival)
	}
	if deadline := lastDeadline(j); k.p.Objective.Kind == Carbon && s.Slot >= deadline {
		k.fault("job %q: slot %d at or past deadline %d", j.ID, s.Slot, deadline)
	}
	if j.Kind != workload.Elastic && s.Workers != j.MinWorkers {
		k.fault("job %q: %s job scaled to %d", j.ID, j.Kind, s.Workers)
	}
	if math.IsNaN(s.Fraction) || s.Fraction <= 0 || s.Fraction > 1+checkEps {
		k.fault("job %q: slot %d: fraction %v; accepted: above 0, at most 1", j.ID, s.Slot, s.Fraction)
	}
	if !j.Allows(k.p.Clusters[s.Cluster].Name) {
		k.fault("job %q: cluster %q is not allowed", j.ID, k.p.Clusters[s.Cluster].Name)
	}
	return true
}

func (k *checker) use(resource string) [][]float64 {
	rows := k.used[resource]
	if rows == nil {
		rows = make([][]float64, len(k.p.Clusters))
		for c := range rows {
			rows[c] = make([]float64, k.p.Grid.N)
		}
		k.used[resource] = rows
	}
	return rows
}

func (k *checker) capacity() {
	for _, r := range k.p.Resources() {
		rows := k.used[r]
		for c := range rows {
			cl := &k.p.Clusters[c]
			for t, amount := range rows[c] {
				if amount == 0 {
					continue
				}
				capacity := 0.0
				if cl.Capacity[r] != nil {
					capacity = cl.Capacity[r][t]
				}
				if cl.Load[r] != nil {
					amount += cl.Load[r][t]
				}
				if amount > capacity+checkEps*max(1, capacity) {
					k.fault("cluster %q: %s %.6g > %.6g in slot %d", cl.Name, r, amount, capacity, t)
				}
			}
		}
	}
}

// lastDeadline is the deadline of the schedules that may end latest.
func lastDeadline(j *workload.Job) int {
	if j.Unknown != nil {
		return max(j.Deadline, j.Unknown.Deadline)
	}
	return j.Deadline
}
