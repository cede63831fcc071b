package slurm

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
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

// TestThrottlesAreReadInOneCall: these are lines of squeue 22.05, of arrays with and without a throttle, of a single task, and of a job.
func TestThrottlesAreReadInOneCall(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	c := commands(t, map[string]string{"squeue": `echo "$@" >>` + log + `
cat <<'EOF'
12          5-39%8                                                                          
13          1-6                                                                             
14          39                                                                              
15          N/A                                                                             
16          0-2,5,9...%20                                                                   
EOF`})
	got, err := c.Throttles(t.Context(), []int{12, 13, 14, 15, 16})
	if want := map[int]int{12: 8, 13: 0, 16: 20}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "--jobs=12,13,14,15,16 ") {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := commands(t, map[string]string{"squeue": "echo '12 5-x%8'"}).Throttles(t.Context(), []int{12}); !errors.Is(err, ErrLine) {
		t.Errorf("a line that cannot be read: %v", err)
	}
	gone := commands(t, map[string]string{"squeue": "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"})
	if got, err := gone.Throttles(t.Context(), []int{12}); err != nil || len(got) != 0 {
		t.Errorf("an array that Slurm has forgotten: %v, %v", got, err)
	}
}

// TestUpdatesAreSplitByTheThrottlesInForce: of arrays that share an update, one has another throttle by now.
func TestUpdatesAreSplitByTheThrottlesInForce(t *testing.T) {
	u := Update{IDs: []string{"12_[1-9]", "13_[1-9]", "14_9"}, Begin: at("10:00:00"), Throttle: new(4), Saw: 8, Comment: "lull: a", Otherwise: "lull: b"}
	got := u.Split(map[int]int{12: 8, 13: 4})
	if len(got) != 2 || strings.Join(got[0].IDs, ",") != "12_[1-9],14_9" || *got[0].Throttle != 4 || got[0].Comment != "lull: a" ||
		strings.Join(got[1].IDs, ",") != "13_[1-9]" || got[1].Throttle != nil || got[1].Comment != "lull: b" || !got[1].Begin.Equal(u.Begin) {
		t.Errorf("%+v", got)
	}
	u.Throttle = nil
	if got := u.Split(nil); len(got) != 1 || len(u.Arrays()) != 0 || len(u.Parts()) != 1 {
		t.Errorf("an update without a throttle: %+v", got)
	}
}
