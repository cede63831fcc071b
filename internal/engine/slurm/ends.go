package slurm

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/slurm"
)

// sameStart is by how much two statements of the same start differ at most.
const sameStart = 2 * time.Second

// The accounting of Slurm is asked at most once in askAgain, and has askFor to answer.
const askAgain, askFor = time.Minute, 10 * time.Second

// accounting asks the accounting of Slurm beside the looks at the queue: slurmdbd may hang, and jobs wait for looks.
type accounting struct {
	// ask asks how jobs ended that Slurm has forgotten. beside runs it beside the looks.
	ask    func(ids []string) ([]slurm.Job, error)
	beside func(func())
	// asked is when it was asked last; pending says that the answer is still to come.
	asked   time.Time
	pending bool
	answers chan answer
	// last is the last answer, less what is not asked any more.
	last answer
}

// answer is what the accounting said of some jobs of the ledger.
type answer struct {
	uids map[string]bool
	jobs []slurm.Job
	err  error
}

func newAccounting() *accounting {
	return &accounting{beside: func(f func()) { go f() }, answers: make(chan answer, 1)}
}

// of is what is known of some jobs. It does not wait: the answer may come to a later look.
func (k *accounting) of(uids, ids []string, now time.Time) answer {
	wanted := map[string]bool{}
	for _, uid := range uids {
		wanted[uid] = true
	}
	k.receive()
	for uid := range k.last.uids {
		if !wanted[uid] { // it came back, or is settled
			delete(k.last.uids, uid)
		}
	}
	known := k.last.err == nil || errors.Is(k.last.err, slurm.ErrNoAccounting)
	for _, uid := range uids {
		known = known && k.last.uids[uid]
	}
	if !known && !k.pending && (k.asked.IsZero() || now.Sub(k.asked).Abs() >= askAgain) {
		k.asked, k.pending = now, true
		ask := k.ask
		k.beside(func() {
			jobs, err := ask(ids)
			k.answers <- answer{wanted, jobs, err}
		})
		k.receive()
	}
	return k.last
}

// receive takes up an answer that has come.
func (k *accounting) receive() {
	select {
	case k.last = <-k.answers:
		k.pending = false
	default:
	}
}

// endsOf says how jobs of the ledger ended, by their names in the ledger, as far as the accounting of Slurm knows. told has those of which it has
// answered, or will not.
func (r *round) endsOf(uids []string) (ends map[string]*slurm.Job, told map[string]bool) {
	ends, told = map[string]*slurm.Job{}, map[string]bool{}
	byID := map[string][]string{}
	var named, ids []string
	for _, uid := range uids {
		if parts := strings.Split(uid, "/"); len(parts) == 4 {
			named, ids, byID[parts[2]] = append(named, uid), append(ids, parts[2]), append(byID[parts[2]], uid)
		} else {
			told[uid] = true
		}
	}
	if len(ids) == 0 {
		return ends, told
	}
	before := r.accounting.last.err
	a := r.accounting.of(named, ids, r.in.Now)
	if a.err != nil && !errors.Is(a.err, slurm.ErrNoAccounting) {
		if !errors.Is(before, a.err) {
			r.log.Error("The accounting of Slurm does not answer; ends of jobs that Slurm has forgotten wait for it", "jobs", names(ids), "error", a.err.Error())
		}
		return ends, told
	}
	maps.Copy(told, a.uids)
	for i := range a.jobs {
		j := &a.jobs[i]
		if j.Ended.After(r.in.Now) {
			continue // times of another time zone
		}
		for _, uid := range byID[j.ID] {
			// Slurm states the last submission, a requeue included, and uses numbers again.
			if known := ends[uid]; a.uids[uid] && !j.Submitted.Before(firstSubmission(uid)) && (known == nil || j.Ended.After(known.Ended)) {
				ends[uid] = j
			}
		}
	}
	return ends, told
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
