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

// accounting asks the accounting of Slurm beside the looks at the queue: slurmdbd may hang, and jobs wait for looks. T is what it says of jobs.
type accounting[T any] struct {
	// ask asks about jobs by what scontrol calls them. beside runs it beside the looks.
	ask    func(ids []string) ([]T, error)
	beside func(func())
	// asked is when it was asked last; pending says that the answer is still to come.
	asked   time.Time
	pending bool
	answers chan answer[T]
	// last is the last answer, less what is not asked any more.
	last answer[T]
}

// answer is what the accounting said of some jobs of the ledger.
type answer[T any] struct {
	uids map[string]bool
	of   []T
	err  error
}

func newAccounting[T any]() *accounting[T] {
	return &accounting[T]{beside: func(f func()) { go f() }, answers: make(chan answer[T], 1)}
}

// of is what is known of some jobs. It does not wait: the answer may come to a later look.
func (k *accounting[T]) of(uids, ids []string, now time.Time) answer[T] {
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
			of, err := ask(ids)
			k.answers <- answer[T]{wanted, of, err}
		})
		k.receive()
	}
	return k.last
}

// receive takes up an answer that has come.
func (k *accounting[T]) receive() {
	select {
	case k.last = <-k.answers:
		k.pending = false
	default:
	}
}

// again has a job asked about once more, whatever was said of it.
func (k *accounting[T]) again(uid string) { delete(k.last.uids, uid) }

// endsOf says how jobs of the ledger ended, by their names in the ledger, as far as the accounting of Slurm knows. told has those of which it has
// answered, or will not.
func (r *round) endsOf(uids []string) (ends map[string]*slurm.Job, told map[string]bool) {
	ends, told = map[string]*slurm.Job{}, map[string]bool{}
	byID := map[string][]string{}
	var named, ids []string
	for _, uid := range uids {
		if id := idOf(uid); id != "" {
			named, ids, byID[id] = append(named, uid), append(ids, id), append(byID[id], uid)
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
	for i := range a.of {
		j := &a.of[i]
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

// idOf is what scontrol calls a job of the ledger; empty if its name there is none of this controller's.
func idOf(uid string) string {
	if parts := strings.Split(uid, "/"); len(parts) == 4 {
		return parts[2]
	}
	return ""
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
