package slurm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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
	// ask asks about jobs by what scontrol calls them. It returns of how many of them, from the first one on, the answer is. beside runs it beside the looks.
	ask    func(ids []string) (of []T, answered int, err error)
	beside func(func())
	id     func(*T) string
	// most is how many jobs a question names.
	most int
	// asked is when it was asked last; pending says that the answer is still to come. tried is when it was asked about a job last.
	asked   time.Time
	pending bool
	tried   map[string]time.Time
	answers chan answer[T]
	// last is what it has said, less what is not asked any more, and why it did not answer the last question.
	last answer[T]
}

// answer is what the accounting said of some jobs of the ledger.
type answer[T any] struct {
	uids map[string]bool
	of   []T
	err  error
	// about are the jobs by what scontrol calls them.
	about map[string]bool
}

func newAccounting[T any](most int, id func(*T) string) *accounting[T] {
	return &accounting[T]{beside: func(f func()) { go f() }, id: id, most: most, tried: map[string]time.Time{}, answers: make(chan answer[T], 1), last: answer[T]{uids: map[string]bool{}}}
}

// of is what is known of some jobs, those first that are to be asked about first. It does not wait: the answer may come to a later look.
func (k *accounting[T]) of(uids, ids []string, now time.Time) answer[T] {
	wanted, named := map[string]bool{}, map[string]bool{}
	for i, uid := range uids {
		wanted[uid], named[ids[i]] = true, true
	}
	k.receive()
	// Others came back, or are settled.
	maps.DeleteFunc(k.last.uids, func(uid string, _ bool) bool { return !wanted[uid] })
	maps.DeleteFunc(k.tried, func(uid string, _ time.Time) bool { return !wanted[uid] })
	k.last.of = slices.DeleteFunc(k.last.of, func(x T) bool { return !named[k.id(&x)] })
	late := func(at time.Time) bool { return at.IsZero() || now.Sub(at).Abs() >= askAgain }
	if k.pending || k.last.err != nil && !late(k.asked) {
		return k.last
	}
	var next, about []string
	for i, uid := range uids {
		if !k.last.uids[uid] && late(k.tried[uid]) && len(next) < k.most {
			next, about = append(next, uid), append(about, ids[i])
		}
	}
	if len(next) == 0 {
		return k.last
	}
	k.asked, k.pending = now, true
	for _, uid := range next {
		k.tried[uid] = now
	}
	ask := k.ask
	k.beside(func() {
		of, answered, err := ask(about)
		if errors.Is(err, slurm.ErrNoAccounting) {
			answered = len(about)
		}
		a := answer[T]{uids: map[string]bool{}, of: of, err: err, about: map[string]bool{}}
		for i, uid := range next[:answered] {
			a.uids[uid], a.about[about[i]] = true, true
		}
		k.answers <- a
	})
	k.receive()
	return k.last
}

// receive takes up an answer that has come.
func (k *accounting[T]) receive() {
	select {
	case a := <-k.answers:
		k.pending, k.last.err = false, a.err
		maps.Copy(k.last.uids, a.uids)
		k.last.of = append(slices.DeleteFunc(k.last.of, func(x T) bool { return a.about[k.id(&x)] }), a.of...)
	default:
	}
}

// again has a later question name a job once more.
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
	if fails(a.err) && !fails(before) {
		r.log.Error("The accounting of Slurm does not answer; ends of jobs that Slurm has forgotten wait for it", "jobs", names(ids), "error", a.err.Error())
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

// fails reports whether an error is that of an accounting that there is.
func fails(err error) bool { return err != nil && !errors.Is(err, slurm.ErrNoAccounting) }

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
	continued = continued || slices.ContainsFunc(r.open[uid].Began, func(at time.Time) bool { return at.Sub(j.Started).Abs() <= sameStart }) // its end is known
	if !continued && !j.Started.IsZero() && j.Ended.After(j.Started) {
		out = append(out, ledger.JobRun{Started: r.started(fmt.Sprintf("%s/at%d", uid, j.Started.Unix()), j), Ended: ended(j)})
	}
	return out
}
