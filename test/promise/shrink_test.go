package promise_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/sim"
)

// breaks says whether a planner misses a deadline that running as submitted keeps.
func breaks(t testing.TB, in *instance, m method) bool {
	t.Helper()
	base, err := sim.AsSubmitted(context.Background(), in.cfg)
	if err != nil {
		return false
	}
	c, err := trial(t, in, m, &base, nil)
	return err == nil && c.broken > 0
}

// clone copies what shrink changes.
func (in *instance) clone() *instance {
	out := *in
	out.waves = slices.Clone(in.waves)
	out.cfg.Clusters = slices.Clone(in.cfg.Clusters)
	out.cfg.Jobs = slices.Clone(in.cfg.Jobs)
	return &out
}

// setWave gives cluster c another intensity.
func (in *instance) setWave(c int, w wave) {
	s := w.series(in.cfg.Clusters[c].Zone)
	in.waves[c], in.cfg.Clusters[c].Actual, in.cfg.Clusters[c].Forecast = w, s, s
}

// shrink returns a smaller instance on which the planner still breaks a promise: it drops
// jobs, in halves and then one by one, then whatever else is not needed, until nothing
// more can go.
func shrink(t testing.TB, in *instance, m method) *instance {
	t.Helper()
	best := in.clone()
	try := func(next *instance) bool {
		if !breaks(t, next, m) {
			return false
		}
		best = next
		return true
	}
	for again := true; again; {
		again = false
		for size := max(1, len(best.cfg.Jobs)/2); size >= 1; size /= 2 {
			for i := 0; i < len(best.cfg.Jobs) && len(best.cfg.Jobs) > size; {
				next := best.clone()
				next.cfg.Jobs = slices.Delete(next.cfg.Jobs, i, min(i+size, len(next.cfg.Jobs)))
				if len(next.cfg.Jobs) > 0 && try(next) {
					again = true
					continue
				}
				i += size
			}
		}
		for _, simplify := range simplifications {
			for i := range best.cfg.Jobs {
				next := best.clone()
				if simplify(next, i) && try(next) {
					again = true
				}
			}
		}
	}
	return best
}

// simplifications change an instance towards a simpler one, most of them job i of it;
// false where there is nothing to simplify.
var simplifications = []func(in *instance, i int) bool{
	func(in *instance, _ int) bool { // one cluster alone
		if len(in.cfg.Clusters) == 1 {
			return false
		}
		for c := range in.cfg.Clusters {
			one := in.clone()
			one.cfg.Clusters, one.waves = in.cfg.Clusters[c:c+1], in.waves[c:c+1]
			for i := range one.cfg.Jobs {
				one.cfg.Jobs[i].Clusters = nil
			}
			if _, err := sim.AsSubmitted(context.Background(), one.cfg); err == nil {
				*in = *one
				return true
			}
		}
		return false
	},
	func(in *instance, _ int) bool {
		if in.cfg.Horizon == 0 {
			return false
		}
		in.cfg.Horizon = 0
		return true
	},
	func(in *instance, _ int) bool { return in.simpler(flat(300)) },
	func(in *instance, _ int) bool { return in.simpler(sunny()) },
	func(in *instance, _ int) bool { // one resource
		if len(in.cfg.Clusters[0].Capacity) == 1 {
			return false
		}
		for c := range in.cfg.Clusters {
			in.cfg.Clusters[c].Capacity = map[string]float64{"cpu": in.cfg.Clusters[c].Capacity["cpu"]}
		}
		for i := range in.cfg.Jobs {
			in.cfg.Jobs[i].Request = map[string]float64{"cpu": in.cfg.Jobs[i].Request["cpu"]}
		}
		return true
	},
	func(in *instance, i int) bool {
		j := &in.cfg.Jobs[i]
		had := j.Clusters != nil || j.Migratable || j.RestartKWh > 0 || j.TransferKWh > 0
		j.Clusters, j.Migratable, j.RestartKWh, j.TransferKWh = nil, false, 0, 0
		return had
	},
	func(in *instance, i int) bool {
		j := &in.cfg.Jobs[i]
		had := j.HeldOut || j.Parts > 0
		j.HeldOut, j.Parts = false, 0
		return had
	},
	func(in *instance, _ int) bool {
		return in.withoutOne(func(c *sim.Cluster) bool {
			had := len(c.Load) > 0
			c.Load = c.Load[:max(0, len(c.Load)-1)]
			return had
		})
	},
	func(in *instance, _ int) bool {
		return in.withoutOne(func(c *sim.Cluster) bool {
			had := c.Changes != nil || c.ForecastLow != nil
			c.Changes, c.Announced, c.ForecastLow, c.ForecastHigh = nil, false, nil, nil
			return had
		})
	},
	func(in *instance, _ int) bool {
		had := in.cfg.Revise != sim.EverySlot || in.cfg.MinRun > 0 || in.cfg.MinPause > 0
		in.cfg.Revise, in.cfg.MinRun, in.cfg.MinPause = sim.EverySlot, 0, 0
		return had
	},
	func(in *instance, i int) bool { // whole minutes
		j := &in.cfg.Jobs[i]
		length := max(time.Minute, j.Length.Round(time.Minute))
		if length == j.Length {
			return false
		}
		j.Length, j.Estimate = length, length
		return true
	},
	func(in *instance, i int) bool {
		j := &in.cfg.Jobs[i]
		if j.Scale == nil || j.Scale.Watts == nil {
			return false
		}
		scale := *j.Scale
		scale.Watts, j.Scale = nil, &scale
		return true
	},
}

