package timegrid

import (
	"errors"
	"math"
	"testing"
	"testing/quick"
	"time"
	_ "time/tzdata" // the daylight-saving test must not depend on the machine
)

var start = time.Date(2023, 11, 14, 11, 0, 0, 0, time.UTC)

func TestNewRejects(t *testing.T) {
	for name, tc := range map[string]struct {
		slot time.Duration
		n    int
	}{
		"no slot": {0, 5}, "negative slot": {-time.Hour, 5}, "no slots": {time.Hour, 0},
		"negative": {time.Hour, -1}, "too many": {time.Hour, MaxSlots + 1}, "overflow": {math.MaxInt64 / 2, 5},
	} {
		if _, err := New(start, tc.slot, tc.n); !errors.Is(err, ErrGrid) {
			t.Errorf("%s: error %v, want ErrGrid", name, err)
		}
	}
}

func TestSlotOfIsHalfOpen(t *testing.T) {
	g, err := New(start, time.Hour, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		at          time.Duration
		slot, after int
	}{
		{0, 0, 0}, {time.Hour - 1, 0, 1}, {time.Hour, 1, 1}, {-1, -1, 0}, {-time.Hour, -1, -1}, {-time.Hour - 1, -2, -1},
		{3 * time.Hour, 3, 3},
	} {
		at := start.Add(tc.at)
		if got := g.SlotOf(at); got != tc.slot {
			t.Errorf("SlotOf(start%+v) = %d, want %d", tc.at, got, tc.slot)
		}
		if got := g.CeilSlot(at); got != tc.after {
			t.Errorf("CeilSlot(start%+v) = %d, want %d", tc.at, got, tc.after)
		}
	}
}

func TestDaylightSavingDaysHave23And25Hours(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatalf("time zone database: %v", err)
	}
	for day, want := range map[time.Time]int{
		time.Date(2023, 3, 26, 0, 0, 0, 0, zone):  23,
		time.Date(2023, 10, 29, 0, 0, 0, 0, zone): 25,
		time.Date(2024, 2, 29, 0, 0, 0, 0, zone):  24,
	} {
		g := Grid{Start: day, Slot: time.Hour, N: 48}
		if got := g.SlotOf(day.AddDate(0, 0, 1)); got != want {
			t.Errorf("%s has %d hourly slots, want %d", day.Format("2006-01-02"), got, want)
		}
	}
}

func TestAlignSharesBoundaries(t *testing.T) {
	property := func(seconds int32, minutes uint8) bool {
		slot := time.Duration(minutes%120+1) * time.Minute
		at := start.Add(time.Duration(seconds) * time.Second)
		a := Align(at, slot)
		return !a.After(at) && at.Sub(a) < slot && Align(a, slot).Equal(a)
	}
	if err := quick.Check(property, nil); err != nil {
		t.Error(err)
	}
}

func TestTimelineRoundTrip(t *testing.T) {
	tl, err := NewTimeline(start, start.AddDate(-2, 0, 0), 900)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tl.ToGrid(start.Add(4*time.Second)), start.AddDate(-2, 0, 0).Add(time.Hour); !got.Equal(want) {
		t.Errorf("4 s at factor 900 = %v, want %v", got, want)
	}
	property := func(minutes int16) bool { // within 23 days of wall time, 56 years of grid time
		at := start.Add(time.Duration(minutes) * time.Minute)
		diff := tl.ToWall(tl.ToGrid(at)).Sub(at)
		return diff.Abs() <= time.Microsecond
	}
	if err := quick.Check(property, nil); err != nil {
		t.Error(err)
	}
	if got := (Timeline{}).ToGrid(start); !got.Equal(start) {
		t.Errorf("the zero timeline moved %v to %v", start, got)
	}
}

func TestTimelineRejects(t *testing.T) {
	for _, factor := range []float64{0, -1, math.NaN(), math.Inf(1), 2 * MaxFactor} {
		if _, err := NewTimeline(start, start, factor); !errors.Is(err, ErrGrid) {
			t.Errorf("factor %v: error %v, want ErrGrid", factor, err)
		}
	}
	if _, err := NewTimeline(time.Time{}, start, 1); !errors.Is(err, ErrGrid) {
		t.Errorf("no wall time: error %v, want ErrGrid", err)
	}
}

func TestScaleSaturates(t *testing.T) {
	tl := Timeline{Wall: start, Grid: start, Factor: 1e6}
	if got := tl.GridDuration(200 * 365 * 24 * time.Hour); got != math.MaxInt64 {
		t.Errorf("overflow gave %v", got)
	}
}
