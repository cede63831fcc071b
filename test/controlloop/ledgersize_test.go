package controlloop

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/test/simkube"
)

// TestLedgerFewerPartsThanWorkers: a Job that asks for 40 workers and has two parts never runs more than two pods: it
// would have run as long, and saves as much, as one that asks for two.
func TestLedgerFewerPartsThanWorkers(t *testing.T) {
	database := filepath.Join(t.TempDir(), "ledger.db")
	onBed(t, []float64{500, 400, 300, 200, 100, 100, 300, 400}, nil, func(b *bed) {
		c := b.Controller(func(o *controller.Options) { o.Ledger = database })
		two := int32(2)
		for name, workers := range map[string]int32{"wide": 40, "narrow": 2} {
			j := b.job(name, map[string]string{v1alpha1.AnnotationRuntime: "2h", v1alpha1.AnnotationMaxDelay: "8h"})
			j.Spec.Parallelism, j.Spec.Completions = &workers, &two
			j.Spec.Template.Annotations[simkube.RunTime] = "2h"
			b.Create(j)
		}
		b.Until("both to finish", func() bool { return b.finished("wide", "narrow") })
		settled := func() []string {
			return slices.Collect(strings.Lines(lull(t, "ledger", "export", "--database", database, "--format", "json")))
		}
		for range 60 {
			if len(settled()) == 2 {
				break
			}
			b.Run(time.Minute)
		}
		c.Kill()
		type line struct {
			Name                             string
			Runs                             int
			AsSubmittedStart, AsSubmittedEnd time.Time
			SavedGCO2eq, AsSubmittedGCO2eq   float64
		}
		by := map[string]line{}
		for _, text := range settled() {
			var x line
			b.must(json.Unmarshal([]byte(text), &x))
			by[x.Name] = x
		}
		wide, narrow := by["wide"], by["narrow"]
		length := func(x line) time.Duration { return x.AsSubmittedEnd.Sub(x.AsSubmittedStart) }
		if wide.Runs != 2 || narrow.Runs != 2 || length(wide) < 110*time.Minute || (length(wide)-length(narrow)).Abs() > 10*time.Minute {
			t.Errorf("as submitted wide takes %v and narrow %v, want about 2h: %+v, %+v", length(wide), length(narrow), wide, narrow)
		}
		if narrow.SavedGCO2eq <= 0 || wide.SavedGCO2eq > 1.1*narrow.SavedGCO2eq || wide.SavedGCO2eq < 0.9*narrow.SavedGCO2eq {
			t.Errorf("wide saved %v g, narrow %v g; want the same", wide.SavedGCO2eq, narrow.SavedGCO2eq)
		}
	})
}
