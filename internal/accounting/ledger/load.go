package ledger

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// load reads, once, what is open: workloads that are not over, and runs that have not ended.
//
// It also reads the run times of the last workloads that are.
//
// Complexity: O(entries of the workloads that are not over + mostLengths), whatever else is in the ledger.
func (r *Recorder) load(ctx context.Context) error {
	r.mu.Lock()
	loaded := r.loaded
	r.mu.Unlock()
	if loaded {
		return nil
	}
	var since time.Time
	seq, at, err := r.ledger.next(ctx, 0)
	if err != nil {
		return err
	}
	if seq > 1 {
		since = at
	}
	workloads, runs := map[types.UID]*observed{}, map[types.UID]types.UID{}
	for e, err := range r.ledger.unfinished(ctx) {
		if err == nil {
			err = take(&e, workloads, runs)
		}
		if err != nil && !IsUnreadable(err) { // the settler puts those aside; what they say is observed again
			return err
		}
	}
	lengths, err := r.ledger.readLengths(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.opened, r.workloads, r.runs, r.lengths, r.loaded = since, at, workloads, runs, lengths, true
	return nil
}

// take takes up an entry of a workload that is not over.
func take(e *Entry, workloads map[types.UID]*observed, runs map[types.UID]types.UID) error {
	uid := types.UID(e.Workload)
	w := workloads[uid]
	if w == nil && e.Kind != KindSubmitted {
		return nil // what it was submitted as has been dropped
	}
	switch e.Kind {
	case KindSubmitted:
		b, err := bodyOf[Submitted](e)
		if err != nil {
			return err
		}
		workloads[uid] = &observed{policy: b.Policy, runs: map[types.UID]*run{}, runtime: b.runtime()}
	case KindStarted:
		b, err := bodyOf[Started](e)
		if err != nil {
			return err
		}
		w.runs[types.UID(b.Run)], runs[types.UID(b.Run)] = &run{from: b.At}, uid
		if b.Node == "" {
			w.remote = b.Run // the last; the next look begins another
		}
	case KindEnded:
		b, err := bodyOf[Ended](e)
		if err != nil {
			return err
		}
		if x := w.runs[types.UID(b.Run)]; x != nil {
			x.ended = true
		}
		if w.remote == b.Run {
			w.remote = ""
		}
		delete(runs, types.UID(b.Run))
	}
	return nil
}

// hour is an intensity as it was written last.
type hour struct {
	value     float64
	estimated bool
	revision  int
}

// intensityKey is the key of an intensity that begins at a second.
func intensityKey(zone string, begin int64, revision int) string {
	return fmt.Sprintf("intensity/%s/%d/%d", zone, begin, revision)
}

// loadHours reads which of the hours that a look has asked for are in the ledger.
func (r *Recorder) loadHours(ctx context.Context) error {
	r.mu.Lock()
	wanted := maps.Clone(r.wanted)
	r.mu.Unlock()
	for _, zone := range slices.Sorted(maps.Keys(wanted)) {
		hours, err := r.ledger.hours(ctx, zone, wanted[zone])
		if err != nil {
			return err
		}
		r.mu.Lock()
		if r.hours[zone] == nil {
			r.hours[zone] = hours
		} else { // of earlier values
			for _, at := range wanted[zone] {
				r.earlier[zone].sought[at] = true
			}
			maps.Copy(r.hours[zone], hours)
		}
		delete(r.wanted, zone)
		r.mu.Unlock()
	}
	return nil
}

// hours returns the last revisions of the intensities of a zone that begin at some seconds; those that
// are not in the ledger are left out.
//
// Complexity: O(seconds and their revisions) entries, whatever else is in the ledger.
func (l *Ledger) hours(ctx context.Context, zone string, begin []int64) (map[int64]hour, error) {
	found, broken, err := l.intensitiesAt(ctx, zone, begin)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]hour, len(found))
	for at, revision := range broken {
		out[at] = hour{value: math.NaN(), revision: revision} // no value is equal to it, so that it is written again
	}
	for at, b := range found {
		out[at] = hour{b.Value, b.Estimated, b.Revision}
	}
	return out, nil
}
