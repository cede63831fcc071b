package slurmlab

import (
	"context"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/timegrid"
)

// still is a Slurm with one job. It records the updates that it gets.
type still struct {
	slurm.Client
	job      slurm.Job
	updates  []slurm.Update
	reserved slurm.Reservation
}

func (s *still) Observe(context.Context) (slurm.Queue, error) {
	return slurm.Queue{Jobs: []slurm.Job{s.job}}, nil
}

func (s *still) Update(_ context.Context, u slurm.Update) error {
	s.updates = append(s.updates, u)
	s.job.Begin, s.job.AdminComment = u.Begin, u.Comment
	return nil
}

func (s *still) Reserve(_ context.Context, _ string, count int, until time.Time) error {
	s.reserved = slurm.Reservation{Count: count, Ends: until}
	return nil
}

func (s *still) Reserved(context.Context, string) (slurm.Reservation, bool, error) {
	return s.reserved, true, nil
}

// TestFastTranslatesTimes: what is set in times of the replay is read back as such, to the grain of Slurm's seconds, and what is set again changes nothing.
func TestFastTranslatesTimes(t *testing.T) {
	ctx := context.Background()
	wall, grid := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC), time.Date(2022, 4, 2, 0, 0, 0, 0, time.UTC)
	timeline, err := timegrid.NewTimeline(wall, grid, 600)
	if err != nil {
		t.Fatal(err)
	}
	s := &still{job: slurm.Job{ID: "1", Submitted: wall.Add(6 * time.Second), Limit: time.Minute}}
	f := &Fast{Client: s, Timeline: timeline}
	begin := grid.Add(5*time.Hour + 7*time.Minute) // 30.7 s
	u := slurm.Update{IDs: []string{"1"}, Begin: begin, Comment: slurm.Mark{Phase: slurm.Paused, Text: "waits", Begin: begin, Since: grid.Add(time.Hour), Done: 2 * time.Hour}.String()}
	for range 2 {
		q, err := f.Observe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if j := q.Jobs[0]; !j.Submitted.Equal(grid.Add(time.Hour)) || j.Limit != 10*time.Hour {
			t.Errorf("submitted %v, limit %v; want one hour after %v, and 10 h", j.Submitted, j.Limit, grid)
		}
		if err := f.Update(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.updates) != 1 || !s.job.Begin.Equal(wall.Add(30*time.Second)) {
		t.Errorf("Slurm was told %d times, and has the begin time %v; want once, and %v", len(s.updates), s.job.Begin, wall.Add(30*time.Second))
	}
	q, _ := f.Observe(ctx)
	j := q.Jobs[0]
	if m := slurm.ReadMark(j.AdminComment); !j.Begin.Equal(grid.Add(5*time.Hour)) || !m.Begin.Equal(j.Begin) || m.Done != 2*time.Hour || !m.Since.Equal(grid.Add(time.Hour)) || m.Phase != slurm.Paused {
		t.Errorf("begin %v, mark %+v; want both to begin five hours after %v, and the rest as set", j.Begin, m, grid)
	}
	u.Comment = slurm.Mark{Phase: slurm.Paused, Text: "waits for another reason", Begin: begin}.String()
	if err := f.Update(ctx, u); err != nil || len(s.updates) != 2 {
		t.Errorf("%v; %d updates, want another one for another text", err, len(s.updates))
	}
}

// TestFastKeepsReservations: a reservation ends later than asked for, as the commands that extend it are not faster in a replay, and is read back as asked for.
func TestFastKeepsReservations(t *testing.T) {
	ctx := context.Background()
	wall, grid := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC), time.Date(2022, 4, 2, 0, 0, 0, 0, time.UTC)
	timeline, err := timegrid.NewTimeline(wall, grid, 600)
	if err != nil {
		t.Fatal(err)
	}
	s := &still{}
	f := &Fast{Client: s, Timeline: timeline}
	until := grid.Add(20 * time.Minute)
	if err := f.Reserve(ctx, "power", 3, until); err != nil {
		t.Fatal(err)
	}
	if s.reserved.Ends.Sub(wall) < lasts {
		t.Errorf("Slurm gives the licences back %v after the start of the replay; want %v at least", s.reserved.Ends.Sub(wall), lasts)
	}
	if r, _, _ := f.Reserved(ctx, "power"); !r.Ends.Equal(until) || r.Count != 3 {
		t.Errorf("%d licences until %v; want 3 until %v", r.Count, r.Ends, until)
	}
}

// TestFastClock: timers of a replay are shorter by its factor, and no shorter than Slurm's commands need.
func TestFastClock(t *testing.T) {
	timeline, err := timegrid.NewTimeline(time.Now(), time.Date(2022, 4, 2, 0, 0, 0, 0, time.UTC), 3600)
	if err != nil {
		t.Fatal(err)
	}
	c := FastClock{Timeline: timeline}
	begin := c.Now()
	<-c.NewTimer(time.Hour).C()
	<-c.NewTimer(0).C()
	if took := c.Since(begin); took < 90*time.Minute {
		t.Errorf("two timers took %v of the replay; want 90 min at least: an hour, and the shortest there is", took)
	}
}
