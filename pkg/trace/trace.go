// Package trace reads and generates traces of batch jobs: when each came, how long it
// ran and what it asked for.
package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/pkg/workload"
)

// ErrTrace marks a trace that cannot be read.
var ErrTrace = errors.New("invalid job trace")

// MaxJobs bounds a trace.
const MaxJobs = 5_000_000

// CPU, GPU, Memory and Network are the names of resources in requests: cores, devices,
// GiB, Gbit/s.
const (
	CPU     = "cpu"
	GPU     = "gpu"
	Memory  = "memory"
	Network = "network"
)

// Job is a job of a trace. Zero values mean that the trace does not say.
type Job struct {
	ID string
	// Arrival counts from the start of the trace; Length is the run time at the stated
	// request, Estimate what its user asked for.
	Arrival, Length, Estimate time.Duration
	// Deadline counts from the start of the trace, MaxDelay from when the job would have
	// ended if it had run at once.
	Deadline, MaxDelay time.Duration
	Kind               workload.Kind
	// Request is shared between jobs that ask for the same.
	Request map[string]float64
	// MinWorkers..MaxWorkers and Profile, the name of a capacity curve, of elastic jobs.
	MinWorkers, MaxWorkers int
	Profile                string
	PriorityClass          string
	// Class is what jobs of a kind have in common: user, queue or owner.
	Class string
	// Watts is the mean power of the job as it ran, in W and without PUE, and Zone the grid zone that it ran in.
	Watts float64
	Zone  string
}

// Trace is jobs in order of arrival.
type Trace struct {
	Jobs []Job
	// Start is when the trace begins, the zero time where only distances matter.
	Start time.Time
	// Offset is how much was cut off before Start; arrivals count from the cut.
	Offset time.Duration
	Reading
}

// Reading is what became of the entries of a trace as it was read.
type Reading struct {
	// Skipped counts entries that are not jobs: what never ran, or what another entry counts.
	Skipped Skipped
	// Notes say what a reader must know of jobs that count, each in a sentence without a full stop.
	Notes []string
}

// Skipped counts entries of a trace that are not jobs, by the reason, which completes "3
// with ...".
type Skipped map[string]int

// Reasons why an entry is no job of a trace.
const (
	NoRunTime    = "no run time"
	NoProcessors = "no processors"
	NoSubmitTime = "no submit time"
	NotFinished  = "no completion"
	Failed       = "a failure"
	// CountedElsewhere is what only says more of another entry, as the Workload of a Job.
	CountedElsewhere = "another entry that counts their work"
	BurstOfJob       = "status 2, 3 or 4: bursts of a job whose summary line counts"
	EarlierRow       = "a later row of the same run"
	JobStep          = "the number of a step, whose job counts"
)

// Total returns how many entries were skipped.
func (s Skipped) Total() int {
	n := 0
	for _, v := range s {
		n += v
	}
	return n
}

// String returns the counts with their reasons, the most frequent first; "" for none.
func (s Skipped) String() string {
	reasons := slices.Sorted(maps.Keys(s))
	slices.SortStableFunc(reasons, func(a, b string) int { return s[b] - s[a] })
	parts := make([]string, len(reasons))
	for i, why := range reasons {
		parts[i] = fmt.Sprintf("%d with %s", s[why], why)
	}
	return strings.Join(parts, ", ")
}

// Skip counts an entry that is no job.
func (t *Trace) Skip(why string) { t.skip(why, 1) }

func (t *Trace) skip(why string, n int) {
	if n == 0 {
		return
	}
	if t.Skipped == nil {
		t.Skipped = Skipped{}
	}
	t.Skipped[why] += n
}

// Span is from the start of the trace to the last arrival.
func (t *Trace) Span() time.Duration {
	if len(t.Jobs) == 0 {
		return 0
	}
	return t.Jobs[len(t.Jobs)-1].Arrival
}

// Zone returns the grid zone in which the jobs used most energy as they ran; of equal ones the first by name. It returns
// "" if the trace states the zone of no job.
func (t *Trace) Zone() string {
	used := map[string]float64{}
	for i := range t.Jobs {
		if j := &t.Jobs[i]; j.Zone != "" {
			used[j.Zone] += j.Watts * j.Length.Hours()
		}
	}
	most := ""
	for _, zone := range slices.Sorted(maps.Keys(used)) {
		if most == "" || used[zone] > used[most] {
			most = zone
		}
	}
	return most
}

// Between returns the jobs that arrive in [from, to). Their arrivals count from from,
// which Start and Offset account for. Skipped and Notes stay those of the whole trace: what
// never ran has no place in it.
func (t *Trace) Between(from, to time.Duration) *Trace {
	out := &Trace{Offset: t.Offset + from, Reading: t.Reading}
	if !t.Start.IsZero() {
		out.Start = t.Start.Add(from)
	}
	for _, j := range t.Jobs {
		if j.Arrival < from || j.Arrival >= to {
			continue
		}
		j.Arrival -= from
		if j.Deadline > 0 {
			j.Deadline -= from
		}
		out.Jobs = append(out.Jobs, j)
	}
	return out
}

// requests shares equal requests.
type requests map[[4]float64]map[string]float64

var resourceNames = [4]string{CPU, GPU, Memory, Network}

func (r requests) of(amounts [4]float64) map[string]float64 {
	if m, ok := r[amounts]; ok {
		return m
	}
	m := map[string]float64{}
	for i, v := range amounts {
		if v > 0 {
			m[resourceNames[i]] = v
		}
	}
	r[amounts] = m
	return m
}

// seconds turns a number of seconds into a duration; false where it is not finite,
// below zero or longer than a hundred years.
func seconds(v float64) (time.Duration, bool) {
	const most = 100 * 366 * 24 * 3600
	if math.IsNaN(v) || v < 0 || v > most {
		return 0, false
	}
	return time.Duration(math.Round(v * float64(time.Second))), true
}

// add appends a job and checks its place in the order.
func (t *Trace) add(j Job, line int, column string) error {
	if n := len(t.Jobs); n > 0 && j.Arrival < t.Jobs[n-1].Arrival {
		return fmt.Errorf("%w: line %d: column %s: %v lies before %v of the job ahead; accepted: ascending times",
			ErrTrace, line, column, j.Arrival.Seconds(), t.Jobs[n-1].Arrival.Seconds())
	}
	if len(t.Jobs) == MaxJobs {
		return fmt.Errorf("%w: line %d: accepted: at most %d jobs", ErrTrace, line, MaxJobs)
	}
	t.Jobs = append(t.Jobs, j)
	return nil
}

// byteOrderMark begins the files that spreadsheets write.
const byteOrderMark = "\ufeff"

// csvError names the line of a table that cannot be read, and where its number of fields
// is wrong, the one accepted.
func csvError(err error, record, header []string) error {
	var at *csv.ParseError
	if errors.Is(err, csv.ErrFieldCount) && errors.As(err, &at) {
		return fmt.Errorf("%w: line %d: %d fields; accepted: %d, those of the header %s", ErrTrace, at.Line, len(record), len(header), strings.Join(header, ","))
	}
	return fmt.Errorf("%w: %w", ErrTrace, err)
}
