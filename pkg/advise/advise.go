// Package advise tells what planners would save on one job, whenever it were
// submitted: it plans the job from every start of a year and sums the outcomes up.
//
// Source: Hanafy et al., CarbonScaler, POMACS 7(3), 2023, Section 4.4 (Carbon Advisor);
// distributions, costs, places and the choice among them are Lull's.
package advise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// ErrStudy marks a study that cannot be made.
var ErrStudy = errors.New("invalid study")

// Place is where the job might run.
type Place struct {
	Zone string
	// Start of the first slot.
	Start time.Time
	// Intensity of every slot, gCO2eq/kWh; Told is what planners see, nil for the same.
	Intensity, Told []float64
	// Unknown marks slots whose intensity is not known, nil for none: starts that might use
	// one are withheld.
	Unknown []bool
	// Watts of a used unit of each resource, PUE of the building.
	Watts map[string]float64
	PUE   float64
}

// Job is the job that is submitted again and again.
type Job struct {
	// Length is its run time at MinWorkers, in slots.
	Length                 float64
	Kind                   workload.Kind
	Request                map[string]float64
	MinWorkers, MaxWorkers int
	Curve, Watts           []float64
	// Told is the curve that planners see, nil for the same.
	Told []float64
}

// Method is a planner with its name.
type Method struct {
	Name    string
	Planner plan.Planner
}

// Study is what to try.
type Study struct {
	Job  Job
	Slot time.Duration
	// Slack is how many slots later than Length the job may end.
	Slack  int
	Place  Place
	Method Method
	// Stride is the number of slots between starts, 0 meaning 1.
	Stride int
	// MinSaving is the share of its emissions that the job must save by waiting or pausing, by what planners see; else it runs at
	// once, as by decide.Snapshot.MinSaving. 0 follows every plan.
	MinSaving float64
}

// Outcome is the job from one start.
type Outcome struct {
	// Grams emitted, and by running at once at MinWorkers.
	Grams, Agnostic float64
	// Delay is how many slots later it ends than by running at once, below 0 where
	// scaling made it faster. Wait is until its first slot.
	Delay, Wait float64
	// Workers is the sum of workers x slots, WorkersAtOnce that of running at once.
	Workers, WorkersAtOnce float64
	// Late is how many slots past the deadline it ends, where its curve was not as told.
	Late float64
	// Withheld says that a slot it might use has no known intensity: nothing else is stated.
	Withheld bool
}

// Saving is the share of the emissions of running at once that it avoids.
func (o Outcome) Saving() float64 {
	if o.Agnostic <= 0 {
		return 0
	}
	return 1 - o.Grams/o.Agnostic
}

// Starts is the number of starts of s.
func (s Study) Starts() int {
	return max(0, (len(s.Place.Intensity)-s.window())/s.stride()+1)
}

func (s Study) stride() int { return max(1, s.Stride) }

func (s Study) window() int { return int(math.Ceil(s.Job.Length-workload.Eps)) + s.Slack }

