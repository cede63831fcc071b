package promise_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan/exact"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/test/size"
)

// crowd is equal jobs submitted at one instant for one unit of capacity.
func crowd(n int, kind workload.Kind, length, slot, slack time.Duration) *instance {
	in := single(1, sunny(), slot, 0)
	for i := range n {
		in.cfg.Jobs = append(in.cfg.Jobs, sim.Job{
			ID: fmt.Sprintf("j%05d", i), Kind: kind, Request: cpu(1), Submitted: at("7m13s"), Length: length, Estimate: length,
			Deadline: at("7m13s").Add(time.Duration(n)*length + slack),
		})
	}
	return in
}

// hostile are extreme inputs. Those of which a deadline can be kept say so.
var hostile = []struct {
	name string
	in   func() *instance
	// late are the jobs that are late whatever happens.
	late map[string]bool
	// refusable inputs may be refused with sim.ErrConfig, by AsSubmitted and Simulate alike.
	refusable bool
}{
	{name: "150 equal minutes, one unit, no slack, 5 min slots", in: func() *instance {
		return crowd(150, workload.Rigid, time.Minute, 5*time.Minute, 0)
	}},
	{name: "200 equal minutes, one unit, slack, 1 h slots", in: func() *instance {
		return crowd(200, workload.Rigid, time.Minute, time.Hour, 5*time.Hour)
	}},
	{name: "200 equal interruptible minutes, one unit, 1 h slots", in: func() *instance {
		return crowd(200, workload.Interruptible, time.Minute, time.Hour, 5*time.Hour)
	}},
	{name: "seconds in hourly slots", in: func() *instance {
		return crowd(200, workload.Rigid, time.Second, time.Hour, 10*time.Second)
	}},
	{name: "longer than its deadline", late: map[string]bool{"long": true}, in: func() *instance {
		return single(2, sunny(), 15*time.Minute, 5*time.Minute,
			sim.Job{ID: "long", Kind: workload.Interruptible, Request: cpu(1), Submitted: at("1h3m"), Length: 10 * time.Hour, Deadline: at("6h")},
			sim.Job{ID: "other", Kind: workload.Rigid, Request: cpu(1), Submitted: at("1h4m"), Length: 2 * time.Hour, Deadline: at("20h")},
			sim.Job{ID: "third", Kind: workload.Interruptible, Request: cpu(1), Submitted: at("1h5m"), Length: 2 * time.Hour, Deadline: at("16h")})
	}},
	{name: "deadline in the past", late: map[string]bool{"past": true}, in: func() *instance {
		return single(1, sunny(), 15*time.Minute, 5*time.Minute,
			sim.Job{ID: "past", Kind: workload.Rigid, Request: cpu(1), Submitted: at("3h"), Length: time.Hour, Deadline: at("1h")},
			sim.Job{ID: "other", Kind: workload.Rigid, Request: cpu(1), Submitted: at("3h"), Length: time.Hour, Deadline: at("9h")})
	}},
	{name: "requests of nothing", refusable: true, in: func() *instance {
		return single(1, sunny(), 15*time.Minute, 5*time.Minute,
			sim.Job{ID: "none", Kind: workload.Rigid, Submitted: at("3h"), Length: time.Hour, Deadline: at("20h")},
			sim.Job{ID: "zero", Kind: workload.Interruptible, Request: cpu(0), Submitted: at("3h"), Length: time.Hour, Deadline: at("20h")},
			sim.Job{ID: "one", Kind: workload.Rigid, Request: cpu(1), Submitted: at("3h"), Length: time.Hour, Deadline: at("20h")})
	}},
	{name: "requests of zero of what the cluster has none of", in: func() *instance {
		in := single(1, sunny(), 15*time.Minute, 5*time.Minute,
			sim.Job{ID: "zero", Kind: workload.Rigid, Request: map[string]float64{"cpu": 1, "gpu": 0}, Submitted: at("3h"), Length: time.Hour, Deadline: at("20h")})
		in.cfg.Clusters[0].Capacity = map[string]float64{"cpu": 1, "gpu": 0}
		return in
	}},
	{name: "zero intensity everywhere", in: func() *instance {
		// The slots hold less work than 40 jobs have: joint searches in vain for a place of the last one, for 20 s.
		in := crowd(size.Of(8, 40), workload.Interruptible, 40*time.Minute, 15*time.Minute, time.Hour)
		in.setWave(0, flat(0))
		return in
	}},
	{name: "no capacity for six hours", in: func() *instance {
		in := single(2, sunny(), 15*time.Minute, 5*time.Minute,
			sim.Job{ID: "a", Kind: workload.Rigid, Request: cpu(2), Submitted: at("1h"), Length: time.Hour, Deadline: at("40h")},
			sim.Job{ID: "b", Kind: workload.Interruptible, Request: cpu(2), Submitted: at("9h"), Length: 3 * time.Hour, Deadline: at("40h")})
		in.cfg.Clusters[0].Changes = []sim.Change{{At: at("10h"), Capacity: cpu(0)}, {At: at("16h"), Capacity: cpu(2)}}
		return in
	}},
	{name: "a job of months", in: func() *instance {
		months := size.Of[time.Duration](100, 365) * 24 * time.Hour
		in := single(2, sunny(), 6*time.Hour, 5*time.Minute,
			sim.Job{ID: "months", Kind: workload.Interruptible, Request: cpu(1), Submitted: at("1h1m"), Length: months, Deadline: at("1h1m").Add(months + 20*24*time.Hour)},
			sim.Job{ID: "day", Kind: workload.Rigid, Request: cpu(1), Submitted: at("2h"), Length: 24 * time.Hour, Deadline: at("90h")})
		s := sunny().until("X", 400)
		in.cfg.Clusters[0].Actual, in.cfg.Clusters[0].Forecast = s, s
		return in
	}},
	{name: "a deadline in twenty years", in: func() *instance {
		return single(1, sunny(), 5*time.Minute, 5*time.Minute,
			sim.Job{ID: "far", Kind: workload.Rigid, Request: cpu(1), Submitted: at("1h1m"), Length: time.Hour, Deadline: day0.AddDate(20, 0, 0)},
			sim.Job{ID: "near", Kind: workload.Interruptible, Request: cpu(1), Submitted: at("1h1m"), Length: time.Hour, Deadline: at("5h")})
	}},
	{name: "equal names", refusable: true, in: func() *instance {
		return single(1, sunny(), 15*time.Minute, 0,
			sim.Job{ID: "j", Kind: workload.Rigid, Request: cpu(1), Submitted: at("3h"), Length: time.Hour, Deadline: at("5h")},
			sim.Job{ID: "j", Kind: workload.Interruptible, Request: cpu(1), Submitted: at("3h"), Length: time.Hour, Deadline: at("30h")})
	}},
	{name: "a forecast that ends before the deadlines", in: func() *instance {
		in := crowd(20, workload.Interruptible, 40*time.Minute, 15*time.Minute, 20*time.Hour)
		in.cfg.Clusters[0].Forecast = sunny().until("X", 0)
		return in
	}},
	{name: "an hour's slack lost to rounding in hourly slots", in: func() *instance {
		in := single(1, sunny(), time.Hour, 0)
		for i := range 8 { // 61 minutes each: two slots if rounded up, one and a bit in truth
			in.cfg.Jobs = append(in.cfg.Jobs, sim.Job{
				ID: fmt.Sprintf("j%d", i), Kind: workload.Rigid, Request: cpu(1), Submitted: at("1h30m"), Length: 61 * time.Minute, Estimate: 61 * time.Minute,
				Deadline: at("1h30m").Add(8*61*time.Minute + time.Hour),
			})
		}
		return in
	}},
}

