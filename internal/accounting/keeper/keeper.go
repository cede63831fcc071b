// Package keeper writes to the ledger what a controller records, and settles what is over, beside its decisions.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/base/metrics"
)

const (
	// settleEvery is how often workloads that are over are settled.
	settleEvery = 5 * time.Second
	// writeAgain is how long the ledger waits after a write that failed.
	writeAgain = 5 * time.Second
	// flushWithin bounds what is written at the end.
	flushWithin = 10 * time.Second
	// loadWithin is how long decisions wait, at a start, for the ledger to be read.
	loadWithin = 2 * time.Second
	// behindAfter is how long an entry may wait before the ledger counts as behind.
	behindAfter = 30 * time.Second
)

// Keeper keeps a ledger for one controller. It is safe for concurrent use.
type Keeper struct {
	// Recorder queues what the controller observes.
	Recorder *ledger.Recorder

	settler *ledger.Settler
	gridNow func(zone string) time.Time
	failed  func(ctx context.Context, err error, message string, args ...any)
	// began is when the controller did (wall time).
	began time.Time

	mu sync.Mutex
	// counted is what the metrics have of what is lost and in quarantine.
	counted ledger.Health
}

// New returns a Keeper of a ledger. A database that cannot be opened yet keeps no controller from starting. gridNow is the
// time of a zone's series, zero if it is not known; failed logs what fails.
func New(l *ledger.Ledger, gridNow func(zone string) time.Time, failed func(ctx context.Context, err error, message string, args ...any)) *Keeper {
	return &Keeper{Recorder: ledger.NewRecorder(l), settler: ledger.NewSettler(l), gridNow: gridNow, failed: failed, began: time.Now()}
}

// Loading says whether a decision should wait, as the ledger is being read.
func (k *Keeper) Loading() bool {
	return time.Since(k.began) < loadWithin && !k.Recorder.Health().Loaded
}

// Start writes and settles until ctx ends, and writes then what is left.
func (k *Keeper) Start(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { k.write(ctx) })
	for ctx.Err() == nil {
		n, err := k.settler.Settle(ctx, k.gridNow)
		if err != nil && ctx.Err() == nil {
			metrics.LedgerErrors.Inc()
			k.failed(ctx, err, "Settle")
		}
		metrics.LedgerSettled.Add(float64(n))
		k.count(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(settleEvery):
		}
	}
	group.Wait()
	return nil
}

// write writes what is recorded, beside the decisions.
func (k *Keeper) write(ctx context.Context) {
	for ctx.Err() == nil {
		var again <-chan time.Time
		if err := k.Recorder.Write(ctx); err != nil && ctx.Err() == nil {
			metrics.LedgerErrors.Inc()
			k.failed(ctx, err, "Record")
			again = time.After(writeAgain)
		}
		k.count(ctx)
		queued := k.Recorder.Queued()
		if again != nil {
			queued = nil // a database that fails is not asked at each decision
		}
		select {
		case <-ctx.Done():
		case <-queued:
		case <-again:
		}
	}
	k.Flush(context.WithoutCancel(ctx))
}

// Flush writes what is left, within a bound. It is called again once the last decision has ended.
func (k *Keeper) Flush(ctx context.Context) {
	if !k.Recorder.Health().Loaded {
		return // nothing was recorded, as this replica has not led, say
	}
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	if err := k.Recorder.Flush(ctx); err != nil {
		k.failed(ctx, err, "Failed to write the remaining entries", "entries", k.Recorder.Health().Queued)
	}
}

// count tells the metrics how the ledger is, and logs what has gone into quarantine.
func (k *Keeper) count(ctx context.Context) {
	for _, q := range k.Recorder.TakeQuarantined() {
		k.failed(ctx, errors.New(q.Reason), "An entry of the ledger is in quarantine: figures of its workload are withheld, or stay as they are", "kind", q.Kind, "key", q.Key)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.Recorder.Health()
	metrics.LedgerPending.Set(float64(h.Queued))
	lag := 0.0
	if h.Queued > 0 {
		lag = time.Since(h.Since).Seconds()
	}
	metrics.LedgerLag.Set(lag)
	metrics.LedgerLost.WithLabelValues("look").Add(float64(h.LostLooks - k.counted.LostLooks))
	metrics.LedgerLost.WithLabelValues("pod").Add(float64(h.LostPods - k.counted.LostPods))
	metrics.LedgerQuarantined.Add(float64(h.Quarantine.Entries - k.counted.Quarantine.Entries))
	k.counted = h
}

// Problem says what is wrong with the ledger, in a word and in a sentence; nothing where nothing is. The texts do not
// count, so that a status is not written at each decision.
func (k *Keeper) Problem() (reason, message string) {
	h := k.Recorder.Health()
	switch {
	case h.Problem != "":
		return "Behind", "entries wait for the ledger's database: " + h.Problem
	case h.Queued > 0 && time.Since(h.Since) > behindAfter:
		return "Behind", fmt.Sprintf("entries have waited for the ledger's database for more than %v", behindAfter)
	case h.LostLooks+h.LostPods > 0:
		return "Lost", "observations could not be recorded since the controller started: see the metric lull_ledger_lost_observations_total"
	case h.Quarantine.Entries > 0:
		return "Quarantined", fmt.Sprintf("entries of the ledger went into quarantine since the controller started, the last of kind %s with key %s: see lull ledger export --entries", h.Quarantine.Last.Kind, h.Quarantine.Last.Key)
	}
	return "", ""
}
