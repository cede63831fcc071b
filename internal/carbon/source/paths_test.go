package source

import (
	"math"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fakegrid"
	"lull.dev/lull/pkg/carbon"
)

// TestOutlookHasPaths: after two weeks an outlook has paths of the provider's forecast, also after a restart, and while the provider
// is away those of the own forecast. What was measured six hours long lies between the outer paths most times.
func TestOutlookHasPaths(t *testing.T) {
	w := newWorld(t)
	o := w.hours(48)
	if o.Basis != carbon.LiveForecast || o.Paths.Len() != 0 {
		t.Errorf("after two days: %s, %d paths, want none", o.Basis, o.Paths.Len())
	}
	w.pass(16 * 24)
	inside, n := 0, 0
	for range 20 {
		o = w.hours(6)
		if o.Basis != carbon.LiveForecast || o.Paths.Len() < pathsNeeded {
			t.Fatalf("after two weeks: %s, %d paths", o.Basis, o.Paths.Len())
		}
		from := w.at.Add(12 * time.Hour)
		to := from.Add(6 * time.Hour)
		if !o.Paths.Covers(w.at, to) {
			t.Fatalf("the paths do not cover %v to %v", w.at, to)
		}
		came, known := w.truth.Mean(from, to)
		low, high := math.Inf(1), 0.0
		for p := range o.Paths.Len() {
			v := float64(o.Paths.Mean(p, from, to))
			low, high = min(low, v), max(high, v)
		}
		if n++; known == 6*time.Hour && float64(came) >= low && float64(came) <= high {
			inside++
		}
	}
	if inside < n*6/10 {
		t.Errorf("%d of %d measured means lie between the paths", inside, n)
	}
	paths := o.Paths.Len()
	w.restart()
	if o = w.hours(1); o.Paths.Len() < paths-1 {
		t.Errorf("after a restart: %d paths, before %d", o.Paths.Len(), paths)
	}
	w.fault(fakegrid.Fault{Kind: fakegrid.FaultError})
	if o = w.hours(80); o.Basis != carbon.OwnForecast || o.Paths.Len() == 0 {
		t.Errorf("without the provider: %s, %d paths", o.Basis, o.Paths.Len())
	}
}

// TestPathsFollowPastErrors: a path is the forecast of now times what came over what was forecast on an earlier day.
func TestPathsFollowPastErrors(t *testing.T) {
	nan := math.NaN()
	for _, x := range []struct {
		name                 string
		forecast, then, came []float64
		want                 []float64
	}{
		{"ratios", []float64{100, 200}, []float64{50, 400}, []float64{75, 200}, []float64{150, 100}},
		{"came is zero", []float64{100, 200}, []float64{50, 400}, []float64{0, 400}, []float64{0, 200}},
		{"forecast of zero then", []float64{100}, []float64{0}, []float64{10}, nil},
		{"not known what came", []float64{100, 200}, []float64{50, 400}, []float64{75, nan}, nil},
		{"not forecast then", []float64{100, 200}, []float64{nan, 400}, []float64{75, 200}, nil},
	} {
		got := followed(x.forecast, x.then, x.came)
		if len(got) != len(x.want) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
			continue
		}
		for k := range got {
			if math.Abs(got[k]-x.want[k]) > 1e-9 {
				t.Errorf("%s: %v, want %v", x.name, got, x.want)
			}
		}
	}
	at := time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)
	for hours, want := range map[int]bool{0: true, -24: true, -23: true, -21: true, -20: false, -27: true, -28: false, -36: false} {
		if got := sameHour(at.Add(time.Duration(hours)*time.Hour), at); got != want {
			t.Errorf("%d hours before: %v, want %v", -hours, got, want)
		}
	}
}
