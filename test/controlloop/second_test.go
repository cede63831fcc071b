package controlloop

import (
	"fmt"
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
// learns of those in team-b eight seconds later, of all or of those to CarbonPolicies or to Jobs; its lists are four seconds old. Neither program takes team-b for empty: its Jobs are not released as
// those of a policy that is gone, and the ledger does not take them for deleted. This fails if a controller takes a forbidden namespace for empty at once (manager.New in the place of NewCertain).
func TestSecondAPIServerLags(t *testing.T) {
	for _, only := range [][]string{nil, {"carbonpolicies"}, {"jobs"}} {
		for name, share := range map[string]float64{"the lagging one answers": 1, "both answer": 0.5} {
			t.Run(fmt.Sprint(name, " ", only), func(t *testing.T) { secondLags(t, share, only) })
		}
	}
}

func secondLags(t *testing.T, share float64, only []string) {
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
		w.Second = &simkube.Second{Share: share, Learns: map[string]time.Time{"team-b": time.Now().Add(8 * time.Second)}, Behind: 4 * time.Second, Only: only}
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

// TestWatchdogOutwaitsLateRights: the controller is dead. A watchdog starts beside an API server that learns of its rights in team-b later: a Job there is
// released by ten seconds after its latest safe start, or after the rights are known, whichever is later.
func TestWatchdogOutwaitsLateRights(t *testing.T) {
	for _, late := range []time.Duration{8 * time.Second, 20 * time.Second, 2 * time.Minute} {
		t.Run(late.String(), func(t *testing.T) {
			inNamespaces(t, []string{"team-a", "team-b"}, func(w *simkube.World, _, _ *bed) {
				other := newBed(w, "team-b", dirtyThenClean(), nil)
				// An hour of the series is a minute: the work of an hour waits for at most three.
				other.submit("b", map[string]string{v1alpha1.AnnotationMaxDelay: "3h"})
				w.Run(3*time.Minute - 10*time.Second)
				learns := time.Now().Add(late)
				w.Second = &simkube.Second{Share: 1, Learns: map[string]time.Time{"team-b": learns}}
				w.Watchdog(quickWatchdog)
				by := time.Now().Add(10 * time.Second) // the latest safe start, or before it
				if learns.After(by) {
					by = learns
				}
				w.Run(time.Until(by) + 10*time.Second)
				if other.suspended("b") {
					t.Errorf("b is held ten seconds after its latest safe start and after the watchdog may list it")
				}
			})
		})
	}
}
