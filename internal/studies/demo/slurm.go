package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/internal/studies/slurmlab"
	"lull.dev/lull/pkg/carbon"
)

const (
	// slurmGrace is how long (wall time) job_submit.lua holds a job.
	slurmGrace = 5 * time.Second
	// slurmAfter is how long (wall time) after the last end the ledger is waited for.
	slurmAfter = time.Minute
	// slurmBefore is how much (wall time) of the replay lies before the first submission.
	slurmBefore = 5 * time.Second
)

// Slurm runs a day of jobs on a Slurm of its own, in the folder of packages named, by lull slurm controller. The intensity is that of o.Zone, o.Factor times
// as fast. It prints what the ledger says of the jobs that may wait, and fails if a job has not ended well, or has started after its latest safe start.
func Slurm(ctx context.Context, o Options, packages string) (failed error) {
	series, from, err := o.series()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c, err := slurmlab.Boot(packages, self, fmt.Sprintf("grace: %v\nmargin: 1s\n", slurmGrace))
	if c != nil {
		defer c.Close("")
	}
	if err != nil {
		return fmt.Errorf("start Slurm: %w", err)
	}
	dir, leave, err := o.folder()
	if err != nil {
		return err
	}
	defer leave(&failed)
	r := &slurmReplay{Options: o, cluster: c, client: slurm.Commands{Dir: c.Root + "/usr/bin", Ended: true}, ids: map[string]*spec{}, begins: map[string]time.Time{}, begin: time.Now().UTC().Truncate(time.Second).Add(slurmBefore)}
	if err := r.curve(filepath.Join(dir, "intensity.csv"), series, from); err != nil {
		return err
	}
	database := filepath.Join(dir, "ledger.db")
	args := []string{
		"slurm", "controller", "--slurm-bin", r.client.Dir, "--config", c.Dir + "/lull.yaml", "--zone", o.Zone, "--source", filepath.Join(dir, "intensity.csv"), "--ledger", database,
		"--interval", "1s", "--slot", "1s", "--min-run", "1s", "--min-pause", "1s", "--planner", o.Planner, "--watts-per-cpu", fmt.Sprint(wattsPerCPU), "--pue", fmt.Sprint(pue),
	}
	for name, value := range o.Parameters {
		args = append(args, "--param", name+"="+value)
	}
	lull, err := startChild(dir, "controller", self, args...)
	if err != nil {
		return err
	}
	defer lull.stop()
	fmt.Fprintf(o.Out, "%d jobs over a day from %s on %d CPUs of a real Slurm, %d times as fast; intensity of %s: %s.\n", o.Jobs, from.Format("2 January 2006"), slurmlab.CPUs, o.Factor, o.Zone, series.Source)
	if err := r.submit(ctx, lull); err != nil {
		return err
	}
	jobs, err := r.ended(ctx, lull)
	if err != nil {
		return err
	}
	s, err := r.settled(ctx, database)
	if err != nil {
		return err
	}
	j := r.judge(jobs)
	return errors.Join(append(j.faults, r.print(o.Out, &j, &s))...)
}

// slurmReplay is a day of jobs on a Slurm cluster.
type slurmReplay struct {
	Options
	cluster *slurmlab.Cluster
	client  slurm.Commands
	begin   time.Time // wall time of the first second of the replay
	ids     map[string]*spec
	// begins are the latest begin times to come that the jobs were seen with.
	begins map[string]time.Time
}

// wall is a span of the replay in wall time, a second at least.
func (r *slurmReplay) wall(d time.Duration) time.Duration {
	return max(time.Second, (d / time.Duration(r.Factor)).Round(time.Second))
}

