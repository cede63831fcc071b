// Command week draws the picture of the README: a week of recorded carbon intensity in Germany, and the work of a cluster as submitted
// and as planned by a CarbonPolicy. It writes docs/week-intensity.svg and docs/week-work.svg.
//
//	LULL_DATA=../shared/data go run ./bench/week
//
// The intensities are those of Electricity Maps, DE, 2023 (carbon/DE/2023.csv of LULL_DATA); the jobs are the generated week of
// lull simulate.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"lull.dev/lull/internal/cli"
	"lull.dev/lull/internal/studies/report"
)

const start = "2023-05-08T00:00:00Z"

// outcome is what is read of lull simulate --json.
type outcome struct {
	From    time.Time
	Slot    string
	Summary []struct {
		Planner string
		Saving  float64
		Missed  int
	}
	Load      map[string][][]float64 // by planner and cluster
	Intensity [][]float64            // by cluster
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "week:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	data := os.Getenv("LULL_DATA")
	if data == "" {
		data = "../shared/data"
	}
	var text bytes.Buffer
	args := []string{
		"simulate", "--carbon", filepath.Join(data, "carbon", "DE", "2023.csv"), "--start", start,
		"--capacity", "300", "--max-delay", "24h", "--kind", "interruptible", "--json", "-",
	}
	if code := cli.Main(args, nil, &text, os.Stderr); code != 0 {
		return fmt.Errorf("lull simulate: exit status %d", code)
	}
	var o outcome
	if err := json.Unmarshal(text.Bytes(), &o); err != nil {
		return err
	}
	slot, err := time.ParseDuration(o.Slot)
	if err != nil {
		return err
	}
	week := int(7 * 24 * time.Hour / slot)
	intensity := report.Chart{Title: "Carbon intensity", From: o.From, Height: 110}
	intensity.Series = []report.Series{series("carbon intensity of Germany, gCO2eq/kWh", o.Intensity[0], week, slot)}
	work := report.Chart{Title: "CPUs in use", From: o.From, Height: 110}
	for i, name := range []string{"CPUs in use, as submitted", "as planned by Lull"} {
		s := o.Summary[i]
		work.Series = append(work.Series, series(name, o.Load[s.Planner][0], week, slot))
		fmt.Fprintf(out, "%s: saved %.1f %%, %d late\n", s.Planner, 100*s.Saving, s.Missed)
	}
	for name, chart := range map[string]report.Chart{"docs/week-intensity.svg": intensity, "docs/week-work.svg": work} {
		if err := os.WriteFile(name, []byte(chart.Standalone()), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// series has one value a slot, X in hours.
func series(name string, values []float64, n int, slot time.Duration) report.Series {
	s := report.Series{Name: name, Stairs: true}
	for t, v := range values[:min(n, len(values))] {
		s.X, s.Y = append(s.X, float64(t)*slot.Hours()), append(s.Y, v)
	}
	return s
}
