package feedback

import (
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// TestNothingIsSavedWithoutAZone: the zone of a waiting workload that has a plan goes, and the workload is released. Its plan claims no saving of what it will emit,
// which nobody knows.
func TestNothingIsSavedWithoutAZone(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic} {
		m := New()
		see := func(h float64) *kube.View {
			v := view(t, at(h), 1, 0)
			task := &v.Snapshot.Tasks[0]
			task.Kind, task.State, task.Cluster = kind, decide.Waiting, "local"
			if kind != workload.Elastic {
				task.Scaling = nil
			}
			return v
		}
		v := see(0)
		a := decide.Action{Verb: decide.Wait, Reason: decide.Reason{Code: decide.CodeCleanerLater, ImmediateG: units.Emissions(320)}}
		a.Planned, a.Phases = true, []decide.Phase{{From: at(4), To: at(8), Cluster: "local", Workers: 1, Intensity: 100}}
		m.Keep(v, &decide.Decision{Actions: []decide.Action{a}}, m.Prepare(v, "f", 0.05, kube.Context{Now: at(0)}))
		if s := m.Status(v, 0, &a); s.BaselineG != 320 || s.ExpectedG <= 0 {
			t.Fatalf("%v: planned with %v of %v g", kind, s.ExpectedG, s.BaselineG)
		}
		for _, h := range []float64{1, 5, 9} {
			v = see(h)
			v.Snapshot.Clusters[0].Carbon = nil
			due := m.Prepare(v, "", 0.05, kube.Context{Now: at(h)})
			d := decide.RunAll(v.Snapshot, decide.CodeNoCarbonData)
			m.Keep(v, &d, due)
			if s := m.Status(v, 0, &d.Actions[0]); s.Shown.Saves == "100%" || s.BaselineG > 0 && s.ExpectedG == 0 {
				t.Errorf("%v, after %v: %v of %v g, saves %q", kind, time.Duration(h)*time.Hour, s.ExpectedG, s.BaselineG, s.Shown.Saves)
			}
		}
	}
}
