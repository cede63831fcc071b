package forecast

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// TestBacktestNamesGaps: where no stretch of the truth is whole, the error says so, not
// that the history is short.
func TestBacktestNamesGaps(t *testing.T) {
	h := History{Start: time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC), Step: time.Hour}
	for i := range 24 * 60 {
		v := 100 + float64(i%24)
		if i%24 == 3 {
			v = math.NaN()
		}
		h.Values = append(h.Values, v)
	}
	_, err := Backtest(SeasonalNaive{Days: 1}, h, 24*14, 96, 24, 24)
	if !errors.Is(err, ErrGaps) || errors.Is(err, ErrHistory) {
		t.Fatalf("error %v, want ErrGaps", err)
	}
	for _, part := range []string{"2023-01-15T03:00:00Z", "96", "43 forecasts"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
	if _, err := Backtest(SeasonalNaive{Days: 1}, h, 24*14, 12, 24, 6); err == nil {
		t.Error("forecasts from midnight on run into 3 o'clock as well")
	}
	if s, err := Backtest(SeasonalNaive{Days: 1}, h, 24*14+4, 12, 24, 6); err != nil || s.Forecasts == 0 {
		t.Errorf("forecasts that fit between the gaps: %v", err)
	}
}