// withoutOne simplifies the first cluster that can be.
func (in *instance) withoutOne(simplify func(*sim.Cluster) bool) bool {
	for c := range in.cfg.Clusters {
		if simplify(&in.cfg.Clusters[c]) {
			return true
		}
	}
	return false
}

// simpler sets the intensity of all clusters, false where it is that already.
func (in *instance) simpler(w wave) bool {
	if len(in.waves[0].values) <= len(w.values) {
		return false
	}
	for c := range in.cfg.Clusters {
		in.setWave(c, w)
	}
	return true
}

// literal prints an instance as the Go value that goldens hold.
func literal(in *instance, m method) string {
	var b strings.Builder
	since := func(t time.Time) string { return fmt.Sprintf("at(%q)", t.Sub(day0)) }
	fmt.Fprintf(&b, "{\n\tname: \"seed %d\", planner: %q, slot: dur(%q), margin: dur(%q), horizon: dur(%q),\n\tclusters: []sim.Cluster{\n",
		in.seed, m.name, in.cfg.Slot, in.cfg.Margin, in.cfg.Horizon)
	for _, c := range in.cfg.Clusters {
		fmt.Fprintf(&b, "\t\t{Name: %q, Zone: %q, Capacity: %#v, Power: power.PerUnit{Watts: %#v, PUE: %v}", c.Name, c.Zone, c.Capacity, c.Power.Watts, c.Power.PUE)
		for _, x := range c.Changes {
			fmt.Fprintf(&b, ", {At: %s, Capacity: %#v} of Changes, announced %v", since(x.At), x.Capacity, c.Announced)
		}
		for _, x := range c.Load {
			fmt.Fprintf(&b, ", {From: %s, To: %s, Amount: %#v, Announced: %v} of Load", since(x.From), since(x.To), x.Amount, x.Announced)
		}
		b.WriteString("},\n")
	}
	fmt.Fprintf(&b, "\t}, // known %v, revise %d, minRun %v, minPause %v\n", in.cfg.Known, in.cfg.Revise, in.cfg.MinRun, in.cfg.MinPause)
	b.WriteString("\twaves: []wave{\n")
	last := day0
	for i := range in.cfg.Jobs {
		if due, ok := deadline(&in.cfg.Jobs[i]); ok && due.After(last) {
			last = due
		}
	}
	for _, w := range in.waves {
		n := min(len(w.values), int(last.Sub(day0)/w.step)+1)
		fmt.Fprintf(&b, "\t\t{step: dur(%q), values: %#v},\n", w.step, w.values[:n])
	}
	b.WriteString("\t},\n\tjobs: []sim.Job{\n")
	for i := range in.cfg.Jobs {
		j := &in.cfg.Jobs[i]
		fmt.Fprintf(&b, "\t\t{ID: %q, Kind: %q, Submitted: %s, Length: dur(%q), Estimate: dur(%q), Request: %#v", j.ID, j.Kind, since(j.Submitted), j.Length, j.Estimate, j.Request)
		if !j.Deadline.IsZero() {
			fmt.Fprintf(&b, ", Deadline: %s", since(j.Deadline))
		}
		if j.MaxDelay > 0 {
			fmt.Fprintf(&b, ", MaxDelay: dur(%q)", j.MaxDelay)
		}
		if j.Scale != nil {
			fmt.Fprintf(&b, ", Scale: &sim.Scale{MinWorkers: %d, MaxWorkers: %d, Curve: %#v, Watts: %#v}", j.Scale.MinWorkers, j.Scale.MaxWorkers, j.Scale.Curve, j.Scale.Watts)
		}
		if j.Clusters != nil {
			fmt.Fprintf(&b, ", Clusters: %#v", j.Clusters)
		}
		if j.Migratable || j.RestartKWh > 0 || j.TransferKWh > 0 {
			fmt.Fprintf(&b, ", Migratable: %v, RestartKWh: %v, TransferKWh: %v", j.Migratable, j.RestartKWh, j.TransferKWh)
		}
		if j.HeldOut || j.Parts > 0 {
			fmt.Fprintf(&b, ", HeldOut: %v, Parts: %d", j.HeldOut, j.Parts)
		}
		b.WriteString("},\n")
	}
	b.WriteString("\t},\n},\n")
	return b.String()
}
