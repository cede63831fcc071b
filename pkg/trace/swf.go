package trace

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// logFormat is a format of parallel workloads: numbers in columns, -1 for unknown.
type logFormat struct {
	comment string
	columns []string // names, for errors
	fewest  int
}

// Positions of the columns that both formats share.
const (
	logJob = iota
	logSubmit
	_ // wait
	logRun
	logProcs
	_ // average CPU time
	logMemory
	logReqProcs
	logReqTime
	logReqMemory
	_ // status
	logUser
)

var logColumns = []string{"job", "submit time", "wait time", "run time", "processors", "CPU time", "memory", "requested processors", "requested time", "requested memory", "status", "user"}

var (
	swf = logFormat{comment: ";", columns: logColumns, fewest: 11}
	gwf = logFormat{comment: "#", columns: logColumns, fewest: 11}
)

// ReadSWF reads the Standard Workload Format of the Parallel Workloads Archive, version
// 2.2: times in seconds, processors taken for CPUs. Jobs without run time or processors
// never ran: they are counted in Skipped.
//
// Errors wrap ErrTrace and name line, column, value and what is accepted.
func ReadSWF(r io.Reader) (*Trace, error) { return swf.read(r) }

// ReadGWF reads the Grid Workload Format of the Grid Workloads Archive, whose first
// columns are those of SWF. Rows as for ReadSWF.
func ReadGWF(r io.Reader) (*Trace, error) { return gwf.read(r) }

func (f logFormat) read(r io.Reader) (*Trace, error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	t, shared, words := &Trace{}, requests{}, map[string]string{}
	first := time.Duration(-1)
	for line := 1; scanner.Scan(); line++ {
		text := strings.TrimSpace(strings.TrimPrefix(scanner.Text(), byteOrderMark))
		if text == "" || strings.HasPrefix(text, f.comment) {
			t.header(text)
			continue
		}
		fields := strings.Fields(text)
		if len(fields) < f.fewest {
			return nil, fmt.Errorf("%w: line %d: %d columns; accepted: at least %d", ErrTrace, line, len(fields), f.fewest)
		}
		number := func(column int) (float64, error) {
			v, err := strconv.ParseFloat(fields[column], 64)
			if err != nil {
				return 0, fmt.Errorf("%w: line %d: column %s: %q; accepted: a number", ErrTrace, line, f.columns[column], fields[column])
			}
			return v, nil
		}
		var v [logReqMemory + 1]float64
		for _, column := range []int{logSubmit, logRun, logProcs, logReqProcs, logReqTime} {
			var err error
			if v[column], err = number(column); err != nil {
				return nil, err
			}
		}
		procs := v[logProcs]
		if procs <= 0 {
			procs = v[logReqProcs]
		}
		if v[logRun] <= 0 {
			t.Skip(NoRunTime)
			continue
		}
		if procs <= 0 {
			t.Skip(NoProcessors)
			continue
		}
		j := Job{ID: strings.Clone(fields[logJob]), Request: shared.of([4]float64{procs})}
		for column, to := range map[int]*time.Duration{logSubmit: &j.Arrival, logRun: &j.Length} {
			d, ok := seconds(v[column])
			if !ok {
				return nil, fmt.Errorf("%w: line %d: column %s: %q; accepted: seconds, at least 0", ErrTrace, line, f.columns[column], fields[column])
			}
			*to = d
		}
		if d, ok := seconds(v[logReqTime]); ok {
			j.Estimate = d
		}
		if len(fields) > logUser {
			if words[fields[logUser]] == "" {
				words[strings.Clone(fields[logUser])] = strings.Clone(fields[logUser])
			}
			j.Class = words[fields[logUser]]
		}
		if first < 0 {
			first = j.Arrival
			if !t.Start.IsZero() {
				t.Start = t.Start.Add(first)
			}
		}
		if j.Arrival -= first; j.Arrival < 0 {
			return nil, fmt.Errorf("%w: line %d: column %s: %q lies before the first job; accepted: ascending times", ErrTrace, line, f.columns[logSubmit], fields[logSubmit])
		}
		if err := t.add(j, line, f.columns[logSubmit]); err != nil {
			return nil, err
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	return t, nil
}

// header takes the start of the trace from a comment of SWF.
func (t *Trace) header(comment string) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimLeft(comment, ";#")), "UnixStartTime:")
	if !ok {
		return
	}
	if v, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64); err == nil && v > 0 {
		t.Start = time.Unix(v, 0).UTC()
	}
}
