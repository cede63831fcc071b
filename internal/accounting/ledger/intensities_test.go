package ledger

import (
	"path/filepath"
	"testing"
	"time"
)

// TestIntensitiesAreThoseOfTheZoneInTheirLastRevision: of the asked time only, in their order, without those of other zones.
func TestIntensitiesAreThoseOfTheZoneInTheirLastRevision(t *testing.T) {
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var list []New
	note := func(zone string, minutes, step, revision int, value float64) {
		from := start.Add(time.Duration(minutes) * time.Minute)
		b := Intensity{Zone: zone, From: from, To: from.Add(time.Duration(step) * time.Minute), Value: value, Revision: revision}
		list = append(list, New{Kind: KindIntensity, Key: intensityKey(zone, from.Unix(), revision), Body: b})
	}
	for hour := range 48 {
		note("de", 60*hour, 60, 0, float64(100+hour))
	}
	note("fr", 60, 60, 0, 40)
	note("de", 120, 60, 1, 90)
	note("de", 150, 30, 0, 95)
	if _, err := l.Append(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	got, err := l.Intensities(t.Context(), "de", start.Add(time.Hour), start.Add(4*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var values []float64
	for i := range got {
		values = append(values, got[i].Value)
	}
	if len(values) != 4 || values[0] != 101 || values[1] != 90 || values[2] != 95 || values[3] != 103 {
		t.Errorf("values %v, want 101, 90 (revised), 95 (of half an hour) and 103", values)
	}
	if late, err := l.Intensities(t.Context(), "de", start, start.Add(MostIntensities+24*time.Hour)); err != nil || len(late) != 24 {
		t.Errorf("of more than %v: %d values, %v; want the 24 of the second day", MostIntensities, len(late), err)
	}
}
