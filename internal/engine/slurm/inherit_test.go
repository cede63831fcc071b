package slurm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// hourly is an outlook: an intensity for each hour from midnight on, 500 for those that are not stated.
func hourly(t *testing.T, basis carbon.Basis, issued time.Time, hours map[int]units.CarbonIntensity) source.Outlook {
	t.Helper()
	var samples []carbon.Sample
	for h := range 48 {
		v, stated := hours[h]
		if !stated {
			v = 500
		}
		samples = append(samples, carbon.Sample{From: midnight.Add(time.Duration(h) * time.Hour), To: midnight.Add(time.Duration(h+1) * time.Hour), Value: v})
	}
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "X", Basis: basis, IssuedAt: issued}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return source.Outlook{Outlook: carbon.Outlook{Expected: series}, Basis: basis, IssuedAt: issued}
}

// follow has a controller know an outlook, which may be changed.
func follow(c *Controller, out source.Outlook) *source.Outlook {
	c.o.Outlook = func(time.Time) source.Outlook { return out }
	return &out
}

// turns are two jobs that each fill the cluster, and wait for clean hours, one after the other, as from 09:01 on. change is made to them first.
func turns(t *testing.T, c *Controller, f *fake, change func(*slurm.Job)) (planned map[string]time.Time) {
	t.Helper()
	f.clock.SetTime(midnight.Add(9*time.Hour + time.Minute))
	for i := range f.jobs {
		j := &f.jobs[i]
		j.CPUs, j.Licences = 8, "power:8"
		j.Submitted, j.Begin = f.clock.Now(), f.clock.Now().Add(2*time.Minute)
		j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin}.String()
		change(j)
	}
	step(t, c, f, time.Second)
	planned = begins(f)
	if apart := planned["2"].Sub(planned["1"]).Abs(); apart < time.Hour || planned["1"].Before(midnight.Add(14*time.Hour)) || planned["2"].Before(midnight.Add(14*time.Hour)) {
		t.Fatalf("planned at %v; want one hour after the other, from 14:00 on", planned)
	}
	return planned
}

// TestTheFirstAnswerMovesNoPlanThatIsGood: the provider does not answer before the first look of a new controller. When it does, plans stand that are as clean as
// others would be, although a node has come back, and all could be planned anew. Another one is made anew, as after each new forecast.
func TestTheFirstAnswerMovesNoPlanThatIsGood(t *testing.T) {
	clean := map[int]units.CarbonIntensity{14: 100, 15: 103, 16: 110}
	for name, tc := range map[string]struct {
		answer map[int]units.CarbonIntensity
		moves  bool
	}{
		"the same":            {clean, false},
		"a little cleaner":    {map[int]units.CarbonIntensity{14: 99, 15: 103, 16: 110}, false},
		"cleaner at 11":       {map[int]units.CarbonIntensity{11: 50, 14: 100, 15: 103, 16: 110}, true},
		"no longer clean":     {map[int]units.CarbonIntensity{16: 110}, true},
		"cleaner at midnight": {map[int]units.CarbonIntensity{14: 100, 15: 103, 16: 110, 24: 50}, false}, // later than both may start
	} {
		c, f, _ := setup(t, held("1"), held("2"))
		follow(c, hourly(t, carbon.LiveForecast, midnight, clean))
		planned := turns(t, c, f, func(*slurm.Job) {})
		f.cpus = 16
		c = again(t, f)
		out := follow(c, hourly(t, carbon.Climatology, time.Time{}, map[int]units.CarbonIntensity{3: 400}))
		step(t, c, f, time.Minute)
		if got := begins(f); len(f.calls) > 0 {
			t.Fatalf("%s: planned at %v, then, before the answer, at %v: %v", name, planned, got, f.calls)
		}
		*out = hourly(t, carbon.LiveForecast, midnight.Add(8*time.Hour), tc.answer)
		for range 3 {
			step(t, c, f, time.Minute)
		}
		if got := begins(f); len(f.calls) > 0 != tc.moves {
			t.Errorf("%s: planned at %v, then at %v: %v; want changes: %v", name, planned, got, f.calls, tc.moves)
		}
		if tc.moves {
			continue
		}
		// The next one is as any other.
		*out = hourly(t, carbon.LiveForecast, midnight.Add(9*time.Hour), clean)
		step(t, c, f, time.Minute)
		if got := begins(f); !got["1"].Equal(got["2"]) {
			t.Errorf("%s: planned at %v after a second answer; want both in the cleanest hour", name, got)
		}
	}
}

// TestAFirstAnswerComesOnce: a controller whose provider answers before its first look has heard it.
func TestAFirstAnswerComesOnce(t *testing.T) {
	for _, tc := range []struct {
		bases []carbon.Basis
		first int // of them; -1 for none
	}{
		{[]carbon.Basis{carbon.LiveForecast, carbon.LiveForecast}, -1},
		{[]carbon.Basis{carbon.CachedForecast, carbon.LiveForecast}, -1},
		{[]carbon.Basis{carbon.Climatology, carbon.Climatology, carbon.OwnForecast, carbon.LiveForecast}, 2},
		{[]carbon.Basis{carbon.Constant, carbon.LiveForecast, carbon.Climatology, carbon.LiveForecast}, 1},
	} {
		k, got := inheritance{}, -1
		for i, basis := range tc.bases {
			if k.hear(basis); k.first {
				got = i
			}
		}
		if got != tc.first {
			t.Errorf("%v: first is %d; want %d", tc.bases, got, tc.first)
		}
	}
}

