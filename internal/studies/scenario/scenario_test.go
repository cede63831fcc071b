package scenario

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/trace"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func read(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestScenarioErrorsNameFieldAndValue: every fault names its field and value.
func TestScenarioErrorsNameFieldAndValue(t *testing.T) {
	trace := write(t, "jobs.csv", "id,arrival_s,length_s,cpus\na,0,3600,1\na,1,3600,1\n")
	short := write(t, "x.csv", "time,intensity_gco2eq_per_kwh\n2023-01-01T00:00:00Z,100\n2023-01-01T01:00:00Z,110\n")
	for text, want := range map[string]string{
		"objective: money":                "objective: money",
		"slot: 1s":                        "slot: 1s",
		"clusters: [{zone: ATLANTIS}]":    "ATLANTIS",
		"jobs: {kind: soft}":              "jobs.kind: soft",
		"jobs: {estimate: {error: 2}}":    "jobs.estimate.error: 2",
		"jobs: {estimate: {kind: guess}}": "guess",
		"jobs: {file: jobs.txt}":          "jobs.txt",
		"jobs: {file: " + trace + "}":     `"a"`,
		"jobs: {kind: elastic}":           "profiles",
		"jobs: {generate: {perHour: 1, span: 1d, hours: {kind: odd, low: 2}}}": `jobs.generate.hours: kind "odd", low 2; accepted`,
		"jobs: {generate: {perHour: -1, span: 1d}}":                            "-1 per hour",
		"jobs: {elastic: {profiles: [nofile.csv]}}":                            "nofile.csv",
		"faults: {losses: [{cluster: x}]}":                                     "faults.losses[0].cluster: x",
		"clusters: [{zone: DE, forecast: {kind: magic}}]":                      "forecast.kind: magic",
		"clusters: [{zone: DE, forecast: {kind: noise, error: 3}}]":            "forecast.error: 3",
		"clusters: [{zone: DE, forecast: {kind: model, model: oracle}}]":       "forecast.model: oracle",
		"clusters: [{zone: DE, pue: 0.5}]":                                     "0.5",
		"clusters: [{zone: DE, nodes: {count: 1, each: 4, idle: 9, peak: 3}}]": "nodes: count 1, each 4, idle 9, peak 3; accepted",
		"clusters: [{zone: DE, forecast: {kind: model, model: day-before}, outages: [{from: 2023-01-02T00:00:00Z, to: 2023-01-01T00:00:00Z}]}]": "outages[0]: 2023-01-02T00:00:00Z to 2023-01-01T00:00:00Z; accepted",
		"clusters: [{zone: DE, outages: [{from: 2023-01-01T00:00:00Z, to: 2023-01-02T00:00:00Z}]}]":                                             "outages",
		"start: 2030-01-01T00:00:00Z\nclusters: [{carbon: [" + short + "]}]":                                                                    "2030-01-01",
	} {
		_, err := read(t, text).Build()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that names %s", text, err, want)
		}
	}
	for _, bad := range []string{"slott: 1h", "slot: 1 hour", "jobs: 7", "slot: xd"} {
		if _, err := Read(strings.NewReader(bad)); !errors.Is(err, ErrScenario) {
			t.Errorf("%s: error %v", bad, err)
		}
	}
	if _, err := Read(strings.NewReader("\xff\xfes\x00")); !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), "UTF-16") {
		t.Errorf("UTF-16: error %v", err)
	}
	if _, err := Read(strings.NewReader("slot: 1h\nseed: 1\x00\n")); !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), "line 2: NUL (U+0000); accepted: plain text in UTF-8") {
		t.Errorf("NUL: error %v", err)
	}
	if _, err := Read(strings.NewReader(strings.Repeat("#", maxFile+1))); !errors.Is(err, ErrScenario) {
		t.Errorf("a file too large: %v", err)
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "90m": 90 * time.Minute, "PT2H": 2 * time.Hour} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for _, bad := range []string{"d", "xd", "-1d", "1d1", "99999999d"} {
		if d, err := ParseDuration(bad); err == nil {
			t.Errorf("%s: %v", bad, d)
		}
	}
}

