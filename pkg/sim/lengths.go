package sim

import (
	"fmt"
	"time"

	"lull.dev/lull/pkg/workload"
)

// Lengths estimates run times where they are not known beforehand.
type Lengths interface {
	// Estimate is the run time expected of a job that has done some of it.
	Estimate(j *Job, done time.Duration) time.Duration
	// Observe is told of each job that ends.
	Observe(j *Job)
}

// Uncertain is a Lengths that also says how far run times may exceed its estimate.
type Uncertain interface {
	Lengths
	// Quantiles are whole run times of a job that has done some of it, in rising order; nil where too
	// little is known.
	Quantiles(j *Job, done time.Duration) []workload.RunTimeQuantile
}

// MeanOf estimates every job by the mean of its class (CarbonFlex, Section 6.1: queues
// whose mean length is known). Class is the index of a job's class in Means.
type MeanOf struct {
	Class func(j *Job) int
	Means []time.Duration
}

// Estimate implements Lengths.
func (m MeanOf) Estimate(j *Job, _ time.Duration) time.Duration { return m.Means[m.Class(j)] }

// Observe implements Lengths: nothing is learned.
func (m MeanOf) Observe(*Job) {}

// Learned estimates the run time of a job by those of the jobs of its class that ran at
// least as long as it has: the mean of the lengths above what it has done,
//
//	E[L | L > done].
//
// The quantiles of that distribution guard deadlines (workload.Lengths.Quantiles).
//
// Until a class has enough of them, Job.Estimate stands.
type Learned struct {
	Class func(j *Job) int

	classes map[int]*workload.Lengths
}

// learnedFrom is the least number of jobs an estimate rests on.
const learnedFrom = 5

// Observe implements Lengths.
func (l *Learned) Observe(j *Job) {
	if l.classes == nil {
		l.classes = map[int]*workload.Lengths{}
	}
	c := l.Class(j)
	if l.classes[c] == nil {
		l.classes[c] = &workload.Lengths{}
	}
	l.classes[c].Add(j.Length)
}

// Estimate implements Lengths.
//
// Complexity: O(log jobs).
func (l *Learned) Estimate(j *Job, done time.Duration) time.Duration {
	o := l.classes[l.Class(j)]
	if o == nil {
		return j.Estimate
	}
	mean, n := o.Above(done)
	if n < learnedFrom {
		return j.Estimate
	}
	return mean
}

// Quantiles implements Uncertain. Runs that have not ended are not counted.
//
// Complexity: O(log jobs).
func (l *Learned) Quantiles(j *Job, done time.Duration) []workload.RunTimeQuantile {
	o := l.classes[l.Class(j)]
	if o == nil {
		return nil
	}
	if _, n := o.Above(done); n < learnedFrom { // the estimate is not of these runs either
		return nil
	}
	return o.Quantiles(done, nil, workload.Probabilities...)
}

func (j *Job) validateQuantiles() error {
	last := workload.RunTimeQuantile{}
	for k, q := range j.Quantiles {
		switch {
		case !(q.P > last.P && q.P < 1):
			return fmt.Errorf("%w: job %q: quantiles[%d]: p: %v; accepted: above 0, below 1, rising", ErrConfig, j.ID, k, q.P)
		case q.Length <= 0 || q.Length < last.Length:
			return fmt.Errorf("%w: job %q: quantiles[%d]: length: %v; accepted: above 0, not falling", ErrConfig, j.ID, k, q.Length)
		}
		last = q
	}
	return nil
}
