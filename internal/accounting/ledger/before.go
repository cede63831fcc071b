package ledger

import (
	"maps"
	"slices"
	"time"

	"lull.dev/lull/pkg/account"
)

// before are the workloads that came before another and are not settled.
type before struct {
	// pool is what is taken by those that are settled; worst has, beside that, those that are over taken
	// for as long as they may be there. It is the pool itself as long as there are none.
	pool, worst *account.Pool
	// asks is what those that are not over ask for, from their submission on, on every cluster.
	asks map[string]float64
	most map[string]map[string]float64 // that the pool ever has, by cluster; nil where it is not known yet
	// blocked counts those that are over.
	blocked int
}

// mostBlocked bounds how many workloads that are over are looked past in a pass.
const mostBlocked = 1000

func newBefore(pool *account.Pool) *before {
	return &before{pool: pool, worst: pool, asks: map[string]float64{}}
}

// open counts a workload that is not over, but for one that asks for more than there ever is: it takes nothing.
func (b *before) open(of *Submitted) {
	if b.pool == nil {
		return
	}
	if b.most == nil {
		b.most = b.pool.Most()
	}
	asks := whole(of)
	for name, most := range b.most {
		fits := len(of.Clusters) == 0 || slices.Contains(of.Clusters, name)
		for r, v := range asks {
			fits = fits && v <= most[r]
		}
		if fits {
			for r, v := range asks {
				b.asks[r] += v
			}
			return
		}
	}
}

// block counts a workload that is over and runs, as submitted, at some time of a stretch; to is zero where that has
// no end.
func (b *before) block(of *Submitted, from, to time.Time) {
	b.blocked++
	if to.IsZero() {
		b.open(of)
		return
	}
	if b.pool == nil {
		return
	}
	if b.worst == b.pool {
		b.worst = b.pool.Clone()
	}
	for _, name := range b.pool.Names() {
		if len(of.Clusters) == 0 || slices.Contains(of.Clusters, name) {
			b.worst.Take(name, from, to, whole(of))
		}
	}
}

// settled counts a workload that has been settled.
func (b *before) settled(of *Settled) {
	if b.worst != b.pool {
		takeFrom(b.worst, of)
	}
}

// apart says whether the place of a workload as submitted is the same whatever becomes of those before it: it
// has the same beside all that they may take as without them, and so do they, whether it is settled before
// them or after. from and to are the stretch in which it runs in any case, as the more is taken, the later it starts;
// to is zero where it may have to wait for ever.
func (b *before) apart(w *work) (from, to time.Time, apart bool) {
	stretches, _ := w.stretches()
	if b.pool == nil || len(stretches) == 0 {
		return w.finished.At, w.finished.At, true
	}
	asks, length := whole(&w.of), w.length(w.useful(stretches))
	cluster, from, ok := b.pool.Place(w.of.Clusters, w.of.At, length, asks)
	if !ok {
		return w.of.At, w.of.At, true // beyond what there is
	}
	if len(b.asks) == 0 && b.worst == b.pool {
		return from, from.Add(length), true
	}
	beside := maps.Clone(asks)
	for r, v := range asks {
		if v > 0 {
			beside[r] += b.asks[r]
		}
	}
	latestOn, latest, ok := b.worst.Place(w.of.Clusters, w.of.At, length, beside)
	if !ok {
		return from, time.Time{}, false
	}
	return from, latest.Add(length), cluster == latestOn && from.Equal(latest)
}