// trials is a small simulation with two planners.
func trials(t *testing.T) (sim.Config, []Trial) {
	t.Helper()
	s := read(t, "jobs: {generate: {perHour: 3, span: 1d}}\nclusters: [{zone: DE, capacity: {cpu: 60}}, {zone: SE, capacity: {cpu: 20}}]")
	cfg, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	list, err := Run(context.Background(), cfg, []Entry{{Label: "a", Planner: cheapest.Planner{}}, {Label: "b", Planner: cheapest.Planner{Reserve: 0.2}, Revise: sim.OnChange}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, list
}

// TestEachOutputSaysTheSame: CSV, Parquet and JSON say the same as the results, and the page shows all.
func TestEachOutputSaysTheSame(t *testing.T) {
	cfg, list := trials(t)
	n := len(cfg.Jobs) * len(list)
	var text bytes.Buffer
	if err := WriteCSV(&text, cfg, list); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&text).ReadAll()
	if err != nil || len(rows) != n+1 {
		t.Fatalf("%d lines of CSV: %v", len(rows), err)
	}
	var file bytes.Buffer
	if err := WriteParquet(&file, cfg, list); err != nil {
		t.Fatal(err)
	}
	r := parquet.NewGenericReader[Row](bytes.NewReader(file.Bytes()))
	got := make([]Row, n+1)
	if k, err := r.Read(got); k != n || (err != nil && !errors.Is(err, io.EOF)) {
		t.Fatalf("%d rows of Parquet: %v", k, err)
	}
	sums := Summarize(cfg, list)
	grams := map[string]float64{}
	for i, row := range got[:n] {
		grams[row.Planner] += row.CarbonG
		if rows[i+1][1] != row.Job || rows[i+1][0] != row.Planner || rows[i+1][5] != row.Cluster {
			t.Fatalf("row %d: %v in CSV, %+v in Parquet", i, rows[i+1], row)
		}
	}
	for _, s := range sums {
		if math.Abs(grams[s.Planner]-s.CarbonG) > 1e-6*s.CarbonG {
			t.Errorf("%s: jobs emit %v, the summary says %v", s.Planner, grams[s.Planner], s.CarbonG)
		}
	}
	if sums[0].Saving != 0 || sums[1].Saving <= 0 {
		t.Errorf("savings %v and %v", sums[0].Saving, sums[1].Saving)
	}
	var j bytes.Buffer
	if err := WriteJSON(&j, cfg, list, trace.Reading{}, false); err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(j.Bytes(), &d); err != nil || len(d.Summary) != 3 || len(d.Load["a"]) != 2 || len(d.Intensity) != 2 {
		t.Errorf("JSON: %v %+v", err, d.Summary)
	}
	var page bytes.Buffer
	if err := WritePage(&page, "A <title>", cfg, list, trace.Reading{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"A &lt;title&gt;", "as submitted", "<svg", "deadline", "DE", "SE"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"NaN", "<script", "https://"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

// TestRecordedForecastsAreUsedAsIssued: what came after them is the intensity where no other is given,
// and planning on what was forecast saves no more than on what came.
func TestRecordedForecastsAreUsedAsIssued(t *testing.T) {
	var text strings.Builder
	text.WriteString("issued,time,forecast_gco2eq_per_kwh,actual_gco2eq_per_kwh\n")
	day := time.Date(2023, 3, 1, 0, 0, 0, 0, time.UTC)
	for issue := range 6 {
		for h := range 48 {
			at := day.AddDate(0, 0, issue).Add(time.Duration(h) * time.Hour)
			hour := float64(at.Hour())
			actual := 200 + 100*math.Sin(hour/24*2*math.Pi) + 10*float64(at.Day())
			fmt.Fprintf(&text, "%s,%s,%g,%g\n", day.AddDate(0, 0, issue).Format(time.RFC3339), at.Format(time.RFC3339), 200+100*math.Cos(hour/24*2*math.Pi), actual)
		}
	}
	file := write(t, "f.csv", text.String())
	saving := map[string]float64{}
	for kind, forecast := range map[string]string{"recorded": "{kind: recorded, file: " + file + "}", "model": "{kind: model, model: persistence}", "perfect": "{kind: perfect}"} {
		cluster := "{zone: X, forecast: " + forecast + "}"
		if kind != "recorded" { // the same actual series, as a trace
			var trace strings.Builder
			trace.WriteString("time,intensity_gco2eq_per_kwh\n")
			for h := range 168 {
				at := day.Add(time.Duration(h) * time.Hour)
				fmt.Fprintf(&trace, "%s,%g\n", at.Format(time.RFC3339), 200+100*math.Sin(float64(at.Hour())/24*2*math.Pi)+10*float64(at.Day()))
			}
			cluster = "{zone: X, forecast: " + forecast + ", carbon: [" + write(t, "c.csv", trace.String()) + "]}"
		}
		cfg, err := read(t, "start: 2023-03-01T00:00:00Z\njobs: {generate: {perHour: 2, span: 3d}}\nclusters: ["+cluster+"]").Build()
		if err != nil {
			t.Fatal(err)
		}
		list, err := Run(context.Background(), cfg, []Entry{{Label: "a", Planner: cheapest.Planner{}, Revise: sim.OnChange}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		saving[kind] = Summarize(cfg, list)[1].Saving
	}
	if !(saving["perfect"] > saving["recorded"]) || !(saving["perfect"] > saving["model"]) || saving["perfect"] <= 0.1 {
		t.Errorf("savings %v: a perfect forecast should save most", saving)
	}
}

// TestOutlooksAreNotShared: trials run at the same time, so each has an outlook of its
// own, which remembers what it was asked last and whose model learns.
func TestOutlooksAreNotShared(t *testing.T) {
	cfg, err := read(t, "jobs: {generate: {perHour: 4, span: 2d}}\nclusters: [{zone: DE, forecast: {kind: model, model: holt-winters, every: 1h, ahead: 36h}}]").Build()
	if err != nil {
		t.Fatal(err)
	}
	var made atomic.Int32
	outlook := cfg.Clusters[0].Outlook
	cfg.Clusters[0].Outlook = func() sim.Outlook {
		made.Add(1)
		return outlook()
	}
	if outlook() == outlook() {
		t.Error("one outlook for two simulations")
	}
	entries := []Entry{{Label: "a", Planner: cheapest.Planner{}}, {Label: "b", Planner: cheapest.Planner{Reserve: 0.1}, Revise: sim.OnChange}}
	list, err := Run(context.Background(), cfg, entries, nil)
	if err != nil {
		t.Fatal(err)
	}
	if int(made.Load()) != len(list) {
		t.Errorf("%d outlooks for %d trials", made.Load(), len(list))
	}
}

// TestSideBySide: planners beside each other see equal jobs and do not disturb each other.
func TestSideBySide(t *testing.T) {
	_, a := trials(t)
	_, b := trials(t)
	for i := range a {
		if a[i].Emissions != b[i].Emissions || a[i].MeanWait != b[i].MeanWait {
			t.Errorf("%s: %v and %v", a[i].Label, a[i].Emissions, b[i].Emissions)
		}
	}
}
