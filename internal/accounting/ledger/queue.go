package ledger

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A Recorder keeps what it has found in a queue in memory. Another goroutine writes it to the ledger, in
// order, so that no decision waits for the database.

const (
	// mostQueued bounds the queue, in bytes. Above it the recorder holds back: it observes again once
	// the queue has been written, and what objects do not tell any more by then is lost, and counted.
	mostQueued = 64 << 20
	// entryBytes is what an entry in the queue takes beside its texts.
	entryBytes = 256
	// mostGone bounds the pods that were deleted and that no look has asked for.
	mostGone = 10_000
	// writeBatch is how many entries a transaction writes.
	writeBatch = 1000
)

// Health is how a Recorder is.
type Health struct {
	// Loaded says that the ledger has been read; nothing is recorded before that.
	Loaded bool
	// Queued entries wait for the database, the oldest since Since (wall time).
	Queued int
	Since  time.Time
	// Problem is why the last write failed; "" where it did not.
	Problem string
	// LostLooks counts looks that were held back, as the queue was full or the ledger had not been
	// read; LostPods the ends of pods that no look has asked for in time.
	LostLooks, LostPods int
	Quarantine          Quarantine
}

// Health returns how the recorder is. It does not wait for the database.
func (r *Recorder) Health() Health {
	q := r.ledger.Quarantine()
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.health
	h.Loaded, h.Queued, h.Quarantine = r.loaded, len(r.queue), q
	if len(r.queue) > 0 {
		h.Since = r.queue[0].since
	}
	return h
}

// TakeQuarantined is that of the ledger.
func (r *Recorder) TakeQuarantined() []Quarantined { return r.ledger.TakeQuarantined() }

// Queued tells that there is something to write.
func (r *Recorder) Queued() <-chan struct{} { return r.wake }

// queued is an entry that waits for the database.
type queued struct {
	Entry
	since time.Time
}

func (q *queued) bytes() int { return entryBytes + len(q.Key) + len(q.Workload) + len(q.Body) }

// add queues an entry. It is encoded here, as what it is of may change before it is written.
func (r *Recorder) add(kind Kind, key string, workload types.UID, body any) {
	n := New{Kind: kind, Key: key, Workload: string(workload), Body: body}
	q := queued{n.entry(), time.Now()}
	r.queue, r.bytes = append(r.queue, q), r.bytes+q.bytes()
	r.signal()
}

// signal wakes who waits for Queued.
func (r *Recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // it has not woken since the last time
	}
}

// Write reads what the recorder needs of the ledger, and writes what is queued, the oldest first. On an
// error what was not written stays in the queue.
//
// Errors wrap ErrDatabase or ErrBroken.
func (r *Recorder) Write(ctx context.Context) (err error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.health.Problem = ""; err != nil {
			r.health.Problem = err.Error()
		}
	}()
	if err := r.load(ctx); err != nil {
		return err
	}
	if err := r.loadHours(ctx); err != nil {
		return err
	}
	for {
		r.mu.Lock()
		batch := make([]Entry, min(len(r.queue), writeBatch))
		for i := range batch {
			batch[i] = r.queue[i].Entry
		}
		r.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		// Without the lock, so that looks go on.
		if _, err := r.ledger.append(ctx, batch); err != nil {
			return err
		}
		r.mu.Lock()
		for i := range batch {
			r.bytes -= r.queue[i].bytes()
		}
		r.queue = slices.Delete(r.queue, 0, len(batch))
		r.mu.Unlock()
	}
}

// Flush writes all that is known: what is queued, and the energy of the hours that have begun.
func (r *Recorder) Flush(ctx context.Context) error {
	r.mu.Lock()
	for uid, o := range r.workloads {
		if e := o.energy; e.Source != "" {
			r.writeEnergy(uid, o)
			o.energy = Energy{From: e.To, To: e.To, Zone: e.Zone, Source: e.Source}
		}
	}
	r.mu.Unlock()
	return r.Write(ctx)
}
