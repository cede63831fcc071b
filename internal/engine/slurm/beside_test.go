package slurm

import (
	"strings"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/slurm"
)

// nothing is a schedule that allows nothing before 20:00.
var nothing = v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "20:00", To: "21:00", Capacity: "8"}}}

// TestWhatIsLeftToSlurmGetsItsLicences: job_submit.lua gives licences also to jobs that Lull leaves to Slurm. Those that run have theirs, and those that
// may start get them, beside those that Lull decides on.
func TestWhatIsLeftToSlurmGetsItsLicences(t *testing.T) {
	due := held("2")
	due.Comment = "lull:max-delay=10m"
	for name, tc := range map[string]struct {
		change func(*slurm.Job)
		bad    []slurm.Bad
		due    bool
		want   int // of 16 that are reserved; 8 are above the maximum
	}{
		"nothing":                             {nil, nil, false, 16},
		"one that runs":                       {func(j *slurm.Job) { j.State, j.Started = "RUNNING", j.Submitted }, nil, false, 12},
		"one that runs, and a due":            {func(j *slurm.Job) { j.State, j.Started = "RUNNING", j.Submitted }, nil, true, 8},
		"StartTime=now":                       {func(j *slurm.Job) { j.Comment, j.AdminComment = due.Comment, due.AdminComment }, nil, false, 12},
		"a misspelt comment":                  {func(*slurm.Job) {}, nil, false, 12},
		"of a heterogeneous job":              {func(j *slurm.Job) { j.Het = true }, nil, false, 12},
		"held by its user":                    {func(j *slurm.Job) { j.Reason = "JobHeldUser" }, nil, false, 16},
		"waits for another":                   {func(j *slurm.Job) { j.Reason = "Dependency" }, nil, false, 16},
		"ends":                                {func(j *slurm.Job) { j.State = "COMPLETING" }, nil, false, 16},
		"begins later":                        {func(j *slurm.Job) { j.Begin = j.Begin.Add(5 * time.Hour) }, nil, false, 16},
		"tasks of an array":                   {func(j *slurm.Job) { j.Tasks, j.Throttle, j.Licences = 5, 3, "power:2" }, nil, false, 10},
		"a line of which nothing can be read": {nil, []slurm.Bad{{Line: "9", Err: slurm.ErrLine}}, false, 8},
		"a line whose job can be read":        {nil, []slurm.Bad{{Line: "9", Err: slurm.ErrLine, Job: &slurm.Job{State: "RUNNING", Licences: "power:3"}}}, false, 13},
		"a line of sinfo":                     {nil, []slurm.Bad{{Line: "n", Err: slurm.ErrLine, Node: true}}, false, 16},
	} {
		t.Run(name, func(t *testing.T) {
			var jobs []slurm.Job
			if tc.change != nil {
				left := held("1")
				left.Comment, left.AdminComment, left.Begin = "lull:max-dealy=12h", "", left.Submitted
				tc.change(&left)
				jobs = append(jobs, left)
			}
			if tc.due {
				jobs = append(jobs, due)
			}
			c, f, log := setup(t, jobs...)
			f.cpus, f.bad = 0, tc.bad // nothing starts by itself
			withCapacity(t, c, nothing, "")
			step(t, c, f, 0)
			if f.reserved != tc.want || strings.Contains(log.String(), "Failed") {
				t.Errorf("%d licences are reserved; want %d\n%s", f.reserved, tc.want, log)
			}
		})
	}
}
