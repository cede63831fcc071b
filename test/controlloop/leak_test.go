package controlloop

import (
	"testing"
	"time"

	"lull.dev/lull/test/simkube"
)

// A program that ends before it leads, or while it starts, leaves nothing running: the world fails otherwise.

func TestEndBeforeLeading(t *testing.T) {
	simkube.Test(t, 1, func(w *simkube.World) {
		w.Leaders = true
		w.Controller()
		w.Watchdog()
		w.Run(time.Minute)
		controller, watchdog := w.Controller(), w.Watchdog() // on standby
		w.Run(time.Minute)
		controller.Kill()
		watchdog.Kill()
	})
}

func TestEndWhileStarting(t *testing.T) {
	for _, after := range []time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			simkube.Test(t, 1, func(w *simkube.World) {
				controller, watchdog := w.Controller(), w.Watchdog()
				w.Run(after)
				controller.Kill()
				watchdog.Kill()
			})
		})
	}
}

func TestStartInAnOutage(t *testing.T) {
	simkube.Test(t, 1, func(w *simkube.World) {
		w.Outage(simkube.Span{To: time.Hour})
		w.Controller().Wait()
		watchdog := w.Watchdog()
		w.Run(time.Minute)
		watchdog.Kill()
	})
}
