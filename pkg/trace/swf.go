package trace

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/pkg/units"
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
	logStatus
	logUser
)

// Values of the column status. Each burst of a job that was swapped out or checkpointed has a line of its own beside
// the line that summarises the job.
const (
	statusFailed     = 0
	statusBurst      = 2 // to be continued
	statusLast       = 3 // the last burst of a job that was completed
	statusLastFailed = 4
	statusCancelled  = 5
)

var logColumns = []string{"job", "submit time", "wait time", "run time", "processors", "CPU time", "memory", "requested processors", "requested time", "requested memory", "status", "user"}

var (
	swf = logFormat{comment: ";", columns: logColumns, fewest: 11}
	gwf = logFormat{comment: "#", columns: logColumns, fewest: 11}
)

// ReadSWF reads the Standard Workload Format of the Parallel Workloads Archive, version
// 2.2: times in seconds, processors taken for CPUs. Jobs without submit time, run time or
// processors are counted in Skipped.
//
// A job that was swapped out counts once: by its summary line, and its bursts (status 2, 3
// and 4) are counted in Skipped; where it has no summary line, by the sum of its bursts.
// Notes say how many of the jobs failed or were cancelled. A number that stands for several
// jobs, as of one that was requeued, gets the line as a suffix.
//
// Errors wrap ErrTrace and name line, column, value and what is accepted.
// Complexity: O(lines).
func ReadSWF(r io.Reader) (*Trace, error) { return swf.read(r) }

// ReadGWF reads the Grid Workload Format of the Grid Workloads Archive, whose first
// columns are those of SWF. Rows as for ReadSWF.
func ReadGWF(r io.Reader) (*Trace, error) { return gwf.read(r) }

// logReader makes a trace of the lines of a log.
type logReader struct {
	logFormat
	t      *Trace
	shared requests
	words  map[string]string
	first  time.Duration // the submit time from which arrivals count; negative before there is one
	ids    uniqueIDs
	// bursts are the jobs of which only bursts were read so far, by their number.
	bursts map[string]*burstJob
	counts map[int]int // jobs by status
}

// burstJob is a job that its bursts make up: its place in the trace, how many they are, and the status of the last.
type burstJob struct{ at, bursts, status int }

// logLine is what a line says.
type logLine struct {
	at     int // number of the line
	fields []string
	v      [logStatus + 1]float64
}

func (l *logLine) status() int { return int(l.v[logStatus]) }

func (l *logLine) burst() bool { return l.status() >= statusBurst && l.status() <= statusLastFailed }