// Run plans the job from every start. Outcomes are in order of starts.
//
// Errors: ErrStudy, those of the planner. Complexity: that of the planner on one job, a
// start; as many at once as there are processors.
func Run(ctx context.Context, s Study) ([]Outcome, error) {
	n := s.Starts()
	if n == 0 {
		return nil, fmt.Errorf("%w: %d slots of intensity for a job that may take %d", ErrStudy, len(s.Place.Intensity), s.window())
	}
	if s.Place.Told != nil && len(s.Place.Told) != len(s.Place.Intensity) {
		return nil, fmt.Errorf("%w: told intensities: %d values; accepted: %d", ErrStudy, len(s.Place.Told), len(s.Place.Intensity))
	}
	if s.Place.Unknown != nil && len(s.Place.Unknown) != len(s.Place.Intensity) {
		return nil, fmt.Errorf("%w: unknown slots: %d values; accepted: %d", ErrStudy, len(s.Place.Unknown), len(s.Place.Intensity))
	}
	first := s.problem(0)
	if err := first.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStudy, err)
	}
	out := make([]Outcome, n)
	workers := min(n, runtime.GOMAXPROCS(0))
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			p := s.problem(0)
			for i := w * n / workers; i < (w+1)*n/workers; i++ {
				if errs[w] = s.start(ctx, p, i, &out[i]); errs[w] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// problem is that of start i.
func (s Study) problem(i int) *plan.Problem {
	n := s.window()
	capacity := make(map[string][]float64, len(s.Job.Request))
	for r, q := range s.Job.Request {
		row := make([]float64, n)
		for t := range row {
			row[t] = q * float64(s.Job.MaxWorkers)
		}
		capacity[r] = row
	}
	curve := s.Job.Told
	if curve == nil {
		curve = s.Job.Curve
	}
	p := &plan.Problem{
		Objective: plan.Objective{Kind: plan.Carbon},
		Clusters:  []plan.Cluster{{Name: s.Place.Zone, Zone: s.Place.Zone, Watts: s.Place.Watts, PUE: s.Place.PUE, Capacity: capacity}},
		Jobs: []workload.Job{{
			ID: "job", Kind: s.Job.Kind, Deadline: n, Length: s.Job.Length, Request: s.Job.Request,
			MinWorkers: s.Job.MinWorkers, MaxWorkers: s.Job.MaxWorkers, Curve: curve, Watts: s.Job.Watts,
		}},
	}
	s.move(p, i)
	return p
}

// move sets p to start i.
func (s Study) move(p *plan.Problem, i int) {
	n, at := s.window(), i*s.stride()
	values := s.Place.Told
	if values == nil {
		values = s.Place.Intensity
	}
	p.Grid = timegrid.Grid{Start: s.Place.Start.Add(time.Duration(at) * s.Slot), Slot: s.Slot, N: n}
	p.Clusters[0].Intensity, p.Clusters[0].Before = values[at:at+n], nil
	if at > 0 {
		p.Clusters[0].Before = &values[at-1]
	}
}

func (s Study) start(ctx context.Context, p *plan.Problem, i int, o *Outcome) error {
	if from := i * s.stride(); s.Place.Unknown != nil && slices.Contains(s.Place.Unknown[from:from+s.window()], true) {
		o.Withheld = true
		return nil
	}
	s.move(p, i)
	res, err := s.Method.Planner.Plan(ctx, p)
	if err != nil {
		return err
	}
	if len(res.Plan.Jobs) != 1 {
		why := ""
		if len(res.Unplaced) > 0 {
			why = res.Unplaced[0].Why
		}
		return fmt.Errorf("%w: planner %s finds no place from slot %d on: %s", ErrStudy, s.Method.Name, i*s.stride(), why)
	}
	segments := res.Plan.Jobs[0].Segments
	if now := s.savesTooLittle(p, segments, i*s.stride()); now != nil {
		segments = now
	}
	*o = s.price(p, segments, i*s.stride())
	return nil
}

// savesTooLittle returns the run that begins now and emits least, if a plan that waits or pauses saves less than MinSaving against it;
// else nil.
func (s Study) savesTooLittle(p *plan.Problem, segments []plan.Segment, at int) (best []plan.Segment) {
	last := segments[len(segments)-1].Slot
	if s.MinSaving == 0 || segments[0].Slot == 0 && last == len(segments)-1 {
		return nil
	}
	seen := s // everything as planners see it
	if s.Place.Told != nil {
		seen.Place.Intensity = s.Place.Told
	}
	seen.Job.Curve, seen.Job.Told = p.Jobs[0].Curve, nil
	planned, least := seen.price(p, segments, at).Grams, 0.0
	for workers := s.Job.MinWorkers; workers <= s.Job.MaxWorkers; workers++ {
		now := atOnce(&p.Jobs[0], workers)
		if now[len(now)-1].Slot >= p.Jobs[0].Deadline {
			continue
		}
		grams := seen.price(p, now, at).Grams
		if enough := planned <= grams*(1-s.MinSaving)*(1+equalGrams); !enough && (best == nil || grams < least) {
			best, least = now, grams
		}
	}
	return best
}

// equalGrams is the share by which emissions differ that are equal except for rounding.
const equalGrams = 1e-9

// atOnce is the run of a job from the first slot on without a pause.
func atOnce(job *workload.Job, workers int) (out []plan.Segment) {
	for t, left := 0, job.Work(); left > workload.Eps*job.Work(); t++ {
		x := plan.Segment{Slot: t, Workers: workers, Fraction: 1}
		if job.Kind != workload.Rigid {
			x.Fraction = math.Min(1, left/job.Throughput(workers))
		}
		left -= job.Throughput(workers)
		out = append(out, x)
	}
	return out
}

// price runs the segments with the true curve and intensities. Work that is then still
// missing is done at MinWorkers after the plan.
func (s Study) price(p *plan.Problem, segments []plan.Segment, at int) Outcome {
	actual := s.Place.Intensity[at:]
	truth := *p
	truth.Jobs = []workload.Job{p.Jobs[0]}
	job := &truth.Jobs[0]
	job.Curve = s.Job.Curve
	var last plan.Segment
	perIntensity := 0.0
	factor := func(w int) float64 { return truth.Grid.Hours() * truth.Watts(0, 0, w) * truth.Clusters[0].PUE / 1000 }
	o := Outcome{Wait: float64(segments[0].Slot)}
	left, end := job.Work(), 0.0
	for _, x := range segments {
		if x.Workers != last.Workers {
			last, perIntensity = x, factor(x.Workers)
		}
		fraction := x.Fraction
		if done := fraction * job.Throughput(x.Workers); job.Kind == workload.Elastic && done >= left-workload.Eps && s.Job.Told != nil {
			fraction *= left / done // faster than told
		}
		left -= fraction * job.Throughput(x.Workers)
		o.Grams += fraction * perIntensity * actual[x.Slot]
		o.Workers += fraction * float64(x.Workers)
		end = float64(x.Slot) + fraction
		if s.Job.Told != nil && left <= workload.Eps {
			break
		}
	}
	least := factor(job.MinWorkers)
	if s.Job.Told != nil {
		for t := int(math.Ceil(end)); left > workload.Eps*job.Work() && t < len(actual); t++ {
			part := math.Min(1, left/job.Curve[0])
			o.Grams += part * least * actual[t]
			o.Workers += part * float64(job.MinWorkers)
			left -= part * job.Curve[0]
			end = float64(t) + part
		}
	}
	length := job.Length
	if job.Kind == workload.Rigid {
		length = float64(job.Slots())
	}
	for t, rest := 0, length; rest > workload.Eps; t++ {
		part := math.Min(1, rest)
		o.Agnostic += part * least * actual[t]
		rest -= part
	}
	o.Delay, o.Late = end-length, math.Max(0, end-float64(job.Deadline))
	o.WorkersAtOnce = length * float64(job.MinWorkers)
	return o
}

// Spread is a distribution in figures.
type Spread struct{ Mean, P5, P25, Median, P75, P95 float64 }

// SpreadOf sums values up; it sorts them.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	at := func(q float64) float64 {
		return values[min(len(values)-1, max(0, int(math.Ceil(q*float64(len(values))))-1))]
	}
	return Spread{Mean: sum / float64(len(values)), P5: at(0.05), P25: at(0.25), Median: at(0.5), P75: at(0.75), P95: at(0.95)}
}

