package slurm

import (
	"testing"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/cheapest"
)

// TestLinesOfAnArrayShareItsThrottle: tasks that run, that wait together, and one whose user gave it a begin time. Of all of them, two run at a time.
func TestLinesOfAnArrayShareItsThrottle(t *testing.T) {
	line := func(id string, tasks int, change func(*Job)) Job {
		j := waiting()
		j.ID, j.Tasks, j.Throttle = id, tasks, 2
		if change != nil {
			change(&j)
		}
		return j
	}
	runs := func(j *Job) {
		j.State, j.Reason, j.Started, j.Throttle = stateRunning, "None", at("08:30:00"), 0
		j.AdminComment = Mark{Phase: Released}.String()
	}
	left := func(j *Job) { runs(j); j.AdminComment = Mark{Phase: HandedOver}.String() }
	other := waiting()
	other.ID, other.Number = "13", 13
	v := Observe(inputAt(t, line("12_1", 1, runs), line("12_2", 1, left), line("12_[5-9]", 5, nil), line("12_3", 1, nil), other))
	here, resource := v.Snapshot.Clusters[0], throttleOf(12)
	if here.Capacity[resource] != 2 || here.Load[resource] != 1 || !IsThrottle(resource) || IsThrottle(cpu) {
		t.Errorf("capacity %v, load %v", here.Capacity, here.Load)
	}
	want := map[string]float64{"12_1": 1, "12_[5-9]": 2, "12_3": 1}
	for i := range v.Jobs {
		if got := v.Snapshot.Tasks[i].Request[resource]; got != want[v.Jobs[i].Job.ID] {
			t.Errorf("job %s asks for %v", v.Jobs[i].Job.ID, got)
		}
		if _, told := v.Request(v.Jobs[i].Job)[resource]; told {
			t.Error("the request of a job has the throttle")
		}
	}
	if _, err := decide.Decide(t.Context(), v.Snapshot, cheapest.Planner{}); err != nil {
		t.Error(err)
	}
	alone := Observe(inputAt(t, line("12_[5-9]", 5, nil)))
	if _, has := alone.Snapshot.Clusters[0].Capacity[resource]; has {
		t.Error("an array of one line has a resource of its own")
	}
}
