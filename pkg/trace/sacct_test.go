package trace_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/trace"
)

const saHead = "JobID|User|Submit|Eligible|End|TimelimitRaw|ElapsedRaw|NCPUS|AllocTRES|State\n"

func readSacct(t *testing.T, text string) *trace.Trace {
	t.Helper()
	tr, err := trace.ReadSacct(strings.NewReader(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestSacct checks what becomes of each kind of row: jobs count in the order in which they became eligible, steps and what
// never ran or has not ended do not.
func TestSacct(t *testing.T) {
	tr := readSacct(t, "\ufeff"+saHead+
		"101|ada|2026-03-01T10:00:00|2026-03-01T12:00:00|2026-03-01T14:00:00|240|7200|8|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1|COMPLETED\r\n"+
		"101.batch||2026-03-01T13:00:00|2026-03-01T13:00:00|2026-03-01T14:00:00||7200|8|cpu=8,mem=64G,node=1|COMPLETED\n"+
		"101.0||2026-03-01T13:00:00|2026-03-01T13:00:00|2026-03-01T14:00:00||60|8|cpu=8|COMPLETED\n"+
		"102_3|bob|2026-03-01T11:00:00|2026-03-01T11:00:00|2026-03-01T12:00:00|UNLIMITED|1800|4|cpu=4,mem=512M|CANCELLED by 1000\n"+
		"102_[4-9%2]|bob|2026-03-01T11:00:00|Unknown|Unknown|60|0|4||PENDING\n"+
		"103+1|eve|2026-03-01T09:00:00|2026-03-01T09:00:00|2026-03-01T09:30:00|Partition_Limit|600|2|cpu=2,gres/gpu:h100=1,gres/gpu:a100=3|TIMEOUT\n"+
		"104|eve|2026-03-01T09:00:00|Unknown|2026-03-01T09:30:00|60|0|2||CANCELLED\n"+
		"105|eve|2026-03-01T09:00:00|2026-03-01T09:00:00|Unknown|60|3000|2|cpu=2|RUNNING\n"+
		"106|eve|Unknown|Unknown|2026-03-01T09:30:00|60|30|2|cpu=2|FAILED\n"+
		"107|eve|2026-03-01T09:00:00|2026-03-01T09:00:00|2026-03-01T09:30:00|60|30|0||FAILED\n"+
		"108|eve|2026-03-01T09:00:00|2026-03-01T09:00:00|None|60|30|1||NODE_FAIL\n")
	want := []struct {
		id              string
		at, long, limit time.Duration
		cpus, gpus, giB float64
		class           string
	}{
		{"103+1", 0, 10 * time.Minute, 0, 2, 4, 0, "eve"},
		{"102_3", 2 * time.Hour, 30 * time.Minute, 0, 4, 0, 0.5, "bob"},
		{"101", 3 * time.Hour, 2 * time.Hour, 4 * time.Hour, 8, 2, 64, "ada"},
	}
	if len(tr.Jobs) != len(want) {
		t.Fatalf("%+v, skipped %v", tr.Jobs, tr.Skipped)
	}
	for i, w := range want {
		j := tr.Jobs[i]
		if j.ID != w.id || j.Arrival != w.at || j.Length != w.long || j.Estimate != w.limit || j.Class != w.class ||
			j.Request[trace.CPU] != w.cpus || j.Request[trace.GPU] != w.gpus || j.Request[trace.Memory] != w.giB {
			t.Errorf("job %d is %+v, want %+v", i, j, w)
		}
	}
	if want := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC); !tr.Start.Equal(want) {
		t.Errorf("start %v, want %v", tr.Start, want)
	}
	for why, n := range map[string]int{trace.JobStep: 2, trace.NotFinished: 3, trace.NoRunTime: 1, trace.NoSubmitTime: 1, trace.NoProcessors: 1} {
		if tr.Skipped[why] != n {
			t.Errorf("%d entries skipped with %s, want %d", tr.Skipped[why], why, n)
		}
	}
	for _, note := range []string{
		"1 job was cancelled; the time that it ran counts", "1 job ran into its time limit; the time that it ran counts",
		"1 job became eligible after its submission (--begin, a dependency, a hold) and counts from then",
		"3 jobs have times without an offset, which are read as UTC",
	} {
		if !slices.Contains(tr.Notes, note) {
			t.Errorf("no note %q in %q", note, tr.Notes)
		}
	}
}

// TestSacctColumnsAreFoundByName: columns are found by name, in any order and case; a job name may hold the separator, and the options -p
// and --delimiter end in columns or errors that say so.
func TestSacctColumnsAreFoundByName(t *testing.T) {
	tr := readSacct(t, "state|jobname|ReqTRES|elapsedraw|account|SUBMIT|jobid|\n"+
		"COMPLETED|a|b|c|cpu=3,mem=2T|60|climate|2026-03-01T10:00:00+0100|7|\n"+
		"COMPLETED|plain|cpu=3|60|climate|1772352000|8|\n")
	if len(tr.Jobs) != 2 || tr.Jobs[0].ID != "8" || tr.Jobs[0].Class != "climate" || tr.Jobs[1].Request[trace.Memory] != 2048 || len(tr.Notes) != 0 {
		t.Errorf("%+v, notes %q", tr.Jobs, tr.Notes)
	}
}

// TestSacctRunsCountOnce: files that overlap have rows of one run twice, and a job that was requeued has a row for each of
// its runs.
func TestSacctRunsCountOnce(t *testing.T) {
	const column = "JobID|Submit|End|ElapsedRaw|NCPUS|State\n"
	tr := readSacct(t, column+
		"7|2026-03-31T20:00:00|Unknown|3600|1|RUNNING\n"+
		"9|2026-03-31T20:00:00|2026-03-31T21:00:00|3600|1|REQUEUED\n"+
		"9|2026-03-31T21:00:05|2026-03-31T23:00:00|600|1|COMPLETED\n"+
		column+
		"7|2026-03-31T20:00:00|2026-04-01T04:00:00|28800|1|COMPLETED\n"+
		"9|2026-03-31T21:00:05|2026-03-31T23:00:00|600|1|COMPLETED\n")
	var got []string
	for _, j := range tr.Jobs {
		got = append(got, fmt.Sprintf("%s %v", j.ID, j.Length))
	}
	if want := []string{"9 1h0m0s", "7 8h0m0s", "9 (line 4) 10m0s"}; !slices.Equal(got, want) {
		t.Errorf("jobs %q, want %q", got, want)
	}
	if tr.Skipped[trace.EarlierRow] != 1 || tr.Skipped[trace.NotFinished] != 1 {
		t.Errorf("skipped %v", tr.Skipped)
	}
	clusters := readSacct(t, "Cluster|JobID|Submit|ElapsedRaw|NCPUS|State\na|7|2026-03-31T20:00:00|60|1|COMPLETED\nb|7|2026-03-31T20:00:00|60|1|COMPLETED\n")
	if len(clusters.Jobs) != 2 || clusters.Jobs[0].ID == clusters.Jobs[1].ID {
		t.Errorf("jobs of two clusters: %+v", clusters.Jobs)
	}
	if named := readSacct(t, "JobID|JobName|Submit|ElapsedRaw|NCPUS|State\n8|jobid|2026-03-31T20:00:00|60|1|COMPLETED\n"); len(named.Jobs) != 1 {
		t.Errorf("a job that is named like a column: %+v", named)
	}
}

// TestSacctTimesFollowTheStatedClock: local times are read by the clock that is stated, on both sides of a change of the clock.
func TestSacctTimesFollowTheStatedClock(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := trace.ReadSacct(strings.NewReader("JobID|Submit|ElapsedRaw|NCPUS|State\n"+
		"1|2026-03-29T01:30:00|60|1|COMPLETED\n2|2026-03-29T03:30:00|60|1|COMPLETED\n3|2026-03-29T03:30:00+0000|60|1|COMPLETED\n"), berlin)
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC); !tr.Start.Equal(want) {
		t.Errorf("start %v, want %v", tr.Start, want)
	}
	for i, want := range []time.Duration{0, time.Hour, 3 * time.Hour} {
		if tr.Jobs[i].Arrival != want {
			t.Errorf("job %d arrives at %v, want %v", i, tr.Jobs[i].Arrival, want)
		}
	}
	if want := "2 jobs have times without an offset, which are read by the clock of Europe/Berlin"; !slices.Contains(tr.Notes, want) {
		t.Errorf("notes %q", tr.Notes)
	}
}

// TestSacctErrorsNameLineAndColumn: each error names the line, the column, the value and what is accepted.
func TestSacctErrorsNameLineAndColumn(t *testing.T) {
	const head = "JobID|Submit|ElapsedRaw|NCPUS|State\n"
	for text, want := range map[string][]string{
		"":                                                    {"no header", "sacct -a -X -P"},
		"7|2026-03-01T10:00:00|60|1|COMPLETED\n":              {"line 1", "column JobID is missing", "without -n"},
		"JobID,Submit,ElapsedRaw,NCPUS,State\n":               {"column JobID is missing"},
		"JobID|Submit|NCPUS|State\n":                          {"column ElapsedRaw is missing"},
		"JobID|Submit|ElapsedRaw|State\n":                     {"CPUs", "NCPUS,AllocCPUS,AllocTRES,ReqTRES"},
		"JobID|Submit|ElapsedRaw|State|NCPUS|ncpus\n":         {"column NCPUS stands twice"},
		head + "7|2026-03-01T10:00:00|60|COMPLETED\n":         {"line 2", "4 fields", "accepted: 5", "leave that column out"},
		head + "seven|2026-03-01T10:00:00|60|1|COMPLETED\n":   {"column JobID", `"seven"`, "4711_3"},
		head + "7|Ystday 10:00|60|1|COMPLETED\n":              {"column Submit", `"Ystday 10:00"`, "+0200"},
		head + "7|0001-03-01T10:00:00|60|1|COMPLETED\n":       {"column Submit", "1970 to 2200"},
		head + "7|2026-03-01T10:00:00|00:01:00|1|COMPLETED\n": {"column ElapsedRaw", "seconds"},
		head + "7|2026-03-01T10:00:00|60|-1|COMPLETED\n":      {"column NCPUS", `"-1"`},
		head + "7|2026-03-01T10:00:00|60|1|\n":                {"column State", "COMPLETED"},
		"JobID|Submit|ElapsedRaw|AllocTRES|State\n7|2026-03-01T10:00:00|60|cpu=many|COMPLETED\n":           {"column AllocTRES", "gres/gpu=2"},
		"JobID|Submit|ElapsedRaw|NCPUS|State|TimelimitRaw\n7|2026-03-01T10:00:00|60|1|COMPLETED|1-00:00\n": {"column TimelimitRaw", "minutes"},
	} {
		_, err := trace.ReadSacct(strings.NewReader(text), nil)
		if !errors.Is(err, trace.ErrTrace) {
			t.Errorf("%q: error %v", text, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: error %v, want %s", text, err, part)
			}
		}
	}
	if _, err := trace.ReadCSV(strings.NewReader(saHead)); err == nil || !strings.Contains(err.Error(), "accepted: format sacct") {
		t.Errorf("as CSV: %v", err)
	}
}

func FuzzReadSacct(f *testing.F) {
	f.Add(saHead + "101|ada|2026-03-01T10:00:00|2026-03-01T12:00:00|2026-03-01T14:00:00|240|7200|8|cpu=8,gres/gpu:a100=2,mem=64G|COMPLETED\n101.batch|||||||||COMPLETED\n")
	f.Add("JobID|Submit|ElapsedRaw|ReqTRES|State|JobName|\n7_2|1772355600|60|cpu=1|CANCELLED by 1|a|b|\n7_2|2026-03-01T10:00:00+0100|9|cpu=1|X|a|\n")
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := trace.ReadSacct(strings.NewReader(text), nil)
		if err != nil {
			if !errors.Is(err, trace.ErrTrace) {
				t.Fatalf("%v", err)
			}
			return
		}
		last, seen := time.Duration(0), map[string]bool{}
		for _, j := range tr.Jobs {
			if j.Arrival < last || j.Length <= 0 || j.ID == "" || seen[j.ID] || !(j.Request[trace.CPU] > 0) || j.Estimate < 0 {
				t.Fatalf("%+v", j)
			}
			last, seen[j.ID] = j.Arrival, true
		}
	})
}
