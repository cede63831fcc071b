package ledger

import (
	"fmt"
	"testing"
	"time"
)

// TestGoneZoneIsForgotten: a zone is deleted. Two months later the settler has forgotten what was settled by its intensities, and these; and it keeps no
// more of other zones for their sake. What was over in the zone when it went is settled, without the intensities that nobody published.
func TestGoneZoneIsForgotten(t *testing.T) {
	b := book{t, fresh(t)}
	days := 0.0
	b.l.clock = func() time.Time { return at(24 * days) }
	publish := func(zone string) {
		for h := range 24 {
			from := 24*days + float64(h)
			b.add(KindIntensity, intensityKey(zone, at(from).Unix(), 0), "", Intensity{Zone: zone, From: at(from), To: at(from + 1), Value: 100, Signal: "average", Factor: "lifecycle"})
		}
	}
	b.offer(0, 100)
	s := NewSettler(b.l)
	const left = 3 // the day on which it is deleted
	now := func(zone string) time.Time {
		if zone == "gone" && days >= left {
			return time.Time{}
		}
		return at(24 * (days + 1))
	}
	settled := 0
	for ; days < 100; days++ {
		publish("z")
		if days < left {
			publish("gone")
			for _, zone := range []string{"z", "gone"} {
				uid := fmt.Sprint(zone, days)
				b.submit(uid, 24*days, func(o *Submitted) { o.Zone, o.Policy = zone, "ns/"+zone })
				last := 2.0
				if zone == "gone" && days == left-1 {
					last = 30 // until after the zone has gone
				}
				b.add(KindStarted, "started/"+uid, uid, Started{Run: uid, At: at(24 * days), Zone: zone, Node: "n", Workers: 1, Watts: 100})
				b.add(KindEnded, "ended/"+uid, uid, Ended{Run: uid, At: at(24*days + last), How: Observed, Succeeded: true})
				b.finished(uid, 24*days+last)
			}
		}
		n, err := s.Settle(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		settled += n
	}
	if settled != 2*left || len(s.works) > 0 {
		t.Errorf("%d workloads are settled, %d are not; want %d, 0", settled, len(s.works), 2*left)
	}
	kept := 24 * (60 + 7 + 2)
	if len(s.past.of) > 0 || len(s.zones["gone"].of) > 0 || len(s.zones["z"].of) > kept {
		t.Errorf("kept are %d workloads, %d hours of the zone that is gone, %d of the other; want 0, 0, at most %d", len(s.past.of), len(s.zones["gone"].of), len(s.zones["z"].of), kept)
	}
}

// TestGoneZoneIsSettledAcrossRestarts: a controller restarts every five days. What is over in a zone that is gone, or that never was there, is settled all the same, without
// the intensities that nobody publishes, and keeps nothing else of its policy from being settled.
func TestGoneZoneIsSettledAcrossRestarts(t *testing.T) {
	b := book{t, fresh(t)}
	days := 0.0
	b.l.clock = func() time.Time { return at(24 * days) }
	publish := func(zone string, hours int) {
		for h := range hours {
			b.add(KindIntensity, intensityKey(zone, at(float64(h)).Unix(), 0), "", Intensity{Zone: zone, From: at(float64(h)), To: at(float64(h + 1)), Value: 100, Signal: "average", Factor: "lifecycle"})
		}
	}
	b.offer(0, 100)
	publish("gone", 48)
	publish("z", 72)
	for i, zone := range []string{"typo", "gone", "z"} {
		from := float64(40 + i)
		b.submit(zone, from, func(o *Submitted) { o.Zone = zone })
		b.add(KindStarted, "started/"+zone, zone, Started{Run: zone, At: at(from), Zone: zone, Node: "n", Workers: 1, Watts: 100})
		b.add(KindEnded, "ended/"+zone, zone, Ended{Run: zone, At: at(from + 20), How: Observed, Succeeded: true})
		b.finished(zone, from+20)
	}
	settled := 0
	for ; days < 120; days += 5 {
		s := NewSettler(b.l)
		for range 2 { // a pass, and one two hours later
			n, err := s.Settle(t.Context(), func(zone string) time.Time {
				if zone == "z" {
					return at(24 * days)
				}
				return time.Time{}
			})
			if err != nil {
				t.Fatal(err)
			}
			settled += n
			days += 1.0 / 12
		}
		days -= 1.0 / 6
		if days == 115 && len(s.works)+len(s.past.of) > 0 {
			t.Errorf("%d workloads wait, and %d are remembered; want 0, 0", len(s.works), len(s.past.of))
		}
	}
	if settled != 3 {
		t.Errorf("%d workloads are settled; want 3", settled)
	}
}

// TestCutHoursAreSettledAnew: an hour of another intensity is cut, by a revision that is shorter, or by a finer intensity within it. What ran in the rest of it has no
// known intensity any more: it is settled anew.
func TestCutHoursAreSettledAnew(t *testing.T) {
	for name, cut := range map[string]struct {
		from, to float64
		revision int
	}{"a shorter revision": {34, 34.5, 1}, "a finer one": {34.25, 34.5, 0}} {
		t.Run(name, func(t *testing.T) {
			b := book{t, fresh(t)}
			now := 60.0
			b.l.clock = func() time.Time { return at(now) }
			intensity := func(from, to, value float64, revision int) {
				b.add(KindIntensity, intensityKey("z", at(from).Unix(), revision), "", Intensity{Zone: "z", From: at(from), To: at(to), Value: value, Revision: revision, Signal: "average", Factor: "lifecycle"})
			}
			b.offer(0, 100)
			for h := range 60 {
				value := 100.0
				if h == 34 {
					value = 500
				}
				intensity(float64(h), float64(h+1), value, 0)
			}
			b.submit("u", 34.6, func(o *Submitted) { o.Zone = "z" })
			b.add(KindStarted, "started/u", "u", Started{Run: "u", At: at(34.6), Zone: "z", Node: "n", Workers: 1, Watts: 100})
			b.add(KindEnded, "ended/u", "u", Ended{Run: "u", At: at(34.9), How: Observed, Succeeded: true})
			b.finished("u", 34.9)
			s := NewSettler(b.l)
			zone := func(string) time.Time { return at(now) }
			if n, err := s.Settle(t.Context(), zone); err != nil || n != 1 {
				t.Fatalf("%d are settled, %v; want 1", n, err)
			}
			intensity(cut.from, cut.to, 500, cut.revision)
			if n, err := s.Settle(t.Context(), zone); err != nil || n != 1 {
				t.Errorf("%d are settled anew, %v; want 1", n, err)
			}
		})
	}
}
