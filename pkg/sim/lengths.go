package sim

import (
	"sort"
	"time"
)

// Lengths estimates run times where they are not known beforehand.
type Lengths interface {
	// Estimate is the run time expected of a job that has done some of it.
	Estimate(j *Job, done time.Duration) time.Duration
	// Observe is told of each job that ends.
	Observe(j *Job)
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
// Until a class has enough of them, Job.Estimate stands.
type Learned struct {
	Class func(j *Job) int

	classes map[int]*observed
}

type observed struct {
	lengths []time.Duration // ascending
	above   []float64       // above[i] is the sum of lengths[i:], ns
	fresh   []time.Duration
}

// learnedFrom is the least number of jobs an estimate rests on.
const learnedFrom = 5

// Observe implements Lengths.
func (l *Learned) Observe(j *Job) {
	if l.classes == nil {
		l.classes = map[int]*observed{}
	}
	c := l.Class(j)
	if l.classes[c] == nil {
		l.classes[c] = &observed{}
	}
	o := l.classes[c]
	o.fresh = append(o.fresh, j.Length)
	if len(o.fresh) > 8+len(o.lengths)/8 {
		o.merge()
	}
}

// merge sorts what was seen since in; its cost is spread over many observations.
func (o *observed) merge() {
	o.lengths = append(o.lengths, o.fresh...)
	o.fresh = o.fresh[:0]
	sort.Slice(o.lengths, func(a, b int) bool { return o.lengths[a] < o.lengths[b] })
	o.above = make([]float64, len(o.lengths)+1)
	for i := len(o.lengths) - 1; i >= 0; i-- {
		o.above[i] = o.above[i+1] + float64(o.lengths[i])
	}
}

// Estimate implements Lengths.
//
// Complexity: O(log jobs).
func (l *Learned) Estimate(j *Job, done time.Duration) time.Duration {
	o := l.classes[l.Class(j)]
	if o == nil || len(o.lengths) == 0 {
		return j.Estimate
	}
	i := sort.Search(len(o.lengths), func(i int) bool { return o.lengths[i] > done })
	n := len(o.lengths) - i
	if n < learnedFrom {
		return j.Estimate
	}
	return time.Duration(o.above[i] / float64(n))
}
