package scenario

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"lull.dev/lull/internal/base/version"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/trace"
)

// Row is a job of a trial, as written to CSV and Parquet.
type Row struct {
	Planner     string    `parquet:"planner,dict"`
	Job         string    `parquet:"job"`
	Submitted   time.Time `parquet:"submitted,timestamp(millisecond)"`
	Start       time.Time `parquet:"start,timestamp(millisecond)"`
	Finish      time.Time `parquet:"finish,timestamp(millisecond)"`
	Cluster     string    `parquet:"cluster,dict"`
	LengthH     float64   `parquet:"length_h"`
	WaitH       float64   `parquet:"wait_h"`
	DelayH      float64   `parquet:"delay_h"`
	Late        bool      `parquet:"late"`
	Runs        int64     `parquet:"runs"`
	WorkerHours float64   `parquet:"worker_hours"`
	EnergyKWh   float64   `parquet:"energy_kwh"`
	CarbonG     float64   `parquet:"carbon_g"`
	ExpectedG   float64   `parquet:"expected_g"`
	BaselineG   float64   `parquet:"baseline_g"`
	// FilledH is the run time priced by carbon.FillRule, UnpricedH that without any price:
	// CarbonG and BaselineG are NaN (empty in CSV) where the jobs have any.
	FilledH   float64 `parquet:"filled_h"`
	UnpricedH float64 `parquet:"unpriced_h"`
	// Request is what one worker asks for: cpu=4;memory=8. RunList are the runs,
	// FROM/TO/WORKERS/CLUSTER, separated by semicolons: what emissions follow from.
	Request string `parquet:"request,dict"`
	RunList string `parquet:"run_list"`
}

