package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// MostIntensities is the longest span of time that Intensities reads.
const MostIntensities = 31 * 24 * time.Hour

// Intensities returns the published intensities of a GridZone that begin in [from, to), each in its last revision, in the order of
// their times. Hours that are not in the ledger are left out. Of more than MostIntensities it returns the last part. Errors wrap
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
	found, err := l.intensitiesAt(ctx, zone, begin)
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
// are left out.
//
// Complexity: O(seconds and their revisions) entries, whatever else is in the ledger.
func (l *Ledger) intensitiesAt(ctx context.Context, zone string, begin []int64) (map[int64]Intensity, error) {
	out := make(map[int64]Intensity, len(begin))
	for revision := 0; len(begin) > 0; revision++ {
		var found []int64
		for some := range slices.Chunk(begin, keysAtOnce) {
			args, places := make([]any, len(some)), make([]string, len(some))
			for i, at := range some {
				args[i], places[i] = intensityKey(zone, at, revision), fmt.Sprintf("$%d", i+1)
			}
			for e, err := range l.query(ctx, `SELECT seq, at, kind, key, workload, body, hash FROM ledger WHERE key IN (`+strings.Join(places, ", ")+`)`, args...) {
				if err != nil {
					return nil, err
				}
				if e.Kind != KindIntensity {
					continue
				}
				var b Intensity
				if err := json.Unmarshal(e.Body, &b); err != nil {
					return nil, fmt.Errorf("%w: entry %d: %w", ErrBroken, e.Seq, err)
				}
				b.Revision = revision
				out[b.From.Unix()] = b
				found = append(found, b.From.Unix())
			}
		}
		begin = found
	}
	return out, nil
}
