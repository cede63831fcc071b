package controlloop

import (
	"os"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
)

// TestWatchdogReleasesForADeadController is the example of CONTRIBUTING.md: nobody but the watchdog releases what a dead controller held.
func TestWatchdogReleasesForADeadController(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) { // 500 g/kWh until 08:00, then 100
		controller := b.Controller()
		b.Watchdog(quickWatchdog)
		b.submit("job", map[string]string{v1alpha1.AnnotationMaxDelay: "4h"})
		b.submit("long", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		b.untilDecided("long", "CleanerLater")
		controller.Kill()
		b.Always(time.Second, func() error { // in every second of the simulated time
			if b.gridTime(time.Now()).Before(at(20)) {
				return nil
			}
			return b.neverSuspended("long") // its latest start is 20:00, less the margin of the policy
		})
		b.Until("both Jobs to finish", func() bool { return b.finished("job", "long") })
		b.starts("job", 0) // at once: it may wait until 04:00, and power is dirty until 08:00
		if reason := b.decision("long"); reason != "Failsafe" {
			t.Errorf("released for %q", reason)
		}
	})
}

// TestContributingShowsATest: the example of CONTRIBUTING.md is the test above.
func TestContributingShowsATest(t *testing.T) {
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("contributing_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(source), "\nfunc TestWatchdogReleasesForADeadController")
	text, _, _ = strings.Cut(text, "\n}\n")
	if !strings.Contains(string(page), "func TestWatchdogReleasesForADeadController"+text+"\n}\n") {
		t.Error("the example of CONTRIBUTING.md is not TestWatchdogReleasesForADeadController of test/controlloop/contributing_test.go; copy it")
	}
}