func (f logFormat) read(r io.Reader) (*Trace, error) {
	in, err := units.PlainText(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 1<<20)
	lr := logReader{logFormat: f, t: &Trace{}, shared: requests{}, words: map[string]string{}, first: -1, bursts: map[string]*burstJob{}, counts: map[int]int{}}
	for line := 1; scanner.Scan(); line++ {
		text := strings.TrimSpace(scanner.Text())
		if text == "" || strings.HasPrefix(text, f.comment) {
			lr.t.header(text)
			continue
		}
		l, err := f.line(line, text)
		if err != nil {
			return nil, err
		}
		if err := lr.take(&l); err != nil {
			return nil, err
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	lr.end()
	return lr.t, nil
}

// take takes up a line.
func (lr *logReader) take(l *logLine) error {
	number := l.fields[logJob]
	made := lr.bursts[number]
	switch {
	case !l.burst():
		j, ok, err := lr.job(l)
		if err != nil || !ok {
			return err
		}
		lr.counts[l.status()]++
		if made == nil {
			j.ID = lr.ids.of(number, l.at)
			return lr.t.add(j, l.at, lr.columns[logSubmit])
		}
		// The summary of a job whose bursts were read before: it counts in their place.
		was := &lr.t.Jobs[made.at]
		j.ID, j.Arrival = was.ID, was.Arrival
		*was = j
		lr.t.skip(BurstOfJob, made.bursts)
		delete(lr.bursts, number)
	case made != nil:
		run, _ := seconds(l.v[logRun])
		lr.t.Jobs[made.at].Length += run
		made.bursts++
		made.status = l.status()
	case lr.ids.has(number):
		lr.t.Skip(BurstOfJob)
	default:
		run := l.v[logRun]
		l.v[logRun] = max(run, 1) // another burst may say more; end leaves out a job whose bursts say nothing
		j, ok, err := lr.job(l)
		if err != nil || !ok {
			return err
		}
		if run <= 0 {
			j.Length = 0
		}
		j.ID = strings.Clone(number)
		lr.bursts[j.ID] = &burstJob{len(lr.t.Jobs), 1, l.status()}
		return lr.t.add(j, l.at, lr.columns[logSubmit])
	}
	return nil
}

// end leaves out jobs of bursts without a run time, and says how many jobs did not end well, as what they ran counts
// all the same.
func (lr *logReader) end() {
	for _, b := range lr.bursts {
		if lr.t.Jobs[b.at].Length > 0 {
			lr.counts[b.status]++
		}
	}
	kept := slices.DeleteFunc(lr.t.Jobs, func(j Job) bool { return j.Length <= 0 })
	lr.t.skip(NoRunTime, len(lr.t.Jobs)-len(kept))
	lr.t.Jobs = kept
	for _, x := range []struct {
		status    int
		one, more string
	}{{statusFailed, "failed", "failed"}, {statusLastFailed, "failed", "failed"}, {statusCancelled, "was cancelled", "were cancelled"}} {
		switch n := lr.counts[x.status]; {
		case n == 1:
			lr.t.Notes = append(lr.t.Notes, fmt.Sprintf("1 job %s (status %d); the time that it ran counts", x.one, x.status))
		case n > 1:
			lr.t.Notes = append(lr.t.Notes, fmt.Sprintf("%d jobs %s (status %d); the time that they ran counts", n, x.more, x.status))
		}
	}
}

// line splits a line and reads its numbers.
func (f logFormat) line(at int, text string) (logLine, error) {
	l := logLine{at: at, fields: strings.Fields(text)}
	if len(l.fields) < f.fewest {
		return l, fmt.Errorf("%w: line %d: %d columns; accepted: at least %d", ErrTrace, at, len(l.fields), f.fewest)
	}
	for _, column := range []int{logSubmit, logRun, logProcs, logReqProcs, logReqTime, logStatus} {
		v, err := strconv.ParseFloat(l.fields[column], 64)
		if err != nil {
			return l, fmt.Errorf("%w: line %d: column %s: %q; accepted: a number", ErrTrace, at, f.columns[column], l.fields[column])
		}
		l.v[column] = v
	}
	return l, nil
}

// unknown is what both formats write for a value that the log does not have.
const unknown = -1

// job is the job of a line, without its ID; false for one that is counted as skipped.
func (lr *logReader) job(l *logLine) (Job, bool, error) {
	t := lr.t
	procs := l.v[logProcs]
	if procs <= 0 {
		procs = l.v[logReqProcs]
	}
	switch {
	case l.v[logRun] <= 0:
		t.Skip(NoRunTime)
		return Job{}, false, nil
	case procs <= 0:
		t.Skip(NoProcessors)
		return Job{}, false, nil
	case l.v[logSubmit] == unknown:
		t.Skip(NoSubmitTime)
		return Job{}, false, nil
	}
	j := Job{Request: lr.shared.of([4]float64{procs})}
	for column, to := range map[int]*time.Duration{logSubmit: &j.Arrival, logRun: &j.Length} {
		d, ok := seconds(l.v[column])
		if !ok {
			return j, false, fmt.Errorf("%w: line %d: column %s: %q; accepted: seconds, at least 0", ErrTrace, l.at, lr.columns[column], l.fields[column])
		}
		*to = d
	}
	if d, ok := seconds(l.v[logReqTime]); ok {
		j.Estimate = d
	}
	if len(l.fields) > logUser {
		user := l.fields[logUser]
		if lr.words[user] == "" {
			lr.words[strings.Clone(user)] = strings.Clone(user)
		}
		j.Class = lr.words[user]
	}
	if lr.first < 0 {
		lr.first = j.Arrival
		if !t.Start.IsZero() {
			t.Start = t.Start.Add(lr.first)
		}
	}
	if j.Arrival -= lr.first; j.Arrival < 0 {
		return j, false, fmt.Errorf("%w: line %d: column %s: %q lies before the first job; accepted: ascending times", ErrTrace, l.at, lr.columns[logSubmit], l.fields[logSubmit])
	}
	return j, true, nil
}

// uniqueIDs makes IDs of the numbers of jobs.
type uniqueIDs struct {
	// ascending are the numbers while they ascend, as they do in nearly all logs; seen are all of them after that.
	ascending []int64
	seen      map[string]bool
}

// has reports whether a number was given an ID.
func (u *uniqueIDs) has(number string) bool {
	if u.seen != nil {
		return u.seen[number]
	}
	n, err := strconv.ParseInt(number, 10, 64)
	_, found := slices.BinarySearch(u.ascending, n)
	return err == nil && found
}

// of returns the ID of a number: the number itself, or where another job has it, the number and the line.
func (u *uniqueIDs) of(number string, line int) string {
	id := strings.Clone(number)
	if u.seen == nil {
		n, err := strconv.ParseInt(id, 10, 64)
		if last := len(u.ascending) - 1; err == nil && strconv.FormatInt(n, 10) == id && (last < 0 || n > u.ascending[last]) {
			u.ascending = append(u.ascending, n)
			return id
		}
		u.seen = make(map[string]bool, len(u.ascending)+1)
		for _, n := range u.ascending {
			u.seen[strconv.FormatInt(n, 10)] = true
		}
		u.ascending = nil
	}
	if u.seen[id] {
		id = fmt.Sprintf("%s (line %d)", id, line)
	}
	u.seen[id] = true
	return id
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
