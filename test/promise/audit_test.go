package promise_test

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// least is the fewest workers with which a job runs.
func least(j *sim.Job) int {
	if j.Scale == nil {
		return 1
	}
	return j.Scale.MinWorkers
}

// deadline is when a job must be done; false where it need not be.
func deadline(j *sim.Job) (time.Time, bool) {
	switch {
	case j.HeldOut: // nobody tells Lull
		return time.Time{}, false
	case !j.Deadline.IsZero():
		return j.Deadline, true
	case j.MaxDelay > 0 || j.Scale != nil:
		return j.Submitted.Add(j.MaxDelay + j.Length), true
	}
	return time.Time{}, false
}

// tolerance of times: progress is counted in floating point.
const tolerance = 2 * time.Millisecond

// late is how far after its deadline job i ended, 0 where it was in time.
func late(cfg *sim.Config, res *sim.Result, i int) time.Duration {
	due, ok := deadline(&cfg.Jobs[i])
	if !ok {
		return 0
	}
	if by := res.At(res.Jobs[i].Finish).Sub(due); by > tolerance {
		return by
	}
	return 0
}

// speed is the true work per hour of some workers, in hours at the least scale.
func speed(j *sim.Job, workers int) float64 {
	if j.Scale == nil {
		return 1
	}
	curve := j.Scale.Curve
	if j.Scale.Actual != nil {
		curve = j.Scale.Actual
	}
	sum := 0.0
	for i := 0; i <= workers-j.Scale.MinWorkers; i++ {
		sum += curve[i]
	}
	return sum / curve[0]
}

