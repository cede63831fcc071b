package trace_test

import (
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/trace"
)

// lines joins lines of a log, each filled up to the 18 columns of SWF.
func lines(list ...string) string {
	var b strings.Builder
	for _, line := range list {
		b.WriteString(line + strings.Repeat(" -1", 18-len(strings.Fields(line))) + "\n")
	}
	return b.String()
}

// TestSWFStatus: SWF 2.2 gives a job that was swapped out a summary line (status 0 or 1) and a line for each burst
// (status 2, 3, 4) of the same number, of which only the first has a submit time. The work counts once.
func TestSWFStatus(t *testing.T) {
	type job struct {
		id      string
		arrival time.Duration
		length  time.Duration
		cpus    float64
	}
	for name, tc := range map[string]struct {
		text    string
		want    []job
		skipped string
		notes   []string
	}{
		"a summary and its bursts": {
			lines("1 0 10 3600 4 -1 -1 4 7200 -1 1", "2 60 0 7200 8 -1 -1 8 7200 -1 1", "2 60 0 3600 8 -1 -1 -1 -1 -1 2", "2 -1 600 3600 8 -1 -1 -1 -1 -1 3", "3 120 5 60 4 -1 -1 4 3600 -1 1"),
			[]job{{"1", 0, time.Hour, 4}, {"2", time.Minute, 2 * time.Hour, 8}, {"3", 2 * time.Minute, time.Minute, 4}},
			"2 with status 2, 3 or 4: bursts of a job whose summary line counts", nil,
		},
		"a summary after its bursts": {
			lines("2 60 0 3600 8 -1 -1 -1 -1 -1 2", "2 -1 600 3600 8 -1 -1 -1 -1 -1 4", "2 60 0 7200 8 -1 -1 8 7200 -1 0", "3 120 5 60 4 -1 -1 4 3600 -1 1"),
			[]job{{"2", 0, 2 * time.Hour, 8}, {"3", time.Minute, time.Minute, 4}},
			"2 with status 2, 3 or 4: bursts of a job whose summary line counts", []string{"1 job failed (status 0); the time that it ran counts"},
		},
		"bursts without a summary": {
			lines("2 60 0 3600 8 -1 -1 -1 7200 -1 2", "2 -1 600 1800 8 -1 -1 -1 -1 -1 2", "2 -1 600 -1 8 -1 -1 -1 -1 -1 2", "2 -1 600 1800 8 -1 -1 -1 -1 -1 4", "3 120 5 60 4 -1 -1 4 3600 -1 1", "4 180 0 60 8 -1 -1 -1 7200 -1 3"),
			[]job{{"2", 0, 2 * time.Hour, 8}, {"3", time.Minute, time.Minute, 4}, {"4", 2 * time.Minute, time.Minute, 8}},
			"", []string{"1 job failed (status 4); the time that it ran counts"},
		},
		"bursts between others": {
			lines("2 60 0 -1 8 -1 -1 -1 7200 -1 2", "3 120 5 60 4 -1 -1 4 3600 -1 1", "2 -1 600 1800 8 -1 -1 -1 -1 -1 2", "4 180 5 60 4 -1 -1 4 3600 -1 1", "2 -1 600 1800 8 -1 -1 -1 -1 -1 3", "4 -1 0 10 4 -1 -1 -1 -1 -1 2", "5 180 0 -1 4 -1 -1 -1 -1 -1 2"),
			[]job{{"2", 0, time.Hour, 8}, {"3", time.Minute, time.Minute, 4}, {"4", 2 * time.Minute, time.Minute, 4}},
			"1 with no run time, 1 with status 2, 3 or 4: bursts of a job whose summary line counts", nil,
		},
		"failed and cancelled": {
			lines("1 0 10 -1 4 -1 -1 4 7200 -1 5", "2 60 0 30 8 -1 -1 8 7200 -1 5", "3 60 0 30 8 -1 -1 8 7200 -1 5", "4 60 0 30 8 -1 -1 8 7200 -1 0", "5 60 0 30 8 -1 -1 8 7200 -1 -1"),
			[]job{{"2", 0, 30 * time.Second, 8}, {"3", 0, 30 * time.Second, 8}, {"4", 0, 30 * time.Second, 8}, {"5", 0, 30 * time.Second, 8}},
			"1 with no run time", []string{"1 job failed (status 0); the time that it ran counts", "2 jobs were cancelled (status 5); the time that they ran counts"},
		},
		"no submit time": {
			lines("1 -1 10 60 4 -1 -1 4 7200 -1 1", "2 60 0 30 8 -1 -1 8 7200 -1 1"),
			[]job{{"2", 0, 30 * time.Second, 8}}, "1 with no submit time", nil,
		},
		"a number again: requeued": {
			lines("1 0 10 60 4 -1 -1 4 7200 -1 0", "2 60 0 30 8 -1 -1 8 7200 -1 1", "1 60 0 120 4 -1 -1 4 7200 -1 1"),
			[]job{{"1", 0, time.Minute, 4}, {"2", time.Minute, 30 * time.Second, 8}, {"1 (line 3)", time.Minute, 2 * time.Minute, 4}},
			"", []string{"1 job failed (status 0); the time that it ran counts"},
		},
	} {
		for format, read := range map[string]func(string) (*trace.Trace, error){
			"SWF": func(text string) (*trace.Trace, error) { return trace.ReadSWF(strings.NewReader(text)) },
			"GWF": func(text string) (*trace.Trace, error) { return trace.ReadGWF(strings.NewReader(text)) },
		} {
			tr, err := read(tc.text)
			if err != nil {
				t.Errorf("%s, %s: %v", name, format, err)
				continue
			}
			var got []job
			for _, j := range tr.Jobs {
				got = append(got, job{j.ID, j.Arrival, j.Length, j.Request[trace.CPU]})
			}
			if len(got) != len(tc.want) {
				t.Errorf("%s, %s: %+v, want %+v", name, format, got, tc.want)
				continue
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Errorf("%s, %s: %+v, want %+v", name, format, got[i], tc.want[i])
				}
			}
			if tr.Skipped.String() != tc.skipped || strings.Join(tr.Notes, "|") != strings.Join(tc.notes, "|") {
				t.Errorf("%s, %s: skipped %q, want %q; notes %q, want %q", name, format, tr.Skipped, tc.skipped, tr.Notes, tc.notes)
			}
		}
	}
	if _, err := trace.ReadSWF(strings.NewReader(lines("1 0 10 60 4 -1 -1 4 7200 -1 x"))); err == nil || !strings.Contains(err.Error(), `line 1: column status: "x"`) {
		t.Errorf("a status that is no number: %v", err)
	}
}
