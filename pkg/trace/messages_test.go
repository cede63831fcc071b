package trace_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/trace"
)

// TestByteOrderMark: spreadsheets write one before the header.
func TestByteOrderMark(t *testing.T) {
	tr, err := trace.ReadCSV(strings.NewReader("\ufeffid,arrival_s,length_s,cpus\na,0,60,1\n"))
	if err != nil || len(tr.Jobs) != 1 {
		t.Errorf("trace: %v", err)
	}
	if tr, err := trace.ReadCSV(strings.NewReader("\ufeff\"id\",\"arrival_s\",\"length_s\",\"cpus\"\r\n\"a\",0,60,1\r\n")); err != nil || len(tr.Jobs) != 1 {
		t.Errorf("trace with quotes: %v", err)
	}
	for text, want := range map[string]string{"\xff\xfei\x00": "UTF-16", "\x1f\x8b\x08": ".gz", "id;arrival_s;length_s;cpus\n": "semicolons; accepted: commas"} {
		if _, err := trace.ReadCSV(strings.NewReader(text)); !errors.Is(err, trace.ErrTrace) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
	if _, err := trace.ReadProfile(strings.NewReader("\ufeffworkers,throughput\n1,1\n")); err != nil {
		t.Errorf("profile: %v", err)
	}
	if tr, err := trace.ReadSWF(strings.NewReader("\ufeff" + swfText)); err != nil || tr.Start.Year() != 2005 {
		t.Errorf("SWF: %v", err)
	}
}

// TestReadersNameTextInOtherEncodings: every reader says what a file in UTF-16, or one that is compressed, is, and names control characters.
func TestReadersNameTextInOtherEncodings(t *testing.T) {
	for name, read := range map[string]func(io.Reader) error{
		"SWF":     func(r io.Reader) error { _, err := trace.ReadSWF(r); return err },
		"GWF":     func(r io.Reader) error { _, err := trace.ReadGWF(r); return err },
		"profile": func(r io.Reader) error { _, err := trace.ReadProfile(r); return err },
		"CSV":     func(r io.Reader) error { _, err := trace.ReadCSV(r); return err },
	} {
		const nul = "NUL (U+0000); accepted: plain text in UTF-8"
		for text, want := range map[string]string{
			"\xff\xfe1\x00": "UTF-16", "\x1f\x8b\x08": ".gz", "ab\x00": "line 1: " + nul,
			"id,arrival_s,length_s,cpus,workers,throughput,timestamp,duration,energy_consumed\n1\x00,1,1,1,1,1,1,1,1\n": "",
		} {
			if want == "" { // a log has no header
				want = map[string]string{"CSV": "line 2: " + nul, "profile": "line 2: " + nul}[name]
			}
			if err := read(strings.NewReader(text)); !errors.Is(err, trace.ErrTrace) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q: error %v, want %s", name, text, err, want)
			}
		}
	}
}

// TestProfileIsBounded: a stream without an end is not read without an end.
func TestProfileIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("workers,throughput\n")
	for w := range 10_001 {
		fmt.Fprintf(&b, "%d,%d\n", w+1, w+1)
	}
	if _, err := trace.ReadProfile(strings.NewReader(b.String())); !errors.Is(err, trace.ErrTrace) || !strings.Contains(err.Error(), "accepted: at most 10000 rows") {
		t.Errorf("error %v", err)
	}
}

// TestMessagesSayWhatIsAccepted: faults that were named without a line, a field or what
// is accepted.
func TestMessagesSayWhatIsAccepted(t *testing.T) {
	const head = "id,arrival_s,length_s,cpus\n"
	for text, want := range map[string][]string{
		head + "a,0,60,1\nb,0,60\n":   {"line 3", "3 fields", "accepted: 4", "id,arrival_s,length_s,cpus"},
		head + "a,0,60,1,5\n":         {"line 2", "5 fields", "accepted: 4"},
		head + "a,0,60,0\n":           {"line 2", "column cpus", `"0"`, "above 0"},
		head + "a,0,60,1\nb,1,2,0.0,": {"line 3"},
	} {
		_, err := trace.ReadCSV(strings.NewReader(text))
		for _, part := range want {
			if !errors.Is(err, trace.ErrTrace) || !strings.Contains(err.Error(), part) {
				t.Errorf("%q: error %v lacks %q", text, err, part)
			}
		}
	}
	if tr, err := trace.ReadCSV(strings.NewReader("id,arrival_s,length_s,cpus,gpus\na,0,60,0,1\n")); err != nil || len(tr.Jobs[0].Request) != 1 {
		t.Errorf("a job of GPUs alone: %v", err)
	}
	_, err := trace.ReadProfile(strings.NewReader("workers,throughput\n1,1\n2,2,9\n"))
	for _, part := range []string{"line 3", "3 fields", "accepted: 2"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("profile: error %v lacks %q", err, part)
		}
	}
}

// TestSkippedSaysWhy: entries that never ran are counted by reason, also after a cut.
func TestSkippedSaysWhy(t *testing.T) {
	tr, err := trace.ReadSWF(strings.NewReader(swfText + "4 170 5 60 -1 -1 -1 -1 -1 -1 1 8 1 1 1 -1 -1 -1\n5 180 5 0 4 -1 -1 4 1200 -1 0 7 1 1 1 -1 -1 -1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if tr.Skipped.Total() != 3 || tr.Skipped["no run time"] != 2 || tr.Skipped["no processors"] != 1 {
		t.Errorf("%v", tr.Skipped)
	}
	if got := tr.Between(0, time.Hour).Skipped.String(); got != "2 with no run time, 1 with no processors" {
		t.Errorf("after a cut: %q", got)
	}
	if trace.Skipped(nil).String() != "" || trace.Skipped(nil).Total() != 0 {
		t.Error("nothing skipped says something")
	}
}

// TestBetweenKeepsTheTime: a cut trace goes on at the time of day at which it was cut,
// whether the trace has a date (SWF) or not (CSV).
func TestBetweenKeepsTheTime(t *testing.T) {
	text := "id,arrival_s,length_s,cpus\na,0,60,1\nb,604800,60,1\n"
	tr, err := trace.ReadCSV(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	cut := tr.Between(24*time.Hour, 30*24*time.Hour)
	if cut.Offset != 24*time.Hour || !cut.Start.IsZero() || cut.Jobs[0].Arrival != 6*24*time.Hour {
		t.Errorf("CSV: offset %v, start %v, arrival %v", cut.Offset, cut.Start, cut.Jobs[0].Arrival)
	}
	if again := cut.Between(24*time.Hour, 30*24*time.Hour); again.Offset != 48*time.Hour {
		t.Errorf("cut twice: offset %v", again.Offset)
	}
	dated, err := trace.ReadSWF(strings.NewReader(swfText))
	if err != nil {
		t.Fatal(err)
	}
	if got := dated.Between(time.Minute, time.Hour); !got.Start.Equal(dated.Start.Add(time.Minute)) || got.Offset != time.Minute {
		t.Errorf("SWF: start %v, offset %v", got.Start, got.Offset)
	}
}
