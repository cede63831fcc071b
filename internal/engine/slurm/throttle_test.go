package slurm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// scaled is an array of 12 tasks. Each takes a CPU for half an hour; the user lets 8 run at a time.
func scaled() slurm.Job {
	at := midnight.Add(9 * time.Hour)
	j := job("1", "lull:max-delay=10h,runtime=30m,min-tasks=1")
	j.ID, j.Number, j.Tasks, j.Throttle, j.CPUs, j.Submitted, j.Begin = "12_[1-12]", 12, 12, 8, 1, at, at
	return j
}

// restores is a controller that is about to give an array back the throttle of its user.
func restores(t *testing.T) (*Controller, *fake, *slurm.Job) {
	t.Helper()
	j := scaled()
	j.Begin, j.Throttle = time.Time{}, 3
	j.AdminComment = slurm.Mark{Phase: slurm.Released, Limit: 8, Set: 3, Of: 12}.String()
	j.Comment = "lull:max-delay=10h,runtime=30m" // its user does not want it to be scaled any more
	c, f, _ := setup(t, j)
	f.cpus = 0 // nothing starts
	return c, f, &f.jobs[0]
}

// TestAThrottleThatChangesDuringADecisionIsTheUsers: a user changes the throttle of an array after the look on which the decision rests. It stays, and the mark
// says whose it is.
func TestAThrottleThatChangesDuringADecisionIsTheUsers(t *testing.T) {
	c, f, j := restores(t)
	f.meanwhile = func() { j.Throttle = 5 }
	step(t, c, f, time.Second)
	if m := slurm.ReadMark(j.AdminComment); j.Throttle != 5 || !m.Own || m.Set != 0 || m.Limit != 0 {
		t.Errorf("throttle %d, AdminComment %s; want 5, which its user has set meanwhile", j.Throttle, j.AdminComment)
	}
	step(t, c, f, time.Minute)
	if j.Throttle != 5 || len(f.throttles) != 1 {
		t.Errorf("throttle %d, asked for the throttles of %v; want 5, and to be asked once", j.Throttle, f.throttles)
	}
}

// TestAThrottleThatStandsIsGivenBack: only throttles that are about to be set are read again.
func TestAThrottleThatStandsIsGivenBack(t *testing.T) {
	c, f, j := restores(t)
	step(t, c, f, time.Second)
	if m := slurm.ReadMark(j.AdminComment); j.Throttle != 8 || m.Own || !slices.Equal(f.throttles, []int{12}) {
		t.Errorf("throttle %d, AdminComment %s, asked for %v; want 8, that of its user", j.Throttle, j.AdminComment, f.throttles)
	}
	step(t, c, f, time.Minute)
	if len(f.throttles) != 1 {
		t.Errorf("asked for the throttles of %v", f.throttles)
	}
}

// TestAThrottleThatChangesBeforeAReleaseIsTheUsers: the rest of the change is made all the same.
func TestAThrottleThatChangesBeforeAReleaseIsTheUsers(t *testing.T) {
	j := scaled()
	j.Begin = midnight.Add(9*time.Hour + 10*time.Minute)
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin}.String()
	c, f, _ := setup(t, j)
	f.cpus = 0
	f.meanwhile = func() { f.jobs[0].Throttle = 2 }
	u := slurm.Update{IDs: []string{j.ID}, Now: true, Throttle: new(4), Saw: 8, Comment: "lull: mine [phase=released]", Otherwise: "lull: theirs [throttle=own phase=released]"}
	if err := c.apply(t.Context(), &slurm.View{}, &slurm.Changes{Updates: []slurm.Update{u}}, map[string]bool{}); err != nil {
		t.Fatal(err)
	}
	if got := f.jobs[0]; got.Throttle != 2 || got.Begin.After(f.clock.Now()) || !strings.Contains(got.AdminComment, "throttle=own") {
		t.Errorf("throttle %d, begin %v, AdminComment %s; want 2, now, throttle=own", got.Throttle, got.Begin, got.AdminComment)
	}
}
