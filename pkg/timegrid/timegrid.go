// Package timegrid maps wall time to slots and back. A Grid is the time axis of
// one planning problem; a Timeline ties the clock of the machine to the clock
// of the grid, which differ when a recorded series is replayed faster than it
// happened.
package timegrid

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrGrid marks a grid or timeline that cannot exist.
var ErrGrid = errors.New("invalid time grid")

// MaxSlots bounds a grid: a leap year of one-minute slots.
const MaxSlots = 366 * 24 * 60

// Grid is a sequence of N slots of equal length. Slot t covers the half-open
// interval [Start + t*Slot, Start + (t+1)*Slot); slots count from zero.
type Grid struct {
	Start time.Time
	Slot  time.Duration
	N     int
}

// New returns a grid, or an error wrapping ErrGrid that names the field.
func New(start time.Time, slot time.Duration, n int) (Grid, error) {
	switch {
	case slot < time.Second:
		return Grid{}, fmt.Errorf("%w: slot: %v; accepted: at least 1s", ErrGrid, slot)
	case n < 1 || n > MaxSlots:
		return Grid{}, fmt.Errorf("%w: horizon: %d slots; accepted: 1 to %d", ErrGrid, n, MaxSlots)
	case slot > math.MaxInt64/time.Duration(n):
		return Grid{}, fmt.Errorf("%w: slot: %v times %d slots is longer than 292 years", ErrGrid, slot, n)
	}
	return Grid{Start: start, Slot: slot, N: n}, nil
}

// Hours returns the length of a slot in hours.
func (g Grid) Hours() float64 { return g.Slot.Hours() }

// Time returns the start of slot t, which may lie outside the grid.
func (g Grid) Time(t int) time.Time { return g.Start.Add(time.Duration(t) * g.Slot) }

// End returns the first instant after the last slot.
func (g Grid) End() time.Time { return g.Time(g.N) }

// SlotOf returns the slot that contains at; it is negative before the grid and
// may be N or more after it.
func (g Grid) SlotOf(at time.Time) int {
	d := at.Sub(g.Start)
	t := int(d / g.Slot)
	if d < 0 && d%g.Slot != 0 {
		t-- // Go truncates towards zero; slots are half-open intervals.
	}
	return t
}

// CeilSlot returns the first slot that starts at or after at.
func (g Grid) CeilSlot(at time.Time) int {
	t := g.SlotOf(at)
	if g.Time(t).Before(at) {
		t++
	}
	return t
}

// Align returns the latest multiple of slot, counted from the Unix epoch, that
// is not after at: grids built at different moments then share boundaries.
func Align(at time.Time, slot time.Duration) time.Time {
	return at.Add(-time.Duration(floorMod(at.UnixNano(), int64(slot))))
}

func floorMod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

// Timeline maps the clock of the machine (wall) to the clock on which carbon
// intensities, run times and deadlines are stated (grid): grid time runs Factor
// times as fast and equals Grid when the wall shows Wall. The zero Timeline is
// the identity, which is what production uses.
type Timeline struct {
	Wall   time.Time
	Grid   time.Time
	Factor float64
}

// MaxFactor bounds how fast a replay may run: a year in about half a minute.
const MaxFactor = 1e6

// NewTimeline returns a replaying timeline, or an error wrapping ErrGrid.
func NewTimeline(wall, grid time.Time, factor float64) (Timeline, error) {
	if math.IsNaN(factor) || factor <= 0 || factor > MaxFactor {
		return Timeline{}, fmt.Errorf("%w: factor: %v; accepted: above 0, at most %g", ErrGrid, factor, float64(MaxFactor))
	}
	if wall.IsZero() || grid.IsZero() {
		return Timeline{}, fmt.Errorf("%w: timeline: both a wall time and a grid time are needed", ErrGrid)
	}
	return Timeline{Wall: wall, Grid: grid, Factor: factor}, nil
}

// Identity reports whether both clocks are the same.
func (tl Timeline) Identity() bool { return tl.Factor == 0 }

// ToGrid converts a wall time to grid time.
func (tl Timeline) ToGrid(wall time.Time) time.Time {
	if tl.Identity() {
		return wall
	}
	return tl.Grid.Add(scale(wall.Sub(tl.Wall), tl.Factor))
}

// ToWall converts a grid time to wall time.
func (tl Timeline) ToWall(grid time.Time) time.Time {
	if tl.Identity() {
		return grid
	}
	return tl.Wall.Add(scale(grid.Sub(tl.Grid), 1/tl.Factor))
}

// WallDuration converts a span of grid time to one of wall time.
func (tl Timeline) WallDuration(d time.Duration) time.Duration {
	if tl.Identity() {
		return d
	}
	return scale(d, 1/tl.Factor)
}

// GridDuration converts a span of wall time to one of grid time.
func (tl Timeline) GridDuration(d time.Duration) time.Duration {
	if tl.Identity() {
		return d
	}
	return scale(d, tl.Factor)
}

// scale multiplies and saturates instead of overflowing.
func scale(d time.Duration, by float64) time.Duration {
	v := math.Round(float64(d) * by)
	switch {
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(v)
}
