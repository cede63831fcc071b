package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
)

var from = time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)

func at(h float64) time.Time { return from.Add(time.Duration(h * float64(time.Hour))) }

func testPage(t *testing.T) Page {
	t.Helper()
	var samples []carbon.Sample
	for h := range 48 {
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: 100})
	}
	s, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return Page{
		Title: "A <b>title</b>", ObservedName: "observed", BaselineName: "baseline", From: from, To: at(48), Intensity: s, Capacity: 10,
		Rows: []Row{{"emissions", "1 g", "2 g"}}, Notes: []string{"a & b"},
		Jobs: []Job{
			{Name: `evil"><script>`, Arrival: at(1), Deadline: at(20), Observed: []Bar{{at(10), at(12), 4}}, Baseline: []Bar{{at(1), at(3), 4}}},
			{Name: "two", Arrival: at(2), Observed: []Bar{{at(11), at(13), 3}, {at(15), at(60), 3}}},
		},
	}
}

// TestPageIsSelfContained: no scripts, nothing loaded, everything escaped, and
// every picture is well-formed XML.
func TestPageIsSelfContained(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, testPage(t)); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, bad := range []string{"<script", "http://", "https://", "src=", "@import", "url(", "NaN"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(pictures) != 2 {
		t.Fatalf("%d pictures, want 2", len(pictures))
	}
	for _, p := range pictures {
		dec := xml.NewDecoder(strings.NewReader(p))
		for {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("a picture is not well-formed: %v", err)
			}
		}
	}
	if n := strings.Count(page, `class="bar"`); n != 3 {
		t.Errorf("%d bars, want 3", n)
	}
}

func TestUsage(t *testing.T) {
	p := testPage(t)
	steps := usage(p.Jobs, func(j Job) []Bar { return j.Observed })
	want := []step{{at(10), 4}, {at(11), 7}, {at(12), 3}, {at(13), 0}, {at(15), 3}, {at(60), 0}}
	if len(steps) != len(want) {
		t.Fatalf("steps %v, want %v", steps, want)
	}
	for i := range want {
		if steps[i] != want[i] {
			t.Errorf("step %d = %v, want %v", i, steps[i], want[i])
		}
	}
}

func TestNiceCeil(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 0.7: 1, 1: 1, 96: 100, 101: 200, 210: 250, 423: 500, 777: 1000} {
		if got := niceCeil(v); got != want {
			t.Errorf("niceCeil(%v) = %v, want %v", v, got, want)
		}
	}
}

func TestEmptySpanIsAnError(t *testing.T) {
	p := testPage(t)
	p.To = p.From
	if err := Write(&bytes.Buffer{}, p); err == nil {
		t.Error("an empty span was drawn")
	}
}
