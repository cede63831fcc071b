package controlloop

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/internal/engine/failsafe"
	"lull.dev/lull/test/simkube"
)

// TestSecondAPIServerLags: a controller and a watchdog start beside a controlplane of two API servers. The one that answers them knows the rights in team-a, and
// learns of those in team-b eight seconds later; its lists are four seconds old. Neither program takes team-b for empty: its Jobs are not released as
// those of a policy that is gone, and the ledger does not take them for deleted. Other checks suffice for that: this test also passes if a controller takes
// a forbidden namespace for empty at once. manager.TestRightThatComesLate tests that it does not.
func TestSecondAPIServerLags(t *testing.T) {
	for name, share := range map[string]float64{"the lagging one answers": 1, "both answer": 0.5} {
		t.Run(name, func(t *testing.T) { secondLags(t, share) })
	}
}

func secondLags(t *testing.T, share float64) {
	database := filepath.Join(t.TempDir(), "ledger.db")
	inNamespaces(t, []string{"team-a", "team-b"}, func(w *simkube.World, in, _ *bed) {
		other := newBed(w, "team-b", dirtyThenClean(), nil)
		start := func() (c, d *simkube.Program) {
			return w.Controller(func(o *controller.Options) { o.Ledger = database }), w.Watchdog(func(o *failsafe.Options) { o.Every = 200 * time.Millisecond })
		}
		c, d := start()
		in.submit("a", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		other.submit("b", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		in.untilDecided("a", "CleanerLater")
		other.untilDecided("b", "CleanerLater")
		w.Run(10 * time.Second)
		c.Kill()
		d.Kill()
		w.Second = &simkube.Second{Share: share, Learns: map[string]time.Time{"team-b": time.Now().Add(8 * time.Second)}, Behind: 4 * time.Second}
		// Jobs that the older lists do not have yet.
		in.submit("late", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		start()
		w.Until("all to end", func() bool { return in.finished("a", "late") && other.finished("b") })
		in.starts("a", 8)
		in.starts("late", 8)
		other.starts("b", 8)
		if reason := other.decision("b"); reason == "Failsafe" || reason == "PolicyGone" {
			t.Errorf("b was released for %s", reason)
		}
		for _, p := range []*bed{in, other} {
			if events := p.events("b") + p.events("a"); strings.Contains(events, "gone") {
				t.Error(events)
			}
		}
		w.Run(time.Minute)
		if text := lull(t, "ledger", "export", "--database", database, "--entries"); strings.Contains(text, `"how":"gone"`) || strings.Contains(text, `"how":"inferred"`) {
			t.Errorf("the ledger takes a Job for deleted:\n%s", text)
		}
	})
}
