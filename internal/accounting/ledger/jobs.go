package ledger

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
)

// JobLook is a look at a cluster without pods, such as one of Slurm: who looks says of each job what it is, how it ran and when it was over. All
// times are those of the zone's series.
type JobLook struct {
	// Policy names what governs the jobs, as in Submitted.
	Policy string
	Now    time.Time
	// Snapshot has the clusters, with what they have for these jobs.
	Snapshot *decide.Snapshot
	Zones    map[string]carbon.Outlook
	Jobs     []JobSeen
	// Replanned says that a plan was made anew: what was expected then is recorded.
	Replanned bool
}

// JobSeen is a job, as one look has it.
type JobSeen struct {
	// UID is its own for all time, also where the cluster uses its number again.
	UID string
	// Submitted is recorded if the job is new.
	Submitted Submitted
	// Decided is recorded if it differs from the decision before, or was applied; nil for none. Forecasts are added to it.
	Decided *Decided
	// Runs are those that are known, the earliest first. A run that was recorded stays as it was.
	Runs []JobRun
	// Energy is what was measured of runs, PUE included. It is recorded when the job is over.
	Energy []Energy
	// Over is when the job was over; zero before that. Runs whose end nobody saw end then.
	Over time.Time
	// Waits says that neither Energy nor the end of the job is to be recorded yet: a later look has both.
	Waits bool
}

// JobRun is a run of a job.
type JobRun struct {
	Started Started
	// Ended is nil while it runs.
	Ended *Ended
}

// OpenJob is a job in the ledger that has not ended.
type OpenJob struct {
	UID string
	// Runs are when runs that have not ended began, by their names.
	Runs map[string]time.Time
	// Began is when its runs began, also those that have ended.
	Began []time.Time
	// Runtime is what was expected at first.
	Runtime time.Duration
}

// OpenJobs lists what a policy has that is not over, by UID, and whether the ledger has been read.
func (r *Recorder) OpenJobs(policy string) (jobs []OpenJob, loaded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(r.workloads)) {
		o := r.workloads[uid]
		if o.policy != policy {
			continue
		}
		x := OpenJob{UID: string(uid), Runs: map[string]time.Time{}, Runtime: o.runtime}
		for id, run := range o.runs {
			x.Began = append(x.Began, run.from)
			if !run.ended {
				x.Runs[string(id)] = run.from
			}
		}
		jobs = append(jobs, x)
	}
	return jobs, r.loaded
}

// RecordJobs queues what a look at jobs has found, as Record does for one with pods. A job that is open and not in the look stays open.
// It returns false if it has kept nothing, as the queue is full, or the ledger has not been read.
func (r *Recorder) RecordJobs(k *JobLook) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	forecasts, ok := r.observe(&site{policy: k.Policy, now: k.Now, snapshot: k.Snapshot, zones: k.Zones, due: k.Replanned})
	if !ok {
		return false
	}
	current := map[types.UID]bool{}
	for i := range k.Jobs {
		j := &k.Jobs[i]
		uid := types.UID(j.UID)
		current[uid] = true
		switch {
		case r.over[uid] != "":
			continue
		case r.workloads[uid] == nil && !j.Over.IsZero() && j.Over.Before(r.since):
			r.over[uid] = k.Policy // it was dropped
			continue
		}
		r.job(k, uid, j, forecasts)
	}
	maps.DeleteFunc(r.over, func(uid types.UID, of string) bool { return of == k.Policy && !current[uid] })
	return true
}

// job notes what is new of a job.
func (r *Recorder) job(k *JobLook, uid types.UID, j *JobSeen, forecasts []string) {
	o := r.workloads[uid]
	if o == nil {
		o = &observed{policy: k.Policy, runs: map[types.UID]*run{}, runtime: j.Submitted.runtime()}
		r.workloads[uid] = o
		b := j.Submitted
		b.Policy = k.Policy
		r.add(KindSubmitted, "submitted/"+j.UID, uid, b)
	}
	if d := j.Decided; d != nil {
		if short := fmt.Sprint(d.Verb, d.Reason, d.Cluster); short != o.decision || d.Applied {
			o.decision = short
			b := *d
			b.At, b.Forecasts = k.Now.UTC(), forecasts
			r.add(KindDecided, fmt.Sprintf("decided/%s/%d", uid, k.Now.UnixNano()), uid, b)
		}
	}
	for _, x := range j.Runs {
		id := types.UID(x.Started.Run)
		if o.runs[id] == nil {
			r.begin(x.Started, uid)
		}
		if x.Ended != nil {
			r.endJob(uid, id, *x.Ended)
		}
	}
	if j.Over.IsZero() || j.Waits {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(o.runs)) {
		r.endJob(uid, id, Ended{At: j.Over.UTC(), How: Inferred})
	}
	for _, e := range j.Energy {
		r.add(KindEnergy, fmt.Sprintf("energy/%s/%d", uid, e.From.UnixNano()), uid, e)
	}
	r.add(KindFinished, "finished/"+j.UID, uid, Finished{At: j.Over.UTC(), How: "finished"})
	r.over[uid] = k.Policy
	delete(r.workloads, uid)
}

// endJob notes the end of a run, if it is not known. A run ends no earlier than it has begun.
func (r *Recorder) endJob(uid, id types.UID, b Ended) {
	x := r.workloads[uid].runs[id]
	if x.ended {
		return
	}
	if x.ended = true; b.At.Before(x.from) {
		b.At = x.from
	}
	b.Run, b.At = string(id), b.At.UTC()
	delete(r.runs, id)
	r.add(KindEnded, "ended/"+b.Run, uid, b)
}