// Summary is the outcomes of a study in figures.
type Summary struct {
	// Starts counts those that are stated, Withheld the others.
	Starts, Withheld int
	// Total is the saving of all starts together: of the sum of emissions, as papers
	// state it for fleets; NaN without any. Saving is the distribution over starts.
	Total  float64
	Saving Spread
	// Delay and Wait in slots.
	Delay, Wait Spread
	// Cost is worker-slots against running at once: 1 is as many.
	Cost Spread
	// PerCost is the total saving in percent for each percent of added cost, +Inf where
	// nothing is added.
	PerCost float64
	// Late counts starts, WorstLate and MeanLate are by how many slots those are late.
	Late                int
	WorstLate, MeanLate float64
}

// Summarize sums outcomes up.
func Summarize(list []Outcome) Summary {
	s := Summary{Withheld: len(list)}
	list = slices.DeleteFunc(slices.Clone(list), func(o Outcome) bool { return o.Withheld })
	s.Starts, s.Withheld = len(list), s.Withheld-len(list)
	saving, delay, wait, cost := make([]float64, len(list)), make([]float64, len(list)), make([]float64, len(list)), make([]float64, len(list))
	grams, agnostic := 0.0, 0.0
	for i, o := range list {
		saving[i], delay[i], wait[i], cost[i] = o.Saving(), o.Delay, o.Wait, o.Workers/o.WorkersAtOnce
		grams += o.Grams
		agnostic += o.Agnostic
		if o.Late > workload.Eps {
			s.Late++
			s.WorstLate = max(s.WorstLate, o.Late)
			s.MeanLate += o.Late
		}
	}
	if s.Late > 0 {
		s.MeanLate /= float64(s.Late)
	}
	switch {
	case len(list) == 0:
		s.Total = math.NaN()
	case agnostic > 0:
		s.Total = 1 - grams/agnostic
	}
	s.Saving, s.Delay, s.Wait, s.Cost = SpreadOf(saving), SpreadOf(delay), SpreadOf(wait), SpreadOf(cost)
	s.PerCost = math.Inf(1)
	if added := s.Cost.Mean - 1; added > 1e-9 {
		s.PerCost = s.Total / added
	}
	return s
}

// Variation is the coefficient of variation of the intensity: within days (the mean
// over days of deviation over mean) and over the whole series.
func Variation(values []float64, perDay int) (daily, whole float64) {
	whole = variation(values)
	days := 0
	for from := 0; from+perDay <= len(values); from += perDay {
		daily += variation(values[from : from+perDay])
		days++
	}
	if days > 0 {
		daily /= float64(days)
	}
	return daily, whole
}

func variation(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / float64(len(values))
	if mean == 0 {
		return 0
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares/float64(len(values))) / mean
}

// Pareto returns the indices of those of which none is better in one respect and no
// worse in the others, in order of the first: saving (more is better), delay and cost
// (less is better).
func Pareto(saving, delay, cost []float64) []int {
	const same = 1e-9
	var out []int
	for i := range saving {
		beaten := false
		for k := range saving {
			noWorse := saving[k] >= saving[i]-same && delay[k] <= delay[i]+same && cost[k] <= cost[i]+same
			better := saving[k] > saving[i]+same || delay[k] < delay[i]-same || cost[k] < cost[i]-same
			beaten = beaten || noWorse && better
		}
		if !beaten {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		switch {
		case saving[a] > saving[b]:
			return -1
		case saving[a] < saving[b]:
			return 1
		}
		return 0
	})
	return out
}
