package slurmlab

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/timegrid"
)

// Fast is a Slurm whose time passes faster for its user, by a Timeline: times and durations that Slurm states are those of the replay, and times that are set
// are translated back. Slurm knows times to the second, so times of the replay are exact to as many seconds as its factor. It is used by one goroutine.
type Fast struct {
	slurm.Client
	Timeline timegrid.Timeline

	seen map[string]slurm.Job // as Slurm states them
}

var _ slurm.Client = (*Fast)(nil)

// lasts is how much longer than asked for a reservation lasts, in wall time: Slurm and its commands are not faster in a replay. A controller that wants its
// licences back before that says so.
const lasts = 30 * time.Second

// grid translates a time of Slurm; zero stays zero.
func (f *Fast) grid(wall time.Time) time.Time {
	if wall.IsZero() {
		return wall
	}
	return f.Timeline.ToGrid(wall)
}

// wall translates a time of the replay to the second before it; zero stays zero.
func (f *Fast) wall(grid time.Time) time.Time {
	if grid.IsZero() {
		return grid
	}
	return f.Timeline.ToWall(grid).Truncate(time.Second)
}

func (f *Fast) slower(d time.Duration) time.Duration {
	return (time.Duration(float64(d) / f.Timeline.Factor)).Round(time.Second)
}

func (f *Fast) faster(d time.Duration) time.Duration {
	return time.Duration(float64(d) * f.Timeline.Factor)
}

// job translates what Slurm states of a job.
func (f *Fast) job(j *slurm.Job) {
	for _, at := range []*time.Time{&j.Submitted, &j.Begin, &j.Started, &j.Ended, &j.Deadline} {
		*at = f.grid(*at)
	}
	j.Limit = f.faster(j.Limit)
	if m := slurm.ReadMark(j.AdminComment); m.Phase != "" {
		m.Begin, m.Since, m.Done, m.Ran = f.grid(m.Begin), f.grid(m.Since), f.faster(m.Done), f.faster(m.Ran)
		j.AdminComment = m.String()
	}
}

// comment translates an AdminComment for Slurm.
func (f *Fast) comment(text string) string {
	m := slurm.ReadMark(text)
	if m.Phase == "" {
		return text
	}
	m.Begin, m.Since, m.Done, m.Ran = f.wall(m.Begin), f.wall(m.Since), f.slower(m.Done), f.slower(m.Ran)
	return m.String()
}

// Observe implements slurm.Client.
func (f *Fast) Observe(ctx context.Context) (slurm.Queue, error) {
	q, err := f.Client.Observe(ctx)
	f.seen = map[string]slurm.Job{}
	for i := range q.Jobs {
		f.seen[q.Jobs[i].ID] = q.Jobs[i]
		f.job(&q.Jobs[i])
	}
	for i := range q.Ended {
		f.job(&q.Ended[i])
	}
	return q, err
}

// Update implements slurm.Client. A begin time that differs from that of a job by less than Slurm's second is no change.
func (f *Fast) Update(ctx context.Context, u slurm.Update) error {
	u.Begin, u.Comment, u.Otherwise = f.wall(u.Begin), f.comment(u.Comment), f.comment(u.Otherwise)
	if !u.Now && u.Throttle == nil && u.Licences == "" {
		var changed []string
		for _, id := range u.IDs {
			if j, known := f.seen[id]; !known || !j.Begin.Equal(u.Begin) || j.AdminComment != u.Comment {
				changed = append(changed, id)
			}
		}
		u.IDs = changed
	}
	if len(u.IDs) == 0 {
		return nil
	}
	return f.Client.Update(ctx, u)
}

// Ends implements slurm.Client.
func (f *Fast) Ends(ctx context.Context, ids []string) ([]slurm.Job, error) {
	jobs, err := f.Client.Ends(ctx, ids)
	for i := range jobs {
		f.job(&jobs[i])
	}
	return jobs, err
}

// Reserved implements slurm.Client.
func (f *Fast) Reserved(ctx context.Context, licence string) (slurm.Reservation, bool, error) {
	r, there, err := f.Client.Reserved(ctx, licence)
	if there {
		r.Ends = f.grid(r.Ends.Add(-lasts))
	}
	return r, there, err
}

// Reserve implements slurm.Client.
func (f *Fast) Reserve(ctx context.Context, licence string, count int, until time.Time) error {
	return f.Client.Reserve(ctx, licence, count, f.wall(until).Add(lasts))
}

// Check implements slurm.Client.
func (f *Fast) Check(ctx context.Context) (slurm.About, error) {
	a, err := f.Client.Check(ctx)
	a.MinJobAge, a.ResumeTimeout = f.faster(a.MinJobAge), f.faster(a.ResumeTimeout)
	return a, err
}

// FastClock is the clock of a replay.
type FastClock struct {
	clock.RealClock
	Timeline timegrid.Timeline
}

var _ clock.Clock = FastClock{}

// Now is the time of the replay.
func (c FastClock) Now() time.Time { return c.Timeline.ToGrid(time.Now()) }

// Since is how long ago a time of the replay was.
func (c FastClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// shortest is the least time (wall time) that a timer takes: commands of Slurm are not faster in a replay.
const shortest = 500 * time.Millisecond

// NewTimer returns a timer of a span of the replay.
func (c FastClock) NewTimer(d time.Duration) clock.Timer {
	return c.RealClock.NewTimer(max(shortest, time.Duration(float64(d)/c.Timeline.Factor)))
}