// rows hands every job of every trial to write.
func rows(cfg sim.Config, trials []Trial, write func(Row) error) error {
	for i := range trials {
		for j := range trials[i].Jobs {
			o, job := &trials[i].Jobs[j], &cfg.Jobs[j]
			r := Row{
				Planner: trials[i].Label, Job: job.ID, Submitted: job.Submitted, Finish: trials[i].At(o.Finish), LengthH: job.Length.Hours(),
				WaitH: o.Wait.Hours(), DelayH: o.Delay.Hours(), Late: o.Missed, Runs: int64(len(o.Runs)), WorkerHours: o.WorkerHours,
				EnergyKWh: float64(o.Energy), CarbonG: float64(o.Emissions), ExpectedG: float64(o.Expected),
				BaselineG: float64(trials[0].Jobs[j].Emissions), FilledH: o.Filled.Hours(), UnpricedH: o.Unpriced.Hours(),
				Request: requestText(job.Request), RunList: runList(cfg, &trials[i], o.Runs),
			}
			if o.Unpriced > 0 {
				r.CarbonG = math.NaN()
			}
			if trials[0].Jobs[j].Unpriced > 0 {
				r.BaselineG = math.NaN()
			}
			if len(o.Runs) > 0 {
				r.Start, r.Cluster = trials[i].At(o.Runs[0].From), cfg.Clusters[o.Runs[len(o.Runs)-1].Cluster].Name
			}
			if err := write(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// requestText lists what a job asks for in the order of the names.
func requestText(request map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(request)) {
		parts = append(parts, name+"="+strconv.FormatFloat(request[name], 'g', -1, 64))
	}
	return strings.Join(parts, ";")
}

// runList is the text of Row.RunList.
func runList(cfg sim.Config, t *Trial, runs []sim.Run) string {
	var b strings.Builder
	for i, r := range runs {
		if i > 0 {
			b.WriteByte(';')
		}
		at := func(d time.Duration) string { return t.At(d).UTC().Format(time.RFC3339Nano) }
		fmt.Fprintf(&b, "%s/%s/%d/%s", at(r.From), at(r.To), r.Workers, cfg.Clusters[r.Cluster].Name)
	}
	return b.String()
}

// WriteCSV writes a line for each job of each trial.
func WriteCSV(w io.Writer, cfg sim.Config, trials []Trial) error {
	cw := csv.NewWriter(w)
	if err := cw.Write([]string{
		"planner", "job", "submitted", "start", "finish", "cluster", "length_h", "wait_h", "delay_h", "late",
		"runs", "worker_hours", "energy_kwh", "carbon_g", "expected_g", "baseline_g",
		"filled_h", "unpriced_h", "request", "run_list",
	}); err != nil {
		return err
	}
	num := func(v float64) string {
		if math.IsNaN(v) {
			return "" // withheld
		}
		return strconv.FormatFloat(v, 'g', 10, 64)
	}
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	if err := rows(cfg, trials, func(r Row) error {
		return cw.Write([]string{
			r.Planner, r.Job, at(r.Submitted), at(r.Start), at(r.Finish), r.Cluster, num(r.LengthH), num(r.WaitH), num(r.DelayH),
			strconv.FormatBool(r.Late), strconv.FormatInt(r.Runs, 10), num(r.WorkerHours), num(r.EnergyKWh), num(r.CarbonG), num(r.ExpectedG), num(r.BaselineG),
			num(r.FilledH), num(r.UnpricedH), r.Request, r.RunList,
		})
	}); err != nil {
		return err
	}
	cw.Flush()
	return cw.Error()
}

// WriteParquet writes the same table as WriteCSV.
func WriteParquet(w io.Writer, cfg sim.Config, trials []Trial) error {
	pw := parquet.NewGenericWriter[Row](w, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("lull", version.String(), ""))
	batch := make([]Row, 0, 1024)
	flush := func() error {
		_, err := pw.Write(batch)
		batch = batch[:0]
		return err
	}
	if err := rows(cfg, trials, func(r Row) error {
		batch = append(batch, r)
		if len(batch) < cap(batch) {
			return nil
		}
		return flush()
	}); err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	return pw.Close()
}

// document is what WriteJSON writes.
type document struct {
	Version  string    `json:"version"`
	Slot     string    `json:"slot"`
	Seed     uint64    `json:"seed"`
	From     time.Time `json:"from"`
	Clusters []string  `json:"clusters"`
	Summary  []Summary `json:"summary"`
	// Notes say what figures are relative to and rest on, Skipped which entries of the trace
	// are no jobs, by reason.
	Notes   []string      `json:"notes"`
	Skipped trace.Skipped `json:"skipped,omitempty"`
	// Load is the mean use by planner, cluster and slot; Intensity that of the grid.
	Resource  string                 `json:"resource"`
	Load      map[string][][]float64 `json:"load"`
	Intensity [][]float64            `json:"intensity"`
	// Jobs are a row for each job and planner, if they are asked for.
	Jobs []JobRow `json:"jobs,omitempty"`
}

// WriteJSON writes the summary and what the pictures show, and if jobs is set a JobRow for
// each job and planner. reading is what became of the entries of the trace.
func WriteJSON(w io.Writer, cfg sim.Config, trials []Trial, reading trace.Reading, jobs bool) error {
	sums := Summarize(cfg, trials)
	d := document{
		Version: version.String(), Slot: cfg.Slot.String(), Seed: cfg.Seed, From: firstSlot(cfg), Summary: sums, Notes: Notes(cfg, sums, reading), Skipped: reading.Skipped,
		Resource: mainResource(cfg), Load: map[string][][]float64{},
	}
	slots := 0
	for i := range trials {
		d.Load[trials[i].Label] = trials[i].Load
		for _, l := range trials[i].Load {
			slots = max(slots, len(l))
		}
	}
	for c := range cfg.Clusters {
		d.Clusters = append(d.Clusters, cfg.Clusters[c].Name)
		values := make([]float64, slots)
		for t := range values {
			from := d.From.Add(time.Duration(t) * cfg.Slot)
			values[t] = float64(cfg.Clusters[c].Actual.FilledMean(from, from.Add(cfg.Slot)).Mean)
		}
		d.Intensity = append(d.Intensity, values)
	}
	if jobs {
		d.Jobs = jobRows(cfg, trials)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	if err := enc.Encode(d); err != nil {
		return fmt.Errorf("json: %w", err)
	}
	return nil
}
