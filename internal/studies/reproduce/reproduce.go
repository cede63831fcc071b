// Package reproduce runs the experiments of the published systems on the data at hand
// and sets what comes out beside what the papers state.
package reproduce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
)

// ErrExperiment marks an experiment that does not exist.
var ErrExperiment = errors.New("unknown experiment")

// Env is what experiments work with.
type Env struct {
	// Data is the folder of traces (carbon, jobs, profiles, weather).
	Data string
	// Planner builds a planner by its name.
	Planner func(name string, parameters map[string]string) (plan.Planner, error)
	// Learn builds planner carbonflex from the past.
	Learn func(ctx context.Context, history []*plan.Problem) (plan.Planner, error)
	// VCC builds planner vcc with what each day is expected to bring.
	VCC func(expected func(day int) float64) (plan.Planner, error)
	// Progress is told the share of an experiment that is done.
	Progress func(share float64)

	lock   sync.Mutex
	series map[string]*carbon.Series
	traces map[string]*trace.Trace
}

// Experiment is one figure or table of a paper.
type Experiment struct {
	Paper, ID, Title string
	// Setup says what is run, with data, years and seeds; Paper what the paper ran.
	Setup string
	Run   func(ctx context.Context, env *Env) (*Result, error)
}

// Name is how the experiment is called on the command line.
func (x *Experiment) Name() string { return x.Paper + " " + x.ID }

// Result is what came of an experiment.
type Result struct {
	Rows   []Row
	Charts []report.Chart
	Notes  []string
}

// Row is one figure: what the paper states, and what comes out here.
type Row struct {
	What string `json:"what"`
	Unit string `json:"unit"`
	// Paper and Anchor (an independent reproduction) are NaN where they state none.
	Paper  Value `json:"paper"`
	Anchor Value `json:"anchor"`
	Here   Value `json:"here"`
	// Joint is planner joint on the same, NaN where it has no part.
	Joint Value  `json:"joint"`
	Why   string `json:"why"`
}

// Value is a figure that may be absent (NaN).
type Value float64

// None is the absent figure.
var None = Value(math.NaN())

// MarshalJSON writes null for none.
func (v Value) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "%.6g", float64(v)), nil
}

// UnmarshalJSON reads null as none.
func (v *Value) UnmarshalJSON(text []byte) error {
	*v = None
	if string(text) == "null" {
		return nil
	}
	_, err := fmt.Sscan(string(text), (*float64)(v))
	return err
}

// text is a figure with its unit; empty for none.
func (v Value) text(unit string) string {
	if math.IsNaN(float64(v)) {
		return ""
	}
	format := "%.1f"
	if a := math.Abs(float64(v)); unit == "" && a < 10 && a > 0 {
		format = "%.2f"
	}
	text := units.Number(format, float64(v))
	if unit != "" {
		text += " " + unit
	}
	return text
}

// difference is here less paper.
func (r *Row) difference() string {
	if math.IsNaN(float64(r.Paper)) || math.IsNaN(float64(r.Here)) {
		return ""
	}
	d := float64(r.Here - r.Paper)
	unit := r.Unit
	if unit == "%" {
		unit = "points"
	}
	if unit != "" {
		unit = " " + unit
	}
	if r.Unit == "" {
		return units.Number("%+.2f", d)
	}
	return units.Number("%+.1f", d) + unit
}

// Cells is the row of a table.
func (r *Row) Cells() []string {
	return []string{r.What, r.Paper.text(r.Unit), r.Here.text(r.Unit), r.difference(), r.Anchor.text(r.Unit), r.Joint.text(r.Unit), r.Why}
}

// Head are the columns of Cells.
var Head = []string{"figure", "paper", "here", "difference", "others", "joint", "why"}

// Papers are the names of the published systems, in the order of the documentation.
var Papers = []string{"caspian", "piontek", "carbonscaler", "carbonflex", "low-carbon-scheduler"}

// Own is what stands for the paper of Lull's own experiments.
const Own = "lull"

// All lists the experiments.
func All() []Experiment {
	var out []Experiment
	for _, list := range [][]Experiment{caspianExperiments(), piontekExperiments(), carbonScalerExperiments(), carbonFlexExperiments(), lowCarbonExperiments(), unseenExperiments()} {
		out = append(out, list...)
	}
	return out
}

// Select picks experiments: all, those of a paper, or one of them.
func Select(paper, id string) ([]Experiment, error) {
	var out []Experiment
	var names []string
	for _, x := range All() {
		names = append(names, x.Name())
		if paper == "all" || x.Paper == paper && (id == "" || x.ID == id) {
			out = append(out, x)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %q; accepted: all, or %s", ErrExperiment, strings.TrimSpace(paper+" "+id), strings.Join(names, ", "))
	}
	return out, nil
}

// Check says whether the data is there.
func (e *Env) Check() error {
	if _, err := os.Stat(filepath.Join(e.Data, "carbon")); err != nil {
		return fmt.Errorf("no evaluation data in %s: %w; accepted: a folder with carbon/, jobs/ and profiles/, named by --data or LULL_DATA", e.Data, err)
	}
	return nil
}

func (e *Env) progress(done, all int) {
	if e.Progress != nil {
		e.Progress(float64(done) / float64(all))
	}
}

// carbon reads years of a zone.
func (e *Env) carbon(zone string, years ...string) (*carbon.Series, error) {
	key := zone + " " + strings.Join(years, " ")
	e.lock.Lock()
	defer e.lock.Unlock()
	if s, ok := e.series[key]; ok {
		return s, nil
	}
	var files []string
	for _, y := range years {
		files = append(files, filepath.Join(e.Data, "carbon", zone, y+".csv"))
	}
	s, err := source.ReadFiles(files...)
	if err != nil {
		return nil, err
	}
	if e.series == nil {
		e.series = map[string]*carbon.Series{}
	}
	e.series[key] = s
	return s, nil
}

// hours are the values of a series without gaps.
func hours(s *carbon.Series) []float64 {
	out := make([]float64, s.Len())
	for i := range out {
		out[i] = float64(s.Sample(i).Value)
	}
	return out
}

// profile reads the capacity curve of a workload for 1..most workers.
func (e *Env) profile(name string, most int) (trace.Marginal, error) {
	var m trace.Marginal
	err := source.WithFile(filepath.Join(e.Data, "profiles", name+".csv"), func(r io.Reader) error {
		p, err := trace.ReadProfile(r)
		if err != nil {
			return err
		}
		m, err = p.Scale(1, most)
		return err
	})
	return m, err
}

// planners builds several planners.
func (e *Env) planners(names ...string) (map[string]plan.Planner, error) {
	out := map[string]plan.Planner{}
	for _, name := range names {
		p, err := e.Planner(name, nil)
		if err != nil {
			return nil, err
		}
		out[name] = p
	}
	return out, nil
}

func percent(share float64) Value { return Value(100 * share) }

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / math.Max(1, float64(len(values)))
}