// TestPlansOfOtherKindsOutliveTheController: those of jobs that may be paused, of arrays that are scaled, and under a capacity.
func TestPlansOfOtherKindsOutliveTheController(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*slurm.Job)
		capacity bool
	}{
		"may be paused":    {func(j *slurm.Job) { j.Comment = "lull:max-delay=12h,runtime=1h,interruptible" }, false},
		"under a capacity": {func(*slurm.Job) {}, true},
	} {
		bound := func(c *Controller) {
			if tc.capacity {
				withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "09:00", To: "21:00", Capacity: "8"}}}, "")
			}
		}
		c, f, _ := setup(t, held("1"), held("2"))
		bound(c)
		planned := turns(t, c, f, tc.change)
		c = again(t, f)
		bound(c)
		follow(c, hourly(t, carbon.LiveForecast, midnight, map[int]units.CarbonIntensity{11: 10, 12: 10, 14: 100})) // what would be planned now
		for range 3 {
			step(t, c, f, time.Minute)
		}
		updates := slices.DeleteFunc(slices.Clone(f.calls), func(call string) bool { return strings.HasPrefix(call, "reserve") })
		if got := begins(f); !got["1"].Equal(planned["1"]) || !got["2"].Equal(planned["2"]) || len(updates) > 0 {
			t.Errorf("%s: planned at %v, then at %v; changes %v; want none", name, planned, got, updates)
		}
	}
}

// TestAnArrayThatIsScaledKeepsItsBegin, although another one would be cleaner by what is known now, and is planned anew when it has come.
func TestAnArrayThatIsScaledKeepsItsBegin(t *testing.T) {
	j := scaled()
	j.Comment = "lull:max-delay=10h,runtime=30m,min-tasks=4"
	j.Begin = j.Begin.Add(2 * time.Minute)
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin}.String()
	c, f, _ := setup(t, j)
	follow(c, hourly(t, carbon.LiveForecast, midnight, map[int]units.CarbonIntensity{14: 100, 15: 100}))
	f.clock.SetTime(midnight.Add(9*time.Hour + time.Minute))
	step(t, c, f, time.Second)
	planned := f.jobs[0].Begin
	if planned.Before(midnight.Add(14 * time.Hour)) {
		t.Fatalf("planned at %v; want clean hours: %s", planned, f.jobs[0].AdminComment)
	}
	c = again(t, f)
	follow(c, hourly(t, carbon.LiveForecast, midnight, map[int]units.CarbonIntensity{11: 10, 12: 10, 14: 100, 15: 100}))
	for range 3 {
		step(t, c, f, time.Minute)
	}
	if got := f.jobs[0].Begin; !got.Equal(planned) || len(f.calls) > 0 {
		t.Errorf("planned at %v, then at %v: %v; want no change", planned, got, f.calls)
	}
	step(t, c, f, planned.Sub(f.clock.Now()))
	if m := slurm.ReadMark(f.jobs[0].AdminComment); m.Phase != slurm.Released {
		t.Errorf("%s; want one that is released", f.jobs[0].AdminComment)
	}
}

// TestAJobThatMayBePausedPausesAfterARestart: only its begin is known, and its pauses are planned when it begins.
func TestAJobThatMayBePausedPausesAfterARestart(t *testing.T) {
	j := held("1")
	j.Comment, j.CPUs = "lull:max-delay=12h,runtime=2h,interruptible", 8
	c, f, _ := setup(t, j)
	out := hourly(t, carbon.LiveForecast, midnight, map[int]units.CarbonIntensity{14: 100, 16: 100})
	follow(c, out)
	f.clock.SetTime(midnight.Add(9*time.Hour + time.Minute))
	f.jobs[0].Submitted, f.jobs[0].Begin = f.clock.Now(), f.clock.Now().Add(2*time.Minute)
	f.jobs[0].AdminComment = slurm.Mark{Phase: slurm.Held, Begin: f.jobs[0].Begin}.String()
	step(t, c, f, time.Second)
	planned := f.jobs[0].Begin
	c = again(t, f)
	follow(c, out)
	step(t, c, f, time.Minute)
	if got := f.jobs[0].Begin; !got.Equal(planned) || !got.Equal(midnight.Add(14*time.Hour)) || len(f.calls) > 0 {
		t.Fatalf("planned at %v, then at %v: %v; want 14:00, and no change", planned, got, f.calls)
	}
	f.clock.SetTime(planned)
	for f.clock.Now().Before(midnight.Add(15*time.Hour + 10*time.Minute)) {
		step(t, c, f, 30*time.Second)
	}
	if !slices.ContainsFunc(f.calls, func(call string) bool { return strings.HasPrefix(call, "requeue") }) {
		t.Errorf("%v: %+v; want a pause at 15:00", f.calls, f.jobs)
	}
}
