package ledger

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/pkg/account"
	"lull.dev/lull/pkg/carbon"
)

// published is an intensity, and the number of its entry.
type published struct {
	Intensity
	seq int64
	// until is its end, or that of the one in whose place it is or which it cuts (cut), if later.
	until time.Time
}

// start reads what the first pass needs: all that is known of workloads that are not settled; and, since the first of them was submitted
// or since readBack, the intensities, the capacities and what was settled. What settled workloads rest on is not read.
//
// Complexity: O(entries of open workloads + intensities + capacities + settled workloads of that time).
func (s *Settler) start(ctx context.Context) error {
	through, _, err := s.ledger.Head(ctx)
	if err != nil {
		return err
	}
	after, err := s.ledger.before(ctx, s.ledger.clock().Add(-readBack))
	if err != nil {
		return err
	}
	open, err := s.ledger.firstOpen(ctx)
	if err != nil {
		return err
	}
	if open > 0 {
		after = min(after, open-1)
	}
	s.dropped = s.dropped || after > 0
	for _, kind := range []Kind{KindCheckpoint, KindCapacity, KindIntensity, KindQuarantined, KindSettled} {
		for e, err := range s.ledger.query(ctx, entriesOfKind, string(kind), after, through) {
			if err := s.read(&e, err); err != nil {
				return err
			}
		}
	}
	for e, err := range s.ledger.query(ctx, entriesOfOpen, through) {
		if err := s.read(&e, err); err != nil {
			return err
		}
	}
	s.after, s.started = through, true
	return nil
}

const (
	entriesOfKind = `SELECT seq, at, kind, key, workload, body, hash FROM ledger WHERE kind = $1 AND seq > $2 AND seq <= $3 ORDER BY seq`
	entriesOfOpen = `SELECT seq, at, kind, key, workload, body, hash FROM ledger
	WHERE workload IN (SELECT workload FROM ledger_open WHERE workload != '') AND seq <= $1 ORDER BY workload, seq`
)

// rests reads what a settled workload rests on; nil if that was dropped, or cannot be decoded, at least in part.
func (s *Settler) rests(ctx context.Context, uid string) (*work, error) {
	w := &work{uid: uid, started: map[string]Started{}, ended: map[string]Ended{}}
	submitted, whole := false, true
	for e, err := range s.ledger.Read(ctx, Query{Workload: uid}) {
		switch {
		case err != nil:
		case e.Kind == KindSubmitted:
			w.of, err = bodyOf[Submitted](&e)
			submitted = true
		case e.Kind == KindSettled:
			var b Settled
			if b, err = e.Settled(); err == nil && (w.settled == nil || b.Revision > w.settled.Revision) {
				w.settled = &b
			}
		default:
			err = w.observe(&e)
		}
		switch {
		case IsUnreadable(err):
			whole = false
			s.setAside(&e, err)
		case err != nil:
			return nil, err
		}
	}
	if !whole || !submitted || w.settled == nil || w.finished == nil || len(w.started) == 0 || len(w.started) < w.settled.Runs {
		return nil, nil
	}
	return w, nil
}

// restate settles anew what rests on intensities that were revised, or that came after the
// workload was settled without them, and what an earlier method left incomplete; the
// counterfactual stays where it is. What rests on entries that were dropped stays as it is.
//
// Errors wrap ErrDatabase or ErrBroken; the next call goes on with the workloads that are left. Complexity: that of concerned, and
// O(entries of the concerned workloads x intensities).
func (s *Settler) restate(ctx context.Context) (out []New, err error) {
	uids := s.concerned()
	var oldest map[string]time.Time
	if len(uids) > 0 {
		oldest = s.oldest()
	}
	for _, uid := range uids {
		w, err := s.rests(ctx, uid)
		if err != nil {
			return out, err
		}
		s.past.of[uid].outdated = false
		if w == nil {
			continue
		}
		why := s.whyRestate(w)
		if why == "" || !s.covered(w, oldest) {
			continue
		}
		b := *w.settled
		stretches, _ := w.stretches()
		s.count(&b, w, stretches)
		if sameFigures(&b, w.settled) {
			continue
		}
		b.Revision++
		b.Why = why
		s.setSettled(uid, &b)
		out = append(out, New{Kind: KindSettled, Key: fmt.Sprintf("settled/%s/%d", uid, b.Revision), Workload: uid, Body: b})
	}
	s.revised, s.arrived, s.refined, s.outdated = nil, nil, nil, false
	return out, nil
}

