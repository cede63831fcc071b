package slurm

import (
	"maps"
	"time"
)

// A change of licences that Slurm refuses is tried again after refusedSoon, then after twice that, up to refusedOften: Slurm may know one of the licences no more, and
// each try costs it two commands.
const (
	refusedSoon  = 10 * time.Second
	refusedOften = 10 * time.Minute
)

// refusals are the jobs whose licences Slurm refused to change, by ID: when to try again, and how long that waits after the last refusal.
type refusals map[string]refusal

type refusal struct {
	again time.Time
	wait  time.Duration
}

// refuse notes that the licences of some jobs were not changed, and forgets jobs that were not tried for long.
func (r refusals) refuse(ids []string, now time.Time) {
	maps.DeleteFunc(r, func(_ string, x refusal) bool { return now.Sub(x.again) > 2*refusedOften })
	for _, id := range ids {
		wait := min(max(2*r[id].wait, refusedSoon), refusedOften)
		r[id] = refusal{now.Add(wait), wait}
	}
}

// waits reports whether all of some jobs were refused, and are not to be tried again yet.
func (r refusals) waits(ids []string, now time.Time) bool {
	for _, id := range ids {
		if x, refused := r[id]; !refused || !now.Before(x.again) {
			return false
		}
	}
	return true
}

// accept forgets jobs whose licences were changed.
func (r refusals) accept(ids []string) {
	for _, id := range ids {
		delete(r, id)
	}
}
