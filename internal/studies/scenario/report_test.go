package scenario

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/trace"
)

// hours writes a series of days that are all equal, from 2023-01-01 on.
func hours(t *testing.T, n int, keep func(h int) bool) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("time,intensity_gco2eq_per_kwh\n")
	for h := range n {
		if keep(h) {
			fmt.Fprintf(&text, "%s,%g\n", time.Date(2023, 1, 1, h, 0, 0, 0, time.UTC).Format(time.RFC3339), 300+200*math.Sin(float64(h%24)/24*2*math.Pi)+float64(h%24))
		}
	}
	return write(t, "carbon.csv", text.String())
}

func simulated(t *testing.T, text string, entries ...Entry) (*Scenario, sim.Config, []Trial) {
	t.Helper()
	s := read(t, text)
	cfg, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 {
		entries = []Entry{{Label: "cheapest", Planner: cheapest.Planner{}}}
	}
	list, err := Run(context.Background(), cfg, entries, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, cfg, list
}

// TestSavingsAtTheEndOfASeries: one job at 20:00 on the last day, with two days of delay.
// Its saving is that of a series that goes on, and the report says what was filled.
func TestSavingsAtTheEndOfASeries(t *testing.T) {
	jobs := write(t, "jobs.csv", "id,arrival_s,length_s,cpus\na,244800,21600,4\n") // day 3, 20:00
	of := func(file string) (sim.Config, []Trial) {
		_, cfg, list := simulated(t, "jobs: {file: "+jobs+", kind: interruptible, maxDelay: [{delay: 48h}]}\nclusters: [{zone: X, carbon: ["+file+"]}]")
		return cfg, list
	}
	cfg, whole := of(hours(t, 24*12, func(int) bool { return true }))
	want := Summarize(cfg, whole)
	cfg, cut := of(hours(t, 24*3, func(int) bool { return true }))
	got := Summarize(cfg, cut)
	for i := range want {
		if math.Abs(want[i].CarbonG-got[i].CarbonG) > 1e-9 || math.Abs(want[i].Saving-got[i].Saving) > 1e-9 || got[i].FilledH == 0 || got[i].Withheld != "" {
			t.Errorf("%s: %v g, saved %v, %v h filled; want %v g, %v", got[i].Planner, got[i].CarbonG, got[i].Saving, got[i].FilledH, want[i].CarbonG, want[i].Saving)
		}
	}
	notes := strings.Join(Notes(cfg, got, trace.Reading{}), "\n")
	if !strings.Contains(notes, carbon.FillRule) || !strings.Contains(notes, "as submitted: 2.0 h") {
		t.Errorf("notes: %s", notes)
	}
	if clean := strings.Join(Notes(cfg, want, trace.Reading{}), "\n"); strings.Contains(clean, carbon.FillRule) {
		t.Errorf("notes without anything filled: %s", clean)
	}
}

// TestFiguresAreWithheld: a job that the series does not reach has no emissions, and no
// saving is stated; its energy is.
func TestFiguresAreWithheld(t *testing.T) {
	jobs := write(t, "jobs.csv", "id,arrival_s,length_s,cpus\na,0,3600,4\nb,1728000,21600,4\n")
	_, cfg, list := simulated(t, "jobs: {file: "+jobs+"}\nclusters: [{zone: X, carbon: ["+hours(t, 48, func(int) bool { return true })+"]}]")
	sums := Summarize(cfg, list)
	for _, s := range sums {
		if !math.IsNaN(s.CarbonG) || !math.IsNaN(s.Saving) || !strings.Contains(s.Withheld, "6.0 h") || math.Abs(s.EnergyKWh-7*4*3.5/1000) > 1e-9 {
			t.Errorf("%s: %v g, saved %v on %v kWh, withheld %q", s.Planner, s.CarbonG, s.Saving, s.EnergyKWh, s.Withheld)
		}
	}
	head, rows := Table(cfg, sums)
	if rows[0][1] != "withheld" || rows[1][2] != "withheld" || len(head) != len(rows[0]) {
		t.Errorf("%v\n%v", head, rows)
	}
	if notes := strings.Join(Notes(cfg, sums, trace.Reading{}), "\n"); !strings.Contains(notes, "withheld") || !strings.Contains(notes, "7 days") {
		t.Errorf("notes: %s", notes)
	}
	var text bytes.Buffer
	if err := WriteJSON(&text, cfg, list, trace.Reading{}, true); err != nil || !strings.Contains(text.String(), `"carbonG": null`) || !strings.Contains(text.String(), `"saving": null`) {
		t.Errorf("JSON: %v %.600s", err, text.String())
	}
	var d document
	if err := json.Unmarshal(text.Bytes(), &d); err != nil {
		t.Error(err)
	}
	text.Reset()
	if err := WriteCSV(&text, cfg, list); err != nil {
		t.Fatal(err)
	}
	table, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := column(t, table[0], "carbon_g")
	if table[1][at] == "" || table[2][at] != "" || table[4][column(t, table[0], "unpriced_h")] != "6" {
		t.Errorf("CSV: %v", table)
	}
	text.Reset()
	if err := WritePage(&text, "t", cfg, list, trace.Reading{}); err != nil || !strings.Contains(text.String(), "withheld") || strings.Contains(text.String(), "NaN") {
		t.Errorf("page: %v", err)
	}
}

func column(t *testing.T, head []string, name string) int {
	t.Helper()
	for i, h := range head {
		if h == name {
			return i
		}
	}
	t.Fatalf("no column %s in %v", name, head)
	return 0
}

// TestRowsCanBeRecomputed: the emissions of each row follow from its runs, its request and
// the series alone.
func TestRowsCanBeRecomputed(t *testing.T) {
	_, cfg, list := simulated(t, "jobs: {generate: {perHour: 2, span: 1d}, kind: interruptible, restartKWh: 0}\nclusters: [{zone: DE, watts: {cpu: 7}}, {zone: SE, watts: {cpu: 7}}]")
	var text bytes.Buffer
	if err := WriteCSV(&text, cfg, list); err != nil {
		t.Fatal(err)
	}
	table, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]*carbon.Series{}
	for _, c := range cfg.Clusters {
		series[c.Name] = c.Actual
	}
	runs, request, grams := column(t, table[0], "run_list"), column(t, table[0], "request"), column(t, table[0], "carbon_g")
	several := 0
	for _, row := range table[1:] {
		amount, err := strconv.ParseFloat(strings.TrimPrefix(row[request], "cpu="), 64)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		list := strings.Split(row[runs], ";")
		for _, run := range list {
			part := strings.Split(run, "/")
			from, err1 := time.Parse(time.RFC3339Nano, part[0])
			to, err2 := time.Parse(time.RFC3339Nano, part[1])
			workers, err3 := strconv.ParseFloat(part[2], 64)
			if err1 != nil || err2 != nil || err3 != nil {
				t.Fatal(run)
			}
			mean, _ := series[part[3]].Mean(from, to)
			sum += workers * amount * 7 / 1000 * to.Sub(from).Hours() * float64(mean)
		}
		if want, _ := strconv.ParseFloat(row[grams], 64); math.Abs(sum-want) > 1e-6*want {
			t.Errorf("%v: recomputed %v", row, sum)
		}
		if len(list) > 1 {
			several++
		}
	}
	if several == 0 {
		t.Error("no job has several runs: nothing is shown")
	}
}