// curve writes the intensities as they pass in wall time.
func (r *slurmReplay) curve(file string, series *carbon.Series, from time.Time) error {
	var b strings.Builder
	b.WriteString("time,intensity_gco2eq_per_kwh\n")
	for at := -slurmBefore - time.Minute; at < r.wall(span)+time.Minute; at += time.Second {
		grid := from.Add(at * time.Duration(r.Factor))
		x, ok := series.At(grid)
		if !ok {
			return fmt.Errorf("%s: no intensity of %s; accepted: a series without gaps", r.Zone, grid.Format(time.RFC3339))
		}
		fmt.Fprintf(&b, "%s,%.2f\n", r.begin.Add(at).Format(time.RFC3339), float64(x.Value))
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

// submit submits the jobs as they arrive.
func (r *slurmReplay) submit(ctx context.Context, lull *child) error {
	specs := generate(r.Jobs, r.Seed)
	for i := range specs {
		s := &specs[i]
		for at := r.begin.Add(s.arrival / time.Duration(r.Factor)); ; {
			if _, err := r.look(ctx, lull); err != nil {
				return err
			}
			left := time.Until(at)
			if err := pause(ctx, min(time.Second, left)); err != nil {
				return err
			}
			if left <= time.Second {
				break
			}
		}
		length := int(r.wall(s.length) / time.Second)
		args := []string{"--parsable", "--output=/dev/null", "--job-name=" + s.name, fmt.Sprintf("--ntasks=%d", s.cpus), "--time=60"}
		if !s.critical {
			args = append(args, fmt.Sprintf("--comment=lull:max-delay=%ds,runtime=%ds", int(r.wall(s.slack)/time.Second), length))
		}
		out, err := r.cluster.Command("sbatch", append(args, "--wrap", fmt.Sprintf("sleep %d", length))...).Output()
		if err != nil {
			return fmt.Errorf("sbatch %s: %w", s.name, err)
		}
		r.ids[strings.TrimSpace(string(out))] = s
	}
	return nil
}

// look looks at the queue, and notes the begin times to come.
func (r *slurmReplay) look(ctx context.Context, lull *child) (slurm.Queue, error) {
	if err := lull.ended(); err != nil {
		return slurm.Queue{}, err
	}
	q, err := r.client.Observe(ctx)
	if err == nil {
		r.note(q.Jobs, time.Now())
	}
	return q, err
}

// pause waits for a time.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// ended waits until Slurm says that all jobs are over, and returns them.
func (r *slurmReplay) ended(ctx context.Context, lull *child) ([]slurm.Job, error) {
	for limit := time.Now().Add(r.wall(span) + slurmlab.Within); ; {
		q, err := r.look(ctx, lull)
		switch {
		case err != nil:
			return nil, err
		case len(q.Ended) == len(r.ids):
			return q.Ended, nil
		case time.Now().After(limit):
			return nil, fmt.Errorf("%d of %d jobs are not over after two days of the replay", len(r.ids)-len(q.Ended), len(r.ids))
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// settled waits until all jobs that may wait are settled, and sums them up.
func (r *slurmReplay) settled(ctx context.Context, database string) (s ledger.Summary, err error) {
	l, err := ledger.Open(ctx, database)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	wanted := 0
	for _, x := range r.ids {
		if !x.critical {
			wanted++
		}
	}
	for limit := time.Now().Add(slurmAfter); ; {
		list, err := ledger.Settlements((&ledger.Checker{}).Through(l.Read(ctx, ledger.Query{})), time.Time{}, time.Now().Add(time.Hour))
		if err != nil {
			return s, err
		}
		if s, err = ledger.Summarize(list, ledger.Question{}); err != nil {
			return s, err
		}
		if s.All.Workloads == wanted {
			return s, nil
		}
		if time.Now().After(limit) {
			return s, fmt.Errorf("the ledger has %d jobs; %d may wait", s.All.Workloads, wanted)
		}
		if err := pause(ctx, time.Second); err != nil {
			return s, err
		}
	}
}

// print prints what came of the jobs, in the time of the replay.
func (r *slurmReplay) print(out io.Writer, j *slurmJudgement, s *ledger.Summary) error {
	hours := func(d time.Duration) string {
		return fmt.Sprintf("%.1f h", (d * time.Duration(r.Factor)).Hours())
	}
	a, scale := &s.All, float64(r.Factor)
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, row := range [][3]string{
		{"", "with Lull", "as submitted"},
		{"jobs that may wait", fmt.Sprint(a.Workloads), fmt.Sprint(a.Workloads)},
		{"late", fmt.Sprint(j.late), "-"},
		{"emissions", fmt.Sprintf("%.3f kgCO2eq", a.Grams*scale/1000), fmt.Sprintf("%.3f kgCO2eq", a.AsSubmittedGrams*scale/1000)},
		{"saved", fmt.Sprintf("%.1f %%", 100*a.SavedGrams/max(1e-12, a.AsSubmittedGrams)), "-"},
		{"energy", fmt.Sprintf("%.2f kWh", a.KWh*scale), fmt.Sprintf("%.2f kWh", a.KWh*scale)},
		{"median wait", hours(j.median()), "-"},
	} {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", row[0], row[1], row[2])
	}
	err := tw.Flush()
	fmt.Fprintf(out, "Beside them %d jobs that may not wait. Figures of the ledger, whose chain holds; times and energy are those of the replay. As submitted: as soon as there was room.\n", j.critical)
	fmt.Fprintf(out, "A job is late if it had a begin time after its latest safe start, or started more than %v of wall time after that: what Slurm and this machine added to jobs that may not wait.\n", j.lag)
	return err
}
