package ledger

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// RunLength is how long a workload ran in one go, in the time of its zone.
type RunLength struct {
	Workload types.UID
	Policy   string // namespace and name
	Family   string
	Length   time.Duration
}

// mostLengths bounds how many finished workloads a start reads: a few hundred runs of a family tell as much as all.
const mostLengths = 2000

// longestRun bounds what an entry may say of a run time.
const longestRun = 100 * 365 * 24 * time.Hour

const lastFinished = `SELECT seq, at, kind, key, workload, body, hash FROM ledger WHERE kind = 'finished' ORDER BY seq DESC LIMIT $1`

// readLengths returns what the last workloads that ended say of run times, oldest first.
//
// Complexity: O(mostLengths), whatever else is in the ledger.
func (l *Ledger) readLengths(ctx context.Context) (list []RunLength, err error) {
	for e, err := range l.query(ctx, lastFinished, mostLengths) {
		if IsUnreadable(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		b, err := bodyOf[Finished](&e)
		if err != nil || !(b.RanSeconds > 0 && b.RanSeconds <= longestRun.Seconds()) || b.Family == "" {
			continue // it teaches nothing; that it is broken is for the audit to say
		}
		length := time.Duration(b.RanSeconds * float64(time.Second))
		list = append(list, RunLength{Workload: types.UID(e.Workload), Policy: b.Policy, Family: b.Family, Length: length})
	}
	slices.Reverse(list)
	return list, nil
}

// Lengths are the run times of a policy that the ledger had when it was read, oldest first, and whether it has been read.
func (r *Recorder) Lengths(policy string) (list []RunLength, loaded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.lengths {
		if x.Policy == policy {
			list = append(list, x)
		}
	}
	return list, r.loaded
}
