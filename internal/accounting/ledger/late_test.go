package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

func (s *scene) intensities() string {
	s.t.Helper()
	var out []string
	for e, err := range s.l.Read(s.t.Context(), Query{Kind: KindIntensity}) {
		if err != nil {
			s.t.Fatal(err)
		}
		b, err := bodyOf[Intensity](&e)
		if err != nil {
			s.t.Fatal(err)
		}
		text := fmt.Sprintf("%g:%g/%d", b.From.Sub(day).Hours(), b.Value, b.Revision)
		if b.Estimated {
			text += "e"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// TestLateIntensitiesAreRecorded: what is published or becomes final when the outlook does not show it any more is noted all the
// same, once, as the next revision; also by another recorder than the one that noted it first.
func TestLateIntensitiesAreRecorded(t *testing.T) {
	s := newScene(t)
	s.l.clock = func() time.Time { return at(-400) }
	b := book{t, s.l}
	of := &carbon.Provenance{Zone: "DE", Signal: carbon.Average, Factor: carbon.Lifecycle, Basis: carbon.Measured}
	late := func(hour, value float64) carbon.Sample {
		return carbon.Sample{From: at(hour), To: at(hour + 1), Value: units.CarbonIntensity(value), Of: of}
	}
	b.add(KindIntensity, intensityKey("z", at(-300).Unix(), 0), "", Intensity{Zone: "z", From: at(-300), To: at(-299), Value: 500, Estimated: true})
	b.add(KindIntensity, intensityKey("z", at(-299).Unix(), 0), "", Intensity{Zone: "z", From: at(-299), To: at(-298), Value: 500, Estimated: true})
	before := s.intensities()
	s.earlier = []carbon.Sample{late(-300, 400), late(-299, 500), late(-298, 600)}
	s.look(1.5)
	s.look(1.6)
	s.look(1.7)
	want := before + " 0:300/0 -300:400/1 -299:500/1 -298:600/0"
	if got := s.intensities(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s.look(1.8)
	s.r = NewRecorder(s.l)
	for _, hour := range []float64{1.9, 2, 2.1} {
		s.look(hour)
	}
	s.earlier = []carbon.Sample{late(-300, 410)}
	s.look(2.2)
	s.look(2.3)
	if got := s.intensities(); got != want+" -300:410/2" {
		t.Errorf("%s, want %s and -300:410/2", got, want)
	}
}

// TestLateAfterAnOutage: a value that became final while no recorder ran is noted, however long ago that was. What lies before
// the ledger begins is not: nothing rests on it.
func TestLateAfterAnOutage(t *testing.T) {
	s := newScene(t)
	s.l.clock = func() time.Time { return at(-1000) }
	b := book{t, s.l}
	of := &carbon.Provenance{Zone: "DE", Signal: carbon.Average, Factor: carbon.Lifecycle, Basis: carbon.Measured}
	b.add(KindIntensity, intensityKey("z", at(-900).Unix(), 0), "", Intensity{Zone: "z", From: at(-900), To: at(-899), Value: 500, Estimated: true})
	for hour := -2000.0; hour < 0; hour++ {
		s.earlier = append(s.earlier, carbon.Sample{From: at(hour), To: at(hour + 1), Value: 400, Of: of})
	}
	for _, hour := range []float64{1.1, 1.2, 1.3} {
		s.look(hour)
	}
	list := strings.Fields(s.intensities())
	if !slices.Contains(list, "-900:400/1") || !slices.Contains(list, "-899:400/0") {
		t.Errorf("the final values of an outage are not noted: %d entries", len(list))
	}
	if want := 2 + 1000 + int(carbon.FillReach.Hours()) + 1; len(list) != want { // the hour that ends when the ledger begins counts
		t.Errorf("%d entries, want %d: none before the ledger begins", len(list), want)
	}
	s.look(1.4)
	if again := strings.Fields(s.intensities()); len(again) != len(list) {
		t.Errorf("%d entries are written again", len(again)-len(list))
	}
}

// TestOutlookReachesBackToWhatIsSettled: an outlook goes back as far as what is settled again may rest on.
func TestOutlookReachesBackToWhatIsSettled(t *testing.T) {
	if source.EarlierReach < remembered+carbon.FillReach {
		t.Errorf("an outlook goes back %v, and what ended %v ago is settled again by values of %v before", source.EarlierReach, remembered, carbon.FillReach)
	}
}

// TestFinerIntensitiesAreSettledAgain: an hour that is published by the quarter later is settled again, whichever quarters differ.
func TestFinerIntensitiesAreSettledAgain(t *testing.T) {
	b := book{t, fresh(t)}
	s := NewSettler(b.l)
	b.offer(0, 1)
	b.submit("a", 6)
	b.ran("a", "a-1", 6, 7)
	b.finished("a", 7)
	b.hours(0, 100, 100, 100, 100, 100, 100, 100, 100)
	b.settle(s, 8, 1)
	if x := b.settled()["a"]; !near(x.Grams, 10) {
		t.Fatalf("%+v", x)
	}
	for i := range 3 {
		hour := 6.25 + float64(i)/4
		b.add(KindIntensity, fmt.Sprintf("finer/%d", i), "", Intensity{Zone: "z", From: at(hour), To: at(hour + 0.25), Value: 200, Signal: "average", Factor: "lifecycle"})
	}
	b.settle(s, 9, 1)
	if x := b.settled()["a"]; !near(x.Grams, 17.5) || x.Revision != 1 || x.Why != "finer intensities of z" {
		t.Errorf("%+v", x)
	}
	b.settle(NewSettler(b.l), 9, 0)
}

// TestCoarserIntensitiesAreSettled: what was published by the half hour, and then by the hour, is noted for each half.
func TestCoarserIntensitiesAreSettled(t *testing.T) {
	s := newScene(t)
	s.l.clock = func() time.Time { return at(-400) }
	b := book{t, s.l}
	b.add(KindIntensity, intensityKey("z", at(-400).Unix(), 0), "", Intensity{Zone: "z", From: at(-400), To: at(-399), Value: 5})
	of := &carbon.Provenance{Zone: "DE", Signal: carbon.Average, Factor: carbon.Lifecycle, Basis: carbon.Measured}
	late := func(from, to, value float64) carbon.Sample {
		return carbon.Sample{From: at(from), To: at(to), Value: units.CarbonIntensity(value), Of: of}
	}
	s.earlier = []carbon.Sample{late(-300, -299.5, 1), late(-299.5, -299, 3)}
	for _, hour := range []float64{1.1, 1.2, 1.3} {
		s.look(hour)
	}
	s.earlier = []carbon.Sample{late(-300, -299, 2)}
	s.look(1.4)
	s.look(1.5)
	want := "-400:5/0 0:300/0 -300:1/0 -299.5:3/0 -300:2/1 -299.5:2/1"
	if got := s.intensities(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// A recorder that has begun since knows of the halves by the ledger.
	s.r = NewRecorder(s.l)
	s.earlier = []carbon.Sample{late(-300, -299, 4)}
	for _, hour := range []float64{1.6, 1.7, 1.8} {
		s.look(hour)
	}
	want += " -300:4/2 -299.5:4/2"
	if got := s.intensities(); got != want {
		t.Errorf("after a restart: %s, want %s", got, want)
	}
}
