package slurm

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/slurm"
)

// sameStart is by how much two statements of the same start differ at most.
const sameStart = 2 * time.Second

// The accounting of Slurm is asked at most once in askAgain, and has askFor to answer: while it does not, looks at the queue go on.
const askAgain, askFor = time.Minute, 10 * time.Second

// endsOf asks the accounting of Slurm how jobs of the ledger ended, by their names in the ledger. wait says that it does not answer now.
func (r *round) endsOf(uids []string) (ends map[string]*slurm.Job, wait bool) {
	ends = map[string]*slurm.Job{}
	byID := map[string][]string{}
	var ids []string
	for _, uid := range uids {
		if parts := strings.Split(uid, "/"); len(parts) == 4 {
			ids, byID[parts[2]] = append(ids, parts[2]), append(byID[parts[2]], uid)
		}
	}
	if len(ids) == 0 || r.ends == nil {
		return ends, false
	}
	if !r.asked.IsZero() && r.in.Now.Sub(r.asked).Abs() < askAgain {
		return ends, true
	}
	r.asked = r.in.Now
	jobs, err := r.ends(ids)
	if err != nil {
		if !errors.Is(err, slurm.ErrNoAccounting) {
			r.log.Error("The accounting of Slurm does not answer; ends of jobs that Slurm has forgotten wait for it", "jobs", names(ids), "error", err.Error())
		}
		return ends, !errors.Is(err, slurm.ErrNoAccounting)
	}
	for i := range jobs {
		j := &jobs[i]
		if j.Ended.After(r.in.Now) {
			continue // times of another time zone
		}
		for _, uid := range byID[j.ID] {
			// Slurm states the last submission, a requeue included, and uses numbers again.
			if known := ends[uid]; !j.Submitted.Before(firstSubmission(uid)) && (known == nil || j.Ended.After(known.Ended)) {
				ends[uid] = j
			}
		}
	}
	return ends, false
}

// firstSubmission is that of a job by its name in the ledger.
func firstSubmission(uid string) time.Time {
	var unix int64
	_, _ = fmt.Sscanf(uid[strings.LastIndexByte(uid, '/')+1:], "%d", &unix) // uid has made it
	return time.Unix(unix, 0)
}

// missedRuns are the runs of a job that nobody observed to its end: the ones of the ledger end with the job, or, if the job began another one since, at its
// last submission, which was a requeue.
func (r *round) missedRuns(uid string, j *slurm.Job) (out []ledger.JobRun) {
	continued := false
	for id, at := range r.open[uid].Runs {
		e := ended(j)
		if at.Sub(j.Started).Abs() > sameStart && j.Submitted.After(at) {
			e = &ledger.Ended{At: j.Submitted.UTC(), How: ledger.Observed, Lost: ledger.Evicted}
		} else {
			continued = true
		}
		out = append(out, ledger.JobRun{Started: ledger.Started{Run: id}, Ended: e})
	}
	if !continued && !j.Started.IsZero() && j.Ended.After(j.Started) {
		out = append(out, ledger.JobRun{Started: r.started(fmt.Sprintf("%s/at%d", uid, j.Started.Unix()), j), Ended: ended(j)})
	}
	return out
}
