package track_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/workload"
)

// waiting is a rigid task of one hour that waits.
func waiting(id string, cpu float64) decide.Task {
	return decide.Task{ID: id, Submitted: at(0), Deadline: at(24), Remaining: time.Hour, Kind: workload.Rigid, Request: map[string]float64{"cpu": cpu}, State: decide.Waiting}
}

// among is a round of tasks, those named new without a plan, the others with one of the fifth hour.
func among(t *testing.T, capacity float64, tasks []decide.Task, fresh ...string) *track.Round {
	t.Helper()
	s := snapshot(t, at(0.5), 0)
	s.Slot, s.Clusters[0].Capacity, s.Tasks = time.Hour, map[string]float64{"cpu": capacity}, tasks
	rd := &track.Round{Snapshot: s, Rules: rules}
	for i := range tasks {
		o, rec := track.Observation{Speed: 1}, &track.Record{}
		if planned := !slices.Contains(fresh, tasks[i].ID); planned {
			r := track.Restore(&decide.Standing{
				Phases: []decide.Phase{{From: at(4.5), To: at(5.5), Cluster: "local", Workers: 1}}, Reason: decide.Reason{Code: decide.CodeCleanerLater},
			}, &tasks[i], &o, rules, at(0))
			rec = &r
		}
		rd.Records, rd.Seen = append(rd.Records, rec), append(rd.Seen, o)
	}
	return rd
}

// TestPlansMayBeRenewedWhenOthersChange: the plans of waiting tasks may be renewed when another task is submitted or asks for something else,
// and only then. Those of running tasks, and of tasks that are planned anew for another reason, are not.
func TestPlansMayBeRenewedWhenOthersChange(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(rd *track.Round)
		want   bool
	}{
		"nothing new":    {func(rd *track.Round) { rd.Snapshot.Tasks, rd.Records = rd.Snapshot.Tasks[:1], rd.Records[:1] }, false},
		"submitted":      {func(*track.Round) {}, true},
		"a new forecast": {func(rd *track.Round) { rd.Rules.Forecast = "g" }, false},
		"running": {func(rd *track.Round) {
			rd.Snapshot.Tasks[0].State, rd.Snapshot.Tasks[0].Cluster = decide.Running, "local"
		}, false},
		"renewed by the caller": {nil, false},
	} {
		rd := among(t, 10, []decide.Task{waiting("a", 2), waiting("b", 2)}, "b")
		if tc.change != nil {
			tc.change(rd)
		}
		rd.Prepare()
		if tc.change == nil {
			rd.Renew(0, track.Trigger{Reason: track.NewCapacity})
		}
		if got := rd.Snapshot.Tasks[0].Renewable; got != tc.want {
			t.Errorf("%s: renewable %v, want %v", name, got, tc.want)
		}
	}
	rd := among(t, 10, []decide.Task{waiting("a", 2), waiting("b", 2)})
	rd.Snapshot.Tasks[1].Request = map[string]float64{"cpu": 3}
	if rd.Prepare(); rd.Triggers[1].Reason != track.ObjectChanged || !rd.Snapshot.Tasks[0].Renewable || rd.Snapshot.Tasks[1].Renewable {
		t.Errorf("a changed request: %+v, renewable %v", rd.Triggers, rd.Snapshot.Tasks[0].Renewable)
	}
}

// TestCompetesIsAReason: a plan that the decision renews is kept with its reason. One that Decide leaves as it is, and
// one that it makes anew to be in time, have others.
func TestCompetesIsAReason(t *testing.T) {
	for name, tc := range map[string]struct {
		planned, renewed bool
		want             track.Reason
	}{"stands": {false, false, ""}, "renewed": {true, true, track.Competes}, "in time": {true, false, track.NoRoom}} {
		rd := among(t, 10, []decide.Task{waiting("a", 2), waiting("b", 2)}, "b")
		rd.Prepare()
		phases := []decide.Phase{{From: at(4.5), To: at(5.5), Cluster: "local", Workers: 1}}
		if tc.planned {
			phases = []decide.Phase{{From: at(8), To: at(9), Cluster: "local", Workers: 1}}
		}
		made := map[int]track.Reason{}
		rd.Keep(&decide.Decision{Wake: at(24), Actions: []decide.Action{
			{Task: "a", Verb: decide.Wait, Planned: tc.planned, Renewed: tc.renewed, Phases: phases, Reason: decide.Reason{Code: decide.CodeCleanerLater}},
			{Task: "b", Verb: decide.Wait, Planned: true, Phases: phases, Reason: decide.Reason{Code: decide.CodeCleanerLater}},
		}}, func(i int, tr track.Trigger) {
			made[i] = tr.Reason
			if tr.Reason == track.Competes && tr.Message == "" {
				t.Error("no message")
			}
		})
		if made[0] != tc.want || made[1] != track.Submitted || !rd.Records[0].Standing().Phases[0].From.Equal(phases[0].From) {
			t.Errorf("%s: made %v, want %q", name, made, tc.want)
		}
	}
}

// counting notes how many jobs a planner was asked to plan.
type counting struct {
	plan.Planner
	jobs []int
}

func (c *counting) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	c.jobs = append(c.jobs, len(p.Jobs))
	return c.Planner.Plan(ctx, p)
}

// TestBurstReplansNoWaitingTask: of 5,000 tasks that wait, none is planned anew while 20 others come one by one and find room.
func TestBurstReplansNoWaitingTask(t *testing.T) {
	var tasks []decide.Task
	for i := range 5000 {
		tasks = append(tasks, waiting(fmt.Sprint("w", i), 1))
	}
	p := &counting{Planner: joint.NewWarm(joint.Planner{})}
	for i := range 20 {
		id := fmt.Sprint("n", i)
		rd := among(t, 5000, append(slices.Clone(tasks), waiting(id, 1)), id)
		rd.Prepare()
		d, err := decide.Decide(t.Context(), *rd.Snapshot, p)
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		rd.Keep(&d, func(int, track.Trigger) { made++ })
		if made != 1 {
			t.Fatalf("%d plans made for one task that came", made)
		}
	}
	for _, jobs := range p.jobs {
		if jobs != 1 {
			t.Fatalf("the planner was asked for %v jobs", p.jobs)
		}
	}
}

// TestAPlanMayStandOnANewForecast: the caller knows that it is as good, and the next round has it stand by itself. Other triggers stay.
func TestAPlanMayStandOnANewForecast(t *testing.T) {
	rd := among(t, 10, []decide.Task{waiting("a", 2), waiting("b", 2)}, "b")
	rd.Rules.Forecast = "another"
	rd.Prepare()
	if rd.Triggers[0].Reason != track.NewForecast || rd.Triggers[1].Reason != track.Submitted {
		t.Fatalf("%+v", rd.Triggers)
	}
	rd.Stand(0)
	rd.Stand(1)
	if a := &rd.Snapshot.Tasks[0]; rd.Triggers[0].Reason != "" || a.Replan || !a.Renewable || a.Standing == nil {
		t.Errorf("%+v, %+v; want a plan that stands, and that b may have renewed", rd.Triggers[0], a)
	}
	if rd.Triggers[1].Reason != track.Submitted || !rd.Snapshot.Tasks[1].Replan {
		t.Errorf("%+v; want the task without a plan to be planned", rd.Triggers[1])
	}
	rd.Snapshot.Tasks, rd.Records, rd.Seen = rd.Snapshot.Tasks[:1], rd.Records[:1], rd.Seen[:1]
	rd.Prepare()
	if rd.Triggers[0].Reason != "" {
		t.Errorf("%+v in the next round", rd.Triggers[0])
	}
}
