package ledger

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkRestatePass runs a pass of the settler after two zones have published an hour each. Beside them are settled workloads with an hour of unknown intensity, in one of
// the zones. The value of the day before stands in for it.
func BenchmarkRestatePass(b *testing.B) {
	for _, workloads := range []int{1000, 24_000} {
		b.Run(fmt.Sprintf("incomplete=%d", workloads), func(b *testing.B) {
			l := fresh(b)
			now := time.Now().UTC().Truncate(time.Hour)
			fillSettled(b, l, 10*workloads, now, func(s *Settled) { s.FilledSeconds, s.After, s.Zones = 3600, int64(10*workloads), []string{"z"} })
			hour := func(zone string, from time.Time) New {
				return New{KindIntensity, intensityKey(zone, from.Unix(), 0), "", Intensity{Zone: zone, From: from, To: from.Add(time.Hour), Value: 100}}
			}
			appendTo(b, l, hour("z", now.Add(-26*time.Hour)))
			s := NewSettler(l)
			next, clock := now, func(string) time.Time { return now.Add(24 * time.Hour) }
			if _, err := s.Settle(context.Background(), clock); err != nil {
				b.Fatal(err)
			}
			rows := l.rows.Load()
			for b.Loop() {
				b.StopTimer()
				appendTo(b, l, hour("z", next), hour("other", next))
				next = next.Add(time.Hour)
				b.StartTimer()
				if _, err := s.Settle(context.Background(), clock); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(l.rows.Load()-rows)/float64(b.N), "rows/pass")
		})
	}
}
