package demo

import (
	"fmt"
	"slices"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// slurmRounding is what times in whole seconds add to a span, and Slurm's cycle of two seconds.
const slurmRounding = 5 * time.Second

// slurmJudgement is what came of the jobs, in wall time.
type slurmJudgement struct {
	// waits are those of the jobs that may wait; critical is how many may not, late how many started too late.
	waits          []time.Duration
	critical, late int
	// lag is what Slurm and the machine added in this run: to starts, by the jobs that may not wait, and to run times.
	lag    time.Duration
	faults []error
}

// note notes the begin times to come of jobs: once a begin time has come, Slurm and Lull may move it.
func (r *slurmReplay) note(jobs []slurm.Job, now time.Time) {
	for i := range jobs {
		if j := &jobs[i]; j.Pending() && j.Begin.After(now) && j.Begin.After(r.begins[j.ID]) {
			r.begins[j.ID] = j.Begin
		}
	}
}

// judge says which jobs did not end well, and which were late. A job is late if it had a begin time after its latest safe start, however fast the
// machine is. Its start may be later than that by what a busy machine added, in the same run, to the start of a job that may not wait, and to the run of
// a job that was in its way.
func (r *slurmReplay) judge(jobs []slurm.Job) slurmJudgement {
	var out slurmJudgement
	fault := func(format string, args ...any) { out.faults = append(out.faults, fmt.Errorf(format, args...)) }
	wait, overrun := time.Duration(0), time.Duration(0)
	for i := range jobs {
		j := &jobs[i]
		if x := r.ids[j.ID]; x != nil {
			overrun = max(overrun, j.Ended.Sub(j.Started)-r.wall(x.length))
			if x.critical {
				wait = max(wait, j.Started.Sub(j.Submitted))
			}
		}
	}
	out.lag = wait + overrun + slurmRounding
	for i := range jobs {
		j := &jobs[i]
		x := r.ids[j.ID]
		if x == nil {
			fault("job %s: not of this demo", j.ID)
			continue
		}
		if !j.Succeeded() {
			fault("job %s: %s; accepted: COMPLETED", x.name, j.State)
		}
		if x.critical {
			out.critical++
			if begin := r.begins[j.ID]; !begin.IsZero() {
				fault("job %s: had the begin time %s; accepted: none, as it may not wait", x.name, begin.Format(time.RFC3339))
			}
			continue
		}
		waited, allowed := j.Started.Sub(j.Submitted), r.wall(x.slack)
		out.waits = append(out.waits, waited)
		begin := r.begins[j.ID].Sub(j.Submitted)
		switch {
		case begin > allowed:
			fault("job %s: had a begin time %v after its submission (wall time); accepted: %v", x.name, begin, allowed)
		case waited > allowed+out.lag:
			fault("job %s: started %v after its submission (wall time); accepted: %v, and %v that this machine adds", x.name, waited, allowed, out.lag)
		default:
			continue
		}
		out.late++
	}
	slices.Sort(out.waits)
	return out
}

// median is that of the waits; 0 if there are none.
func (j *slurmJudgement) median() time.Duration {
	if len(j.waits) == 0 {
		return 0
	}
	return j.waits[len(j.waits)/2]
}
