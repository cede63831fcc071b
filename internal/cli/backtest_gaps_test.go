package cli

import (
	"strings"
	"testing"
)

// TestBacktestNamesGaps: a file with a gap in each day is said to have gaps, once.
func TestBacktestNamesGaps(t *testing.T) {
	dir := files(t, map[string]string{"c.csv": hoursOf(24*60, func(h int) bool { return h%24 != 3 })})
	out := failure(t, "forecast", "backtest", dir+"/c.csv")
	if !strings.Contains(out, "gaps") || !strings.Contains(out, "2023-01-15T03:00:00Z") || strings.Contains(out, "too short") || strings.Count(out, "backtest:") != 1 {
		t.Errorf("%s", out)
	}
}
