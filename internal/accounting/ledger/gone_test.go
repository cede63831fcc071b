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
