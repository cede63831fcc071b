package demo

import (
	"reflect"
	"testing"
	"time"
)

// TestDemoWorkloadIsAsDocumented: the workload is what the documentation says, for many seeds.
func TestDemoWorkloadIsAsDocumented(t *testing.T) {
	for seed := range uint64(50) {
		specs := generate(64, seed)
		if !reflect.DeepEqual(specs, generate(64, seed)) {
			t.Fatal("equal seeds give different jobs")
		}
		critical, last := 0, time.Duration(0)
		for _, s := range specs {
			if s.arrival < last || s.arrival > arrivalSpan {
				t.Fatalf("seed %d: %s arrives at %v after %v", seed, s.name, s.arrival, last)
			}
			last = s.arrival
			if s.estimate < s.length || s.length < shortestRun || s.cpus < 1 || s.cpus > 6 {
				t.Fatalf("seed %d: %+v", seed, s)
			}
			if s.critical {
				critical++
				if s.slack != 0 {
					t.Fatalf("seed %d: a critical job has slack", seed)
				}
				continue
			}
			if s.slack < leastSlack || s.slack > mostSlack || s.arrival+s.slack+s.estimate > latestEnd {
				t.Fatalf("seed %d: slack %v of %+v", seed, s.slack, s)
			}
			if j := s.job(); (s.chunks > 1) != (j.Spec.Completions != nil) {
				t.Fatalf("seed %d: %d chunks, Job %+v", seed, s.chunks, j.Spec)
			}
		}
		if critical < 8 || critical > 32 {
			t.Errorf("seed %d: %d of 64 jobs are critical, expected about 19", seed, critical)
		}
	}
}
