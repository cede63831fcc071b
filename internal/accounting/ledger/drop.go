package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"lull.dev/lull/pkg/carbon"
)

// Drop drops what was written before a time, in one transaction. What still counts goes to the end again: the
// entries of workloads that are not settled yet, the last capacities, and the intensities since
// the first of those workloads came, and for carbon.FillReach before that. A checkpoint says what was dropped, so that the chain still holds. It returns how
// many entries there are less.
//
// Errors wrap ErrDatabase or ErrBroken. Complexity: O(entries) time, and memory for what still counts.
func (l *Ledger) Drop(ctx context.Context, before time.Time) (dropped int64, err error) {
	var last Entry
	open := map[string][]Entry{}  // by workload
	settled := map[string]Entry{} // by workload: the last of those to be dropped
	var capacities, intensities []Entry
	for e, err := range l.Read(ctx, Query{}) {
		if err != nil {
			return 0, err
		}
		if e.At.Before(before) {
			last = e
		}
		if e.Kind == KindSettled {
			delete(open, e.Workload)
			if e.At.Before(before) {
				settled[e.Workload] = e
			}
			continue
		}
		if !e.At.Before(before) {
			continue
		}
		switch {
		case e.Workload != "":
			if _, there := open[e.Workload]; there || e.Kind == KindSubmitted {
				open[e.Workload] = append(open[e.Workload], e)
			}
		case e.Kind == KindCapacity:
			capacities = append(capacities, e)
		case e.Kind == KindIntensity:
			intensities = append(intensities, e)
		}
	}
	if last.Seq == 0 {
		return 0, nil
	}
	kept, err := stillCounts(open, settled, capacities, intensities)
	if err != nil {
		return 0, err
	}
	mark := New{Kind: KindCheckpoint, Key: fmt.Sprintf("checkpoint/%d", last.Seq), Body: Checkpoint{Through: last.Seq, Hash: last.Hash}}
	if err := l.catchUp(ctx); err != nil {
		return 0, err
	}
	err = l.within(ctx, func(tx *sql.Tx) error {
		marked, err := l.write(ctx, tx, []Entry{mark.entry()})
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, l.rewrite(`DELETE FROM ledger WHERE seq <= $1`), last.Seq)
		if err != nil {
			return l.failed("drop", err)
		}
		if dropped, err = res.RowsAffected(); err != nil {
			return l.failed("drop", err)
		}
		again, err := l.write(ctx, tx, kept)
		dropped -= int64(len(marked) + len(again))
		return err
	})
	return dropped, err
}

// stillCounts are the entries that what comes later rests on, in their order: those of open workloads, and, since the
// first of them came, capacities, what settled workloads take of them as submitted, and intensities.
func stillCounts(open map[string][]Entry, settled map[string]Entry, capacities, intensities []Entry) (kept []Entry, err error) {
	var since time.Time
	for _, list := range open {
		b, err := bodyOf[Submitted](&list[0])
		if err != nil {
			return nil, err
		}
		if since.IsZero() || b.At.Before(since) {
			since = b.At
		}
		kept = append(kept, list...)
	}
	current := map[string]Entry{} // by policy and cluster: the last capacity before that
	for _, e := range capacities {
		b, err := bodyOf[Capacity](&e)
		if err != nil {
			return nil, err
		}
		if since.IsZero() || !b.At.After(since) {
			current[b.Policy+" "+b.Cluster] = e
			continue
		}
		kept = append(kept, e)
	}
	kept = slices.AppendSeq(kept, maps.Values(current))
	if !since.IsZero() {
		for _, e := range settled {
			b, err := bodyOf[Settled](&e)
			if err != nil {
				return nil, err
			}
			if b.Counterfactual.To.After(since) {
				kept = append(kept, e)
			}
		}
	}
	newest := map[string]time.Time{} // by zone: when its last intensity begins that is to be dropped
	times := make([]Intensity, len(intensities))
	for i, e := range intensities {
		if times[i], err = bodyOf[Intensity](&e); err != nil {
			return nil, err
		}
		if zone := times[i].Zone; times[i].From.After(newest[zone]) {
			newest[zone] = times[i].From
		}
	}
	for i, b := range times {
		// Work that comes later may have hours without an intensity as well.
		first := newest[b.Zone]
		if !since.IsZero() && since.Before(first) {
			first = since
		}
		if b.To.After(first.Add(-carbon.FillReach)) {
			kept = append(kept, intensities[i])
		}
	}
	slices.SortFunc(kept, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return kept, nil
}

// bodyOf reads the body of an entry.
func bodyOf[T any](e *Entry) (body T, err error) {
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return body, &unreadable{e.Seq, err}
	}
	return body, nil
}
