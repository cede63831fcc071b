package carbon

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRowsAreReadAsSteps: rows are minutes since midnight, written as from-to/step or as single minutes;
// want is for how many minutes each is valid, n*minutes for n equal ones.
func TestRowsAreReadAsSteps(t *testing.T) {
	for name, tc := range map[string]struct{ rows, want string }{
		"none":                              {"", ""},
		"a single row":                      {"0", "1*60"},
		"hourly":                            {"0-600/60", "11*60"},
		"hourly, then quarter-hourly":       {"0-600/60 615-720/15", "10*60 9*15"},
		"quarter-hourly, then hourly":       {"0-120/15 180-600/60", "8*15 9*60"},
		"two rows of a coarser end":         {"0-120/5 150 180", "24*5 3*30"},
		"5 minutes, then 30 at the far end": {"0-120/5 150-600/30", "24*5 17*30"},
		"5, 30 and 60 minutes":              {"0-120/5 150-240/30 300-480/60", "24*5 4*30 5*60"},
		"a coarse stretch":                  {"0-120/15 180-480/60 495-600/15", "8*15 6*60 9*15"},
		"a fine stretch":                    {"0-240/60 255-300/15 360-600/60", "4*60 4*15 6*60"},
		"a missing row":                     {"0-180/60 300-600/60", "10*60"},
		"several missing rows":              {"0-180/60 540-780/60", "9*60"},
		"missing rows here and there":       {"0-180/60 300 420-540/60 720-900/60", "12*60"},
		"every fifth missing":               {"0-180/60 300-480/60 600-780/60 900-1080/60", "16*60"},
		"three quarters missing":            {"0-120/15 180-300/15", "18*15"},
		"a missing row near the end":        {"0-180/60 300", "5*60"},
		"a gap at the change":               {"0-300/60 480-600/15", "6*60 9*15"},
		"a stray row":                       {"0-120/60 150 180 240", "2*60 2*30 2*60"},
		"a stray row, then a gap":           {"0-180/60 190 480-600/60", "3*60 1*10 4*60"},
		"a stray row in an outage":          {"0-180/15 247 300-480/15", "27*15"},
		"the last row at the change":        {"0-300/60 315", "5*60 1*15 1*60"},
		"two rows after the change":         {"0-300/60 315 330", "5*60 3*15"},
		"days, clocks go forward":           {"0-4320/1440 5700 7140 8580", "3*1440 1*1380 3*1440"},
		"days, clocks go back":              {"0-4320/1440 5820 7260 8700", "3*1440 1*1500 3*1440"},
		"hours with a missing one":          {"0 60 120 240 300 360", "6*60"},
		"half hours with gaps":              {"0 30 120 150 300", "5*30"},
		"as many of each":                   {"0 30 90", "3*30"},
	} {
		var starts []time.Time
		for _, part := range strings.Fields(tc.rows) {
			from, to, step := 0, 0, 1
			if n, _ := fmt.Sscanf(part, "%d-%d/%d", &from, &to, &step); n == 1 {
				to = from
			}
			for ; from <= to; from += step {
				starts = append(starts, t0.Add(time.Duration(from)*time.Minute))
			}
		}
		var want, got []string
		for _, part := range strings.Fields(tc.want) {
			n, minutes := 0, 0
			if _, err := fmt.Sscanf(part, "%d*%d", &n, &minutes); err != nil {
				t.Fatal(err)
			}
			for range n {
				want = append(want, fmt.Sprint(minutes))
			}
		}
		for _, step := range Steps(starts, time.Hour) {
			got = append(got, fmt.Sprint(step.Minutes()))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, want)
		}
	}
}
