package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// columns of a CSV trace.
const (
	colID       = "id"
	colArrival  = "arrival_s"
	colLength   = "length_s"
	colCPUs     = "cpus"
	colGPUs     = "gpus"
	colMemory   = "memory_gib"
	colNetwork  = "network_gbps"
	colEstimate = "estimate_s"
	colDeadline = "deadline_s"
	colMaxDelay = "max_delay_s"
	colKind     = "kind"
	colMin      = "min_workers"
	colMax      = "max_workers"
	colProfile  = "profile"
	colPriority = "priority_class"
	colClass    = "class"
)

// ReadCSV reads a trace with a header of at least
//
//	id,arrival_s,length_s,cpus
//
// and, in any order, gpus, memory_gib, network_gbps, estimate_s, deadline_s (from the
// start of the trace), max_delay_s, kind (rigid, interruptible, elastic), min_workers,
// max_workers, profile, priority_class and class. Further columns are ignored, empty
// values are unknown. Arrivals ascend; times are finite and at least 0, lengths above.
//
// ReadCSV recognizes the emissions.csv of CodeCarbon by its header and reads it with its
// own rules, see codecarbon.go.
//
// Errors wrap ErrTrace and name line, column, value and what is accepted.
func ReadCSV(r io.Reader) (*Trace, error) {
	text, err := units.PlainText(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	cr := csv.NewReader(text)
	cr.ReuseRecord = true
	header, err := cr.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: line 1: no header: %w; accepted: %s,%s,%s,%s", ErrTrace, units.ReadError(err), colID, colArrival, colLength, colCPUs)
	}
	header = slices.Clone(header) // the reader uses it again
	at, err := columnsOf(header, 1)
	if err != nil {
		return nil, err
	}
	if isCodeCarbon(at) {
		return readCodeCarbon(cr, header, at)
	}
	for _, name := range []string{colID, colArrival, colLength, colCPUs} {
		if _, ok := at[name]; !ok && strings.Contains(header[0], ";") {
			return nil, fmt.Errorf("%w: line 1: header %q: the columns are separated by semicolons; accepted: commas", ErrTrace, header[0])
		}
		if _, ok := at[name]; !ok && isSacct(strings.Split(strings.Join(header, ","), saSeparator)) {
			return nil, fmt.Errorf("%w: line 1: %.80q is the header of sacct; accepted: format sacct, or a file name that ends in .sacct", ErrTrace, strings.Join(header, ","))
		}
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("%w: line 1: column %s is missing; accepted: at least %s,%s,%s,%s, or the emissions.csv of CodeCarbon with %s,%s,%s",
				ErrTrace, name, colID, colArrival, colLength, colCPUs, ccTimestamp, ccDuration, ccEnergy)
		}
	}
	row := csvRow{at: at, shared: requests{}, words: map[string]string{}}
	t := &Trace{}
	for {
		row.record, err = cr.Read()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, csvError(err, row.record, header)
		}
		row.line, _ = cr.FieldPos(0)
		j, err := row.job()
		if err != nil {
			return nil, err
		}
		if err := t.add(j, row.line, colArrival); err != nil {
			return nil, err
		}
	}
}

// columnsOf says where the columns of a header are.
func columnsOf(header []string, line int) (map[string]int, error) {
	at := make(map[string]int, len(header))
	for i, name := range header {
		name = strings.TrimSpace(name)
		if _, twice := at[name]; twice {
			return nil, fmt.Errorf("%w: line %d: column %s stands twice", ErrTrace, line, name)
		}
		at[name] = i
	}
	return at, nil
}

type csvRow struct {
	at     map[string]int
	record []string
	line   int
	shared requests
	words  map[string]string
	err    error
}

func (r *csvRow) text(column string) string {
	if i, ok := r.at[column]; ok {
		return strings.TrimSpace(r.record[i])
	}
	return ""
}

// word is a text that many rows share.
func (r *csvRow) word(column string) string {
	text := r.text(column)
	if text == "" {
		return ""
	}
	w, ok := r.words[text]
	if !ok {
		w = strings.Clone(text)
		r.words[w] = w
	}
	return w
}

func (r *csvRow) fail(column, value, accepted string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: line %d: column %s: %q; accepted: %s", ErrTrace, r.line, column, value, accepted)
	}
}

func (r *csvRow) duration(column string, above bool) time.Duration {
	text := r.text(column)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	d, ok := seconds(v)
	switch {
	case err != nil || !ok:
		r.fail(column, text, "seconds, at least 0")
	case above && d == 0:
		r.fail(column, text, "seconds, above 0")
	}
	return d
}

func (r *csvRow) amount(column string) float64 {
	text := r.text(column)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v < 1e12) {
		r.fail(column, text, "a number of at least 0")
	}
	return v
}

func (r *csvRow) workers(column string) int {
	text := r.text(column)
	if text == "" {
		return 0
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 || v > workload.MaxScale {
		r.fail(column, text, fmt.Sprintf("a whole number of 1 to %d", workload.MaxScale))
	}
	return v
}

func (r *csvRow) job() (Job, error) {
	for _, column := range []string{colID, colArrival, colLength, colCPUs} {
		if r.text(column) == "" {
			r.fail(column, "", "a value")
		}
	}
	j := Job{
		ID: strings.Clone(r.text(colID)), Arrival: r.duration(colArrival, false), Length: r.duration(colLength, true), Estimate: r.duration(colEstimate, true),
		Deadline: r.duration(colDeadline, true), MaxDelay: r.duration(colMaxDelay, false),
		MinWorkers: r.workers(colMin), MaxWorkers: r.workers(colMax), Profile: r.word(colProfile),
		PriorityClass: r.word(colPriority), Class: r.word(colClass),
		Request: r.shared.of([4]float64{r.amount(colCPUs), r.amount(colGPUs), r.amount(colMemory), r.amount(colNetwork)}),
	}
	switch k := r.word(colKind); workload.Kind(k) {
	case "", workload.Rigid, workload.Interruptible, workload.Elastic:
		j.Kind = workload.Kind(k)
	default:
		r.fail(colKind, k, "rigid, interruptible or elastic")
	}
	if len(j.Request) == 0 {
		r.fail(colCPUs, r.text(colCPUs), "above 0, or an amount of another resource above 0")
	}
	if j.Deadline > 0 && j.Deadline <= j.Arrival {
		r.fail(colDeadline, r.text(colDeadline), "later than the arrival")
	}
	if j.MaxWorkers > 0 && j.MaxWorkers < max(1, j.MinWorkers) {
		r.fail(colMax, r.text(colMax), "at least min_workers")
	}
	return j, r.err
}