// TestTableSaysWhatChanges: the peak, how late, what is earlier, resource-hours.
func TestTableSaysWhatChanges(t *testing.T) {
	cfg := sim.Config{Slot: time.Hour, Clusters: []sim.Cluster{{Name: "c"}}}
	at := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3 {
		cfg.Jobs = append(cfg.Jobs, sim.Job{ID: fmt.Sprint(i), Submitted: at.Add(time.Duration(i) * time.Hour), Length: time.Hour, MaxDelay: time.Hour, Request: map[string]float64{"cpu": 8}})
	}
	one := func(from ...int) Trial {
		x := Trial{Result: sim.Result{Start: at, Emissions: 100, MeanDelay: -90 * time.Minute}}
		for i, h := range from {
			run := sim.Run{From: time.Duration(h) * time.Hour, To: time.Duration(h+1) * time.Hour, Workers: 1}
			o := sim.Outcome{Runs: []sim.Run{run}, Finish: run.To, WorkerHours: 1}
			if o.Missed = h > i+1; o.Missed {
				x.Missed++
			}
			x.Jobs = append(x.Jobs, o)
		}
		return x
	}
	sums := Summarize(cfg, []Trial{one(0, 1, 2), one(5, 5, 5)})
	if sums[0].PeakUse != 8 || sums[1].PeakUse != 24 || sums[1].ResourceHours != 24 || sums[1].WorstLateH != 4 || sums[1].MeanLateH != 3 {
		t.Errorf("%+v", sums)
	}
	head, rows := Table(cfg, sums)
	text := strings.Join(head, "|") + "\n" + strings.Join(rows[1], "|")
	for _, want := range []string{"saved of all", "peak cpu", "cpu-hours", "3 (worst 4.0 h, mean 3.0 h)", "1.5 h earlier", "24"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q: %s", want, text)
		}
	}
	if notes := strings.Join(Notes(cfg, sums, trace.Reading{Skipped: trace.Skipped{"no run time": 2}}), "\n"); !strings.Contains(notes, "from 8 as submitted to 24") || !strings.Contains(notes, "2 with no run time") {
		t.Errorf("notes: %s", notes)
	}
}