// TestHostileInputEndsWithoutFaults: extreme inputs end without an error, or are refused as such where that is
// sensible. What can be kept is kept.
func TestHostileInputEndsWithoutFaults(t *testing.T) {
	list := tried(t)
	if len(list) == len(methods) {
		list = byName(t, "asap", "cheapest", "cheapest+reserve", "joint", reserved, "carbonscaler", "waitawhile-deadline", "gaia-saving", "vcc")
	}
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			for _, m := range list {
				in := h.in()
				base, err := sim.AsSubmitted(context.Background(), in.cfg)
				if h.refusable && errors.Is(err, sim.ErrConfig) {
					if _, err := sim.Simulate(context.Background(), in.with(t, m)); !errors.Is(err, sim.ErrConfig) {
						t.Errorf("%s: %v; want sim.ErrConfig, as from AsSubmitted", m.name, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("as submitted: %v", err)
				}
				if err := audit(&in.cfg, &base); err != nil {
					t.Fatalf("as submitted: %v", err)
				}
				for i := range in.cfg.Jobs {
					if j := &in.cfg.Jobs[i]; (late(&in.cfg, &base, i) > 0) != h.late[j.ID] {
						t.Fatalf("job %s as submitted: late by %v; the case expects otherwise", j.ID, late(&in.cfg, &base, i))
					}
				}
				c, err := trial(t, in, m, &base, nil)
				if errors.Is(err, exact.ErrTooLarge) {
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", m.name, err)
				}
				if c.broken > 0 {
					t.Errorf("%s: %d of %d promises broken, worst by %v; want none", m.name, c.broken, c.kept, c.worst)
				}
			}
		})
	}
}
