package report

import "testing"

func TestDelay(t *testing.T) {
	for hours, want := range map[float64]string{-7.6: "7.6 h earlier", -0.01: "0.0 h", 0: "0.0 h", 3.14: "3.1 h"} {
		if got := Delay(hours); got != want {
			t.Errorf("Delay(%v) = %q, want %q", hours, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 entries", 1: "1 entry", 2: "2 entries"} {
		if got := Count(n, "entry", "entries"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}
