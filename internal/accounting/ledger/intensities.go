package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// MostIntensities is the longest span of time that Intensities reads.
const MostIntensities = 31 * 24 * time.Hour

// Intensities returns the published intensities of a GridZone that begin in [from, to), each in its last revision, in the order of
// their times. Hours that are not in the ledger, or cannot be decoded, are left out. Of more than MostIntensities it returns the last part. Errors wrap
// ErrDatabase or ErrBroken.
//
// Complexity: O(steps of five minutes from the first to the last time), whatever else is in the ledger.
func (l *Ledger) Intensities(ctx context.Context, zone string, from, to time.Time) ([]Intensity, error) {
	if first := to.Add(-MostIntensities); from.Before(first) {
		from = first
	}
	var begin []int64
	for at := from.Truncate(finestStep); at.Before(to); at = at.Add(finestStep) {
		if !at.Before(from) {
			begin = append(begin, at.Unix())
		}
	}
	found, _, err := l.intensitiesAt(ctx, zone, begin)
	if err != nil {
		return nil, err
	}
	out := make([]Intensity, 0, len(found))
	for _, at := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[at])
	}
	return out, nil
}

// keysAtOnce is how many keys a statement asks for.
const keysAtOnce = 500

// intensitiesAt returns the last revisions of the intensities of a zone that begin at some seconds; those that are not in the ledger
// are left out. Of those whose last revision cannot be decoded it returns that revision.
//
// Complexity: O(seconds and their revisions) entries, whatever else is in the ledger.
func (l *Ledger) intensitiesAt(ctx context.Context, zone string, begin []int64) (out map[int64]Intensity, broken map[int64]int, err error) {
	out, broken = make(map[int64]Intensity, len(begin)), map[int64]int{}
	for revision := 0; len(begin) > 0; revision++ {
		var found []int64
		for some := range slices.Chunk(begin, keysAtOnce) {
			args, places, begins := make([]any, len(some)), make([]string, len(some)), make(map[string]int64, len(some))
			for i, at := range some {
				key := intensityKey(zone, at, revision)
				args[i], places[i], begins[key] = key, fmt.Sprintf("$%d", i+1), at
			}
			for e, err := range l.query(ctx, `SELECT seq, at, kind, key, workload, body, hash FROM ledger WHERE key IN (`+strings.Join(places, ", ")+`)`, args...) {
				if err != nil && !IsUnreadable(err) {
					return nil, nil, err
				}
				if e.Kind != KindIntensity {
					continue
				}
				begin := begins[e.Key]
				found = append(found, begin)
				b, bad := bodyOf[Intensity](&e)
				if err != nil || bad != nil {
					delete(out, begin)
					broken[begin] = revision
					continue
				}
				b.Revision = revision
				out[begin] = b
				delete(broken, begin)
			}
		}
		begin = found
	}
	return out, broken, nil
}