// TestFromKeepsTheTimeOfDay: "from" means the same with and without a date in the trace.
func TestFromKeepsTheTimeOfDay(t *testing.T) {
	csvJobs := write(t, "jobs.csv", "id,arrival_s,length_s,cpus\na,0,3600,1\nb,604800,3600,1\nc,612000,3600,1\n")
	swfJobs := write(t, "jobs.swf", "; UnixStartTime: 1672531200\n1 0 0 3600 1 -1 -1 1 -1 -1 1 1\n2 604800 0 3600 1 -1 -1 1 -1 -1 1 1\n")
	week := time.Date(2023, 1, 8, 0, 0, 0, 0, time.UTC)
	file := hours(t, 24*20, func(int) bool { return true })
	for name, text := range map[string]string{
		"CSV, the time of the series": "jobs: {file: " + csvJobs + ", from: 7d}\nclusters: [{zone: X, carbon: [" + file + "]}]",
		"CSV, climatology":            "jobs: {file: " + csvJobs + ", from: 7d}",
		"CSV, start":                  "start: 2023-01-01T00:00:00Z\njobs: {file: " + csvJobs + ", from: 7d}",
		"SWF, its own time":           "jobs: {file: " + swfJobs + ", from: 7d}",
		"SWF, start":                  "start: 2023-01-01T00:00:00Z\njobs: {file: " + swfJobs + ", from: 7d}",
	} {
		cfg, err := read(t, text).Build()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !cfg.Jobs[0].Submitted.Equal(week) {
			t.Errorf("%s: the first job is submitted at %s, want %s", name, cfg.Jobs[0].Submitted, week)
		}
	}
}

// TestMessagesOfTraces: what is wrong between a trace and the rest of a scenario.
func TestMessagesOfTraces(t *testing.T) {
	jobs := write(t, "jobs.csv", "id,arrival_s,length_s,cpus\na,0,3600,1\nlong,259200,90000,1\n")
	old := write(t, "old.swf", "; UnixStartTime: 749458803\n1 0 0 3600 1 -1 -1 1 -1 -1 1 1\n")
	failed := write(t, "failed.swf", "1 0 0 3600 1 -1 -1 1 -1 -1 1 1\n2 5 0 -1 1 -1 -1 1 -1 -1 1 1\n")
	file := hours(t, 48, func(int) bool { return true })
	for text, want := range map[string][]string{
		"jobs: {file: " + jobs + ", from: 9d}":                            {"jobs.from: 216h", "before the last arrival, 72h"},
		"jobs: {file: " + jobs + ", from: 2d, to: 1d}":                    {"jobs.to: 24h", "later than jobs.from"},
		"jobs: {file: " + old + "}\nclusters: [{carbon: [" + file + "]}]": {"1993-10-01", "start", "--start"},
		"jobs: {file: " + jobs + ", maxDelay: [{upTo: 12h, delay: 24h}]}": {"jobs.maxDelay", `"long"`, "25h", "without upTo"},
	} {
		_, err := read(t, text).Build()
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v lacks %q", text, err, part)
			}
		}
	}
	s := read(t, "jobs: {file: "+failed+"}")
	if _, err := s.Build(); err != nil || s.Reading().Skipped.Total() != 1 {
		t.Errorf("%v, skipped %v", err, s.Reading().Skipped)
	}
	if _, err := read(t, "jobs: {file: "+jobs+", maxDelay: [{upTo: 48h, delay: 24h}]}").Build(); err != nil {
		t.Errorf("classes that hold all jobs: %v", err)
	}
}