// whyRestate returns why the figures of a settled workload may have changed: intensities were revised, published in finer
// steps, or published at last; "" where they
// cannot have.
func (s *Settler) whyRestate(w *work) string {
	if w.settled.Method != account.Method && w.settled.leavesOut() {
		return fmt.Sprintf("method %s fills hours without a known intensity, or withholds the figures", account.Method)
	}
	zones := s.zonesConcerned(w, s.revised)
	if len(zones) > 0 {
		return "revised intensities of " + strings.Join(zones, ", ")
	}
	if w.settled.incomplete() {
		if zones = s.zonesConcerned(w, s.arrived); len(zones) > 0 {
			return "later intensities of " + strings.Join(zones, ", ")
		}
	} else if zones = s.zonesConcerned(w, s.refined); len(zones) > 0 {
		return "finer intensities of " + strings.Join(zones, ", ")
	}
	return ""
}

// covered says that no intensity that a workload is counted by was dropped.
func (s *Settler) covered(w *work, oldest map[string]time.Time) bool {
	if oldest == nil {
		return true
	}
	reach := time.Duration(0)
	if w.settled.incomplete() {
		reach = carbon.FillReach
	}
	known := func(zone string, from time.Time) bool {
		for _, name := range []string{zone, s.besideOf(zone)} {
			if first, there := oldest[name]; name != "" && (!there || first.After(from.Add(-reach))) {
				return false
			}
		}
		return true
	}
	if c := &w.settled.Counterfactual; !known(c.Zone, c.From) {
		return false
	}
	for _, b := range w.started {
		if !known(b.Zone, b.At) {
			return false
		}
	}
	return true
}

// zonesConcerned returns the zones of those intensities that a workload is counted by, and that came after it was settled.
func (s *Settler) zonesConcerned(w *work, list []published) (zones []string) {
	for i := range list {
		if list[i].seq > w.settled.After && !slices.Contains(zones, list[i].Zone) && s.concerns(w, &list[i]) {
			zones = append(zones, list[i].Zone)
		}
	}
	return zones
}

// sameFigures says that two settlements of a workload state the same emissions. What a sum of another order changes is no other figure.
func sameFigures(a, b *Settled) bool {
	if (a.Beside == nil) != (b.Beside == nil) {
		return false
	}
	if a.Beside != nil {
		x, y := *a.Beside, *b.Beside
		if !same(x.Grams, y.Grams) || !same(x.AsSubmittedGrams, y.AsSubmittedGrams) {
			return false
		}
		x.Grams, x.AsSubmittedGrams, x.SavedGrams = y.Grams, y.AsSubmittedGrams, y.SavedGrams
		if x != y {
			return false
		}
	}
	return same(a.Grams, b.Grams) && same(a.Counterfactual.Grams, b.Counterfactual.Grams) && a.Withheld == b.Withheld &&
		a.FilledSeconds == b.FilledSeconds && a.Counterfactual.FilledSeconds == b.Counterfactual.FilledSeconds
}

// sumError is how far equal sums of floating-point numbers may differ, as a share.
const sumError = 1e-9

func same(a, b float64) bool { return math.Abs(a-b) <= sumError*max(math.Abs(a), math.Abs(b)) }

// concerns says whether a time is one that a workload is counted by: a time in which it ran
// or would have run, or, where some of that has no known intensity, one that may stand in.
func (s *Settler) concerns(w *work, x *published) bool {
	from, to := x.From, x.until
	if w.settled.incomplete() {
		from, to = from.Add(-carbon.FillReach), to.Add(carbon.FillReach)
	}
	touches := func(zone string, began, ended time.Time) bool {
		return (zone == x.Zone || s.besideOf(zone) == x.Zone) && began.Before(to) && from.Before(ended)
	}
	if c := &w.settled.Counterfactual; touches(c.Zone, c.From, c.To) {
		return true
	}
	for _, b := range w.started {
		if touches(b.Zone, b.At, w.finished.At) {
			return true
		}
	}
	return false
}
