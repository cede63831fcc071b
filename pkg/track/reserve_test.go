package track_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/reserve"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/workload"
)

// urgentTask must start at once.
func urgentTask(id string, submitted time.Time, cpu float64) decide.Task {
	return decide.Task{
		ID: id, Kind: workload.Rigid, State: decide.Waiting, Submitted: submitted, Remaining: time.Hour,
		Deadline: submitted.Add(time.Hour), Request: map[string]float64{"cpu": cpu},
	}
}

// TestReserveLearnsFromWhatComes: what comes unannounced and cannot wait counts, by its share of the
// clusters that it may use; all else does not.
func TestReserveLearnsFromWhatComes(t *testing.T) {
	two := func(s *decide.Snapshot) {
		s.Clusters = append(s.Clusters, s.Clusters[0])
		s.Clusters[1].Name, s.Clusters[1].Capacity = "other", map[string]float64{"cpu": 30, "gpu": 4}
	}
	for name, tc := range map[string]struct {
		change func(s *decide.Snapshot, t *decide.Task)
		want   int // peak of the hour, in thousandths
	}{
		"it must start at once":   {want: 400},
		"it may not wait":         {change: func(_ *decide.Snapshot, t *decide.Task) { t.Deadline = time.Time{} }, want: 400},
		"it is held out":          {change: func(_ *decide.Snapshot, t *decide.Task) { t.HeldOut, t.Deadline = true, at(40) }, want: 400},
		"it can wait for a while": {change: func(_ *decide.Snapshot, t *decide.Task) { t.Deadline = t.Deadline.Add(59 * time.Minute) }, want: 400},
		"it can wait":             {change: func(_ *decide.Snapshot, t *decide.Task) { t.Deadline = t.Deadline.Add(61 * time.Minute) }},
		"the margin counts": {change: func(s *decide.Snapshot, t *decide.Task) {
			s.Margin, t.Deadline = 5*time.Minute, t.Deadline.Add(61*time.Minute)
		}, want: 400},
		"it is announced":     {change: func(_ *decide.Snapshot, t *decide.Task) { t.NotBefore = at(2) }},
		"it was there before": {change: func(_ *decide.Snapshot, t *decide.Task) { t.Submitted = at(-1) }},
		"deadlines are soft":  {change: func(s *decide.Snapshot, _ *decide.Task) { s.Objective.Kind = plan.MOSP }},
		"it scales": {change: func(_ *decide.Snapshot, t *decide.Task) {
			t.Kind, t.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 2, MaxWorkers: 3, Curve: []float64{1, 0}}
		}, want: 800},
		"capacity by the slot": {change: func(s *decide.Snapshot, _ *decide.Task) {
			s.Clusters[0].CapacityAt = map[string][]float64{"cpu": {8, 100}}
		}, want: 500},
		"no capacity":            {change: func(s *decide.Snapshot, _ *decide.Task) { s.Clusters[0].Capacity = nil }},
		"a scarcer resource":     {change: func(s *decide.Snapshot, t *decide.Task) { s.Clusters[0].Capacity["gpu"], t.Request["gpu"] = 2, 1 }, want: 500},
		"two clusters":           {change: func(s *decide.Snapshot, _ *decide.Task) { two(s) }, want: 134}, // 4 of the larger one's 30
		"bound to one of two":    {change: func(s *decide.Snapshot, t *decide.Task) { two(s); t.Clusters = []string{"local"} }, want: 400},
		"a GPU that one has":     {change: func(s *decide.Snapshot, t *decide.Task) { two(s); t.Request["gpu"] = 1 }, want: 250},
		"a GPU that none has":    {change: func(_ *decide.Snapshot, t *decide.Task) { t.Request["gpu"] = 1 }, want: 400},
		"more than there is":     {change: func(_ *decide.Snapshot, t *decide.Task) { t.Request["cpu"] = 1e9 }, want: 1000},
		"it asks for nothing":    {change: func(_ *decide.Snapshot, t *decide.Task) { t.Request = nil }},
		"no cluster of its name": {change: func(_ *decide.Snapshot, t *decide.Task) { t.Clusters = []string{"gone"} }},
	} {
		t.Run(name, func(t *testing.T) {
			learner, err := reserve.New(reserve.Default())
			if err != nil {
				t.Fatal(err)
			}
			s := snapshot(t, at(0), 0)
			s.Clusters[0].Capacity = map[string]float64{"cpu": 10}
			old := urgentTask("old", at(-3), 9)
			s.Tasks = []decide.Task{old}
			records := []*track.Record{{}}
			r := &track.Round{Snapshot: s, Rules: rules, Records: records, Seen: make([]track.Observation, 1), Reserve: learner}
			r.Prepare() // the first decision: all that is there is known from now on
			if s.Reserve != reserve.Default().Start {
				t.Errorf("reserve %v at the first decision; want %v", s.Reserve, reserve.Default().Start)
			}
			for range 2 { // what has come counts once
				next := snapshot(t, at(1), 0)
				next.Clusters[0].Capacity = map[string]float64{"cpu": 10}
				came := urgentTask("new", at(1), 4)
				if tc.change != nil {
					tc.change(next, &came)
				}
				next.Tasks = []decide.Task{old, came}
				if len(records) < 2 {
					records = append(records, &track.Record{})
				}
				r.Snapshot, r.Records, r.Seen = next, records, make([]track.Observation, 2)
				r.Prepare()
				peaks := learner.State().Peaks
				if got := peaks[len(peaks)-1]; got != tc.want {
					t.Errorf("peak %d; want %d", got, tc.want)
				}
				if soft := next.Objective.Kind == plan.MOSP; !soft && next.Reserve != learner.Share() || soft && next.Reserve != 0 {
					t.Errorf("reserve %v of the snapshot; want that of the learner, %v, or none for soft deadlines", next.Reserve, learner.Share())
				}
			}
		})
	}
}

// TestNothingIsKeptWithoutALearner: without a learner nothing is kept, and what comes meanwhile is no news later.
func TestNothingIsKeptWithoutALearner(t *testing.T) {
	learner, err := reserve.New(reserve.Default())
	if err != nil {
		t.Fatal(err)
	}
	records := []*track.Record{{}}
	prepare := func(hour float64, l *reserve.Learner) *decide.Snapshot {
		s := snapshot(t, at(hour), 0)
		s.Clusters[0].Capacity = map[string]float64{"cpu": 10}
		s.Tasks = []decide.Task{urgentTask("a", at(1), 4)}
		r := &track.Round{Snapshot: s, Rules: rules, Records: records, Seen: make([]track.Observation, 1), Reserve: l}
		r.Prepare()
		return s
	}
	learner.Observe(at(0), nil)
	if s := prepare(1, nil); s.Reserve != 0 {
		t.Errorf("reserve %v without a learner; want 0", s.Reserve)
	}
	prepare(1.1, learner)
	if peaks := learner.State().Peaks; peaks[len(peaks)-1] != 0 {
		t.Errorf("peaks %v; want none: the task came while nobody learned", peaks)
	}
}
