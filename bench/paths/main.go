// Command paths draws the picture of docs/uncertainty.md: the forecast of the carbon intensity of Germany that Lull made at one time, the
// paths that it left open, what came, and when a job of six hours would start. It writes docs/uncertainty.svg.
//
//	LULL_DATA=../shared/data go run ./bench/paths
//
// The intensities are those of Electricity Maps, DE, 2023 (carbon/DE/2023.csv of LULL_DATA).
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/forecast"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

const (
	learned = 90 * 24 // hours before the forecast
	ahead   = 30      // hours of the forecast
	drawn   = 24      // of them in the picture
	runs    = 6 * time.Hour
)

// issued is when the forecast was made and the job came.
var issued = time.Date(2023, 5, 20, 16, 0, 0, 0, time.UTC)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "paths:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	actual, err := recorded()
	if err != nil {
		return err
	}
	h, err := forecast.FromSeries(actual, issued, time.Hour, learned)
	if err != nil {
		return err
	}
	m, expected := forecast.NewBlend(), make([]float64, ahead)
	if err := m.Predict(h, expected); err != nil {
		return err
	}
	values, err := m.Paths(h, ahead)
	if err != nil {
		return err
	}
	a, err := decided(expected, values)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d paths. The job %s\n", len(values), a.Reason.Message())
	came := make([]float64, ahead)
	for k := range came {
		v, _ := actual.Mean(hour(k), hour(k+1))
		came[k] = float64(v)
	}
	begins := a.Phases[0].From
	then, _ := actual.Mean(begins, begins.Add(runs))
	atOnce, _ := actual.Mean(issued, issued.Add(runs))
	fmt.Fprintf(out, "it saved %.0f %% against a start at once\n", 100*(1-float64(then/atOnce)))
	return os.WriteFile("docs/uncertainty.svg", []byte(picture(values, expected, came, begins.Sub(issued).Hours()).Standalone()), 0o600)
}

func hour(k int) time.Time { return issued.Add(time.Duration(k) * time.Hour) }

func recorded() (*carbon.Series, error) {
	data := os.Getenv("LULL_DATA")
	if data == "" {
		data = "../shared/data"
	}
	f, err := os.Open(filepath.Join(data, "carbon", "DE", "2023.csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return carbon.ReadCSV(f, carbon.Provenance{Zone: "DE"})
}

// decided is what Lull decides on a job that has just come and may wait for a day.
func decided(expected []float64, values [][]float64) (decide.Action, error) {
	var samples []carbon.Sample
	for k, v := range expected {
		samples = append(samples, carbon.Sample{From: hour(k), To: hour(k + 1), Value: units.CarbonIntensity(v)})
	}
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "DE"}, samples)
	if err != nil {
		return decide.Action{}, err
	}
	paths, err := carbon.NewPaths(issued, time.Hour, values)
	if err != nil {
		return decide.Action{}, err
	}
	d, err := decide.Decide(context.Background(), decide.Snapshot{
		Now: issued, Slot: time.Hour,
		Clusters: []decide.Cluster{{
			Name: "c", Capacity: map[string]float64{"cpu": 8}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Carbon: series, CarbonPaths: paths,
		}},
		Tasks: []decide.Task{{
			ID: "job", Kind: workload.Rigid, State: decide.Waiting, Submitted: issued, Deadline: issued.Add(24*time.Hour + runs), Remaining: runs, Request: map[string]float64{"cpu": 4},
		}},
	}, joint.Planner{})
	if err != nil {
		return decide.Action{}, err
	}
	return d.Actions[0], nil
}

// picture draws hours since issued.
func picture(paths [][]float64, expected, came []float64, begins float64) report.Chart {
	c := report.Chart{Title: "Forecast, paths and what came", From: issued, Height: 200}
	line := func(name string, values []float64, faint bool) report.Series {
		s := report.Series{Name: name, Faint: faint}
		for k, v := range values[:drawn] {
			s.X, s.Y = append(s.X, float64(k)+0.5), append(s.Y, v)
		}
		return s
	}
	at := func(name string, from float64) report.Series {
		return report.Series{Name: name, X: []float64{from, from + runs.Hours()}, Y: []float64{mean(expected, from), mean(expected, from)}}
	}
	c.Series = []report.Series{line("forecast", expected, false), line("what came", came, false), at("runs, if it starts at once", 0), at("runs as planned", begins)}
	for i, p := range paths {
		name := ""
		if i == 0 {
			name = "paths, gCO2eq/kWh"
		}
		c.Series = append(c.Series, line(name, p, true))
	}
	return c
}

// mean is that of the run that begins at an hour.
func mean(values []float64, from float64) float64 {
	sum, n := 0.0, int(runs.Hours())
	for _, v := range values[int(from) : int(from)+n] {
		sum += v
	}
	return sum / float64(n)
}