// audit computes anew from the runs alone what a result must fulfil, and returns all
// that it does not. Jobs that lost a machine may have done work twice.
func audit(cfg *sim.Config, res *sim.Result) error {
	var faults []error
	fault := func(format string, args ...any) {
		if len(faults) < 10 {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	if len(res.Jobs) != len(cfg.Jobs) {
		return fmt.Errorf("%d outcomes of %d jobs", len(res.Jobs), len(cfg.Jobs))
	}
	lossy := len(cfg.Faults.Losses) > 0
	total, missed := 0.0, 0
	for c := range cfg.Clusters {
		lossy = lossy || len(cfg.Clusters[c].Changes) > 0 && !cfg.Clusters[c].Announced
	}
	for i := range cfg.Jobs {
		if err := auditRuns(cfg, res, i, lossy); err != nil {
			fault("%w", err)
			continue
		}
		grams, kWh := emitted(cfg, res, i)
		total += grams
		o := &res.Jobs[i]
		if differ(grams, float64(o.Emissions)) || differ(kWh, float64(o.Energy)) {
			fault("job %s: the result says %v g and %v kWh, the runs say %v g and %v kWh", cfg.Jobs[i].ID, float64(o.Emissions), float64(o.Energy), grams, kWh)
		}
		by := late(cfg, res, i)
		if by > 0 {
			missed++
		}
		if by > 0 && !o.Missed {
			fault("job %s: ends %v after its deadline and is not counted as missed", cfg.Jobs[i].ID, by)
		}
	}
	if res.Missed < missed {
		fault("the result says %d missed deadlines, the runs say %d", res.Missed, missed)
	}
	if len(faults) == 0 && differ(total+float64(res.IdleEmissions), float64(res.Emissions)) {
		fault("the result says %v g, its jobs %v g", float64(res.Emissions), total)
	}
	for c := range cfg.Clusters {
		if err := auditCapacity(cfg, res, c); err != nil {
			fault("%w", err)
		}
	}
	return errors.Join(faults...)
}

// differ says whether two sums are further apart than rounding explains.
func differ(a, b float64) bool {
	return math.IsNaN(a) || math.IsNaN(b) || math.Abs(a-b) > 1e-9*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}

// auditRuns checks when and where job i ran and that it did its work.
func auditRuns(cfg *sim.Config, res *sim.Result, i int, lossy bool) error {
	j, o := &cfg.Jobs[i], &res.Jobs[i]
	if len(o.Runs) == 0 {
		return fmt.Errorf("job %s: never ran", j.ID)
	}
	done, last := 0.0, j.Submitted.Sub(res.Start)
	lost := 1e-6*j.Length.Hours() + 1e-9 // at most: each pause and move loses what was done since the last checkpoint
	for k, r := range o.Runs {
		if k > 0 && (r.From > o.Runs[k-1].To || r.Cluster != o.Runs[k-1].Cluster) {
			lost += j.Checkpoint.Hours()
			if j.Parts > 1 {
				lost += j.Length.Hours() / float64(j.Parts)
			}
		}
		switch {
		case r.From < last:
			return fmt.Errorf("job %s: runs from %v, before %v: its submission or the end of its run before", j.ID, r.From, last)
		case r.To <= r.From:
			return fmt.Errorf("job %s: run from %v to %v", j.ID, r.From, r.To)
		case r.Cluster < 0 || int(r.Cluster) >= len(cfg.Clusters) || !permits(j, cfg.Clusters[r.Cluster].Name):
			return fmt.Errorf("job %s: runs on cluster %d; accepted: %v", j.ID, r.Cluster, j.Clusters)
		case j.Scale == nil && r.Workers != 1 || j.Scale != nil && (int(r.Workers) < j.Scale.MinWorkers || int(r.Workers) > j.Scale.MaxWorkers):
			return fmt.Errorf("job %s: runs with %d workers", j.ID, r.Workers)
		}
		done += (r.To - r.From).Hours() * speed(j, int(r.Workers))
		last = r.To
	}
	if last != o.Finish {
		return fmt.Errorf("job %s: finished at %v, its last run ended at %v", j.ID, o.Finish, last)
	}
	want := j.Length.Hours()
	if short := want - done; short > 1e-6*want+1e-9 || !lossy && cfg.Overhead == 0 && -short > lost {
		return fmt.Errorf("job %s: did %v hours of work of %v", j.ID, done, want)
	}
	end := o.Runs[len(o.Runs)-1]
	switch {
	case j.Kind == workload.Rigid && !lossy && len(o.Runs) != 1:
		return fmt.Errorf("job %s: rigid, and runs in %d pieces", j.ID, len(o.Runs))
	case j.Kind == workload.Rigid && !lossy && (end.To-end.From-j.Length).Abs() > tolerance:
		return fmt.Errorf("job %s: rigid of %v, and its last run takes %v", j.ID, j.Length, end.To-end.From)
	// A run that begins anew the moment its machine failed is one with the run before.
	case j.Kind == workload.Rigid && end.To-end.From < j.Length-tolerance:
		return fmt.Errorf("job %s: rigid of %v, and its last run takes only %v", j.ID, j.Length, end.To-end.From)
	case !j.Migratable && !lossy:
		for _, r := range o.Runs {
			if r.Cluster != end.Cluster {
				return fmt.Errorf("job %s: not migratable, and runs on clusters %d and %d", j.ID, r.Cluster, end.Cluster)
			}
		}
	}
	return nil
}

func permits(j *sim.Job, cluster string) bool {
	for _, c := range j.Clusters {
		if c == cluster {
			return true
		}
	}
	return len(j.Clusters) == 0
}

// emitted computes the emissions and the energy of job i from its runs.
func emitted(cfg *sim.Config, res *sim.Result, i int) (grams, kWh float64) {
	j, runs := &cfg.Jobs[i], res.Jobs[i].Runs
	for k, r := range runs {
		c := &cfg.Clusters[r.Cluster]
		pue := math.Max(1, c.Power.PUE)
		watts := 0.0
		for name, q := range j.Request {
			watts += q * c.Power.Watts[name] * float64(r.Workers)
		}
		if j.Scale != nil && j.Scale.Watts != nil {
			watts = j.Scale.Watts[int(r.Workers)-j.Scale.MinWorkers]
		}
		integral, covered := integrate(c.Actual, res.At(r.From), res.At(r.To))
		grams += watts * pue / 1000 * integral
		kWh += watts * pue / 1000 * covered.Hours()
		if k == 0 || runs[k-1].Cluster == r.Cluster && runs[k-1].To == r.From {
			continue
		}
		add := func(c *sim.Cluster, energy float64) {
			energy *= math.Max(1, c.Power.PUE)
			kWh += energy
			if x, ok := c.Actual.At(res.At(r.From)); ok {
				grams += energy * float64(x.Value)
			}
		}
		add(c, j.RestartKWh)
		if before := runs[k-1].Cluster; before != r.Cluster {
			add(&cfg.Clusters[before], j.TransferKWh/2)
			add(c, j.TransferKWh/2)
		}
	}
	return grams, kWh
}

// integrate sums intensity x hours of [from, to), sample by sample.
func integrate(s *carbon.Series, from, to time.Time) (sum float64, covered time.Duration) {
	first := sort.Search(s.Len(), func(i int) bool { return s.Sample(i).To.After(from) })
	for i := first; i < s.Len() && s.Sample(i).From.Before(to); i++ {
		x := s.Sample(i)
		a, b := x.From, x.To
		if a.Before(from) {
			a = from
		}
		if b.After(to) {
			b = to
		}
		sum += float64(x.Value) * b.Sub(a).Hours()
		covered += b.Sub(a)
	}
	return sum, covered
}

// auditCapacity sweeps over all runs on cluster c and compares what is in use with what
// there is, at every moment at which either changes.
func auditCapacity(cfg *sim.Config, res *sim.Result, c int) error {
	cl := &cfg.Clusters[c]
	if cl.Capacity == nil && len(cl.Changes) == 0 || cl.Announced { // what runs beyond a capacity that was announced runs on
		return nil
	}
	type change struct {
		at    time.Duration
		start bool
		use   map[string]float64
		n     float64
	}
	var list []change
	moments := map[time.Duration]bool{}
	for i := range res.Jobs {
		for _, r := range res.Jobs[i].Runs {
			if int(r.Cluster) == c {
				list = append(list, change{r.From, true, cfg.Jobs[i].Request, float64(r.Workers)}, change{r.To, false, cfg.Jobs[i].Request, -float64(r.Workers)})
				moments[r.From] = true
			}
		}
	}
	for _, x := range cl.Changes {
		moments[x.At.Sub(res.Start)] = true
	}
	for _, x := range cfg.Faults.Losses {
		moments[x.From.Sub(res.Start)] = true
	}
	sort.Slice(list, func(a, b int) bool { return list[a].at < list[b].at })
	order := make([]time.Duration, 0, len(moments))
	for m := range moments {
		order = append(order, m)
	}
	sort.Slice(order, func(a, b int) bool { return order[a] < order[b] })
	use, next := map[string]float64{}, 0
	for _, now := range order {
		for ; next < len(list) && list[next].at <= now; next++ {
			for name, q := range list[next].use {
				use[name] += q * list[next].n
			}
		}
		have := capacityAt(cfg, c, res.At(now))
		for name, q := range use {
			if q > have[name]*(1+1e-9)+1e-5 {
				return fmt.Errorf("cluster %s: %v %s in use at %s, capacity %v", cl.Name, q, name, res.At(now).Format(time.RFC3339), have[name])
			}
		}
	}
	return nil
}

// capacityAt is what cluster c has at a time.
func capacityAt(cfg *sim.Config, c int, now time.Time) map[string]float64 {
	have := map[string]float64{}
	from := cfg.Clusters[c].Capacity
	for _, x := range cfg.Clusters[c].Changes {
		if !x.At.After(now) {
			from = x.Capacity
		}
	}
	for r, q := range from {
		have[r] = q
	}
	for _, l := range cfg.Faults.Losses {
		if l.Cluster == c && !now.Before(l.From) && now.Before(l.To) {
			for r, q := range l.Capacity {
				have[r] = math.Max(0, have[r]-q)
			}
		}
	}
	return have
}
