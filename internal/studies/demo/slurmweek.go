package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/internal/engine/controller"
	engine "lull.dev/lull/internal/engine/slurm"
	"lull.dev/lull/internal/studies/reproduce"
	"lull.dev/lull/internal/studies/slurmlab"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

const (
	// weekSlot is the resolution of planning, live and simulated.
	weekSlot = time.Hour
	// weekLook is how often (wall time) the controller reads the queue.
	weekLook = time.Second
	// weekBefore is how much (wall time) of the replay lies before the week: the controller learns meanwhile.
	weekBefore = 15 * time.Second
	// weekLimit is how far live and simulated emissions may be apart.
	weekLimit = 0.05
	// weekLicence is the licence of the lab that bounds the capacity.
	weekLicence = "power"
	weekZone    = "AU-SA"
	// weekLag is what Slurm and this machine may add to a start (wall time).
	weekLag = 5 * time.Second
)

// SlurmWeek runs a week of jobs on a real Slurm, o.Factor times as fast, by o.Planner, and in the simulator. With planner carbonflex, its method also sets, hour by
// hour, how many CPUs the jobs may use. It prints a table, and returns an error wrapping ErrDemo if a job did not end well or was late, or if live emissions differ
// from the simulated ones by more than 5 %.
func SlurmWeek(ctx context.Context, o Options, packages string, env *reproduce.Env, planner controller.PlannerFactory) (failed error) {
	week, err := reproduce.NewCapacityWeek(env, 0.5)
	if err != nil {
		return fmt.Errorf("%w (recorded jobs and intensities; LULL_DATA names their folder)", err)
	}
	week.Provide(slurmlab.CPUs)
	base, err := week.Unscaled(ctx, nil, workload.Rigid, 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%d jobs of a week from %s on %d CPUs of a real Slurm, planner %s, %d times as fast; intensity of %s.\n", len(week.Jobs), week.Start.Format("2 January 2006"), week.Servers, o.Planner, o.Factor, weekZone)
	p, err := planner(o.Planner, o.Parameters, nil)
	if err != nil {
		return err
	}
	w := &slurmWeek{Options: o, week: week, planner: p, bounded: o.Planner == "carbonflex", jobs: map[string]*reproduce.CapacityJob{}, ended: map[string]slurm.Job{}}
	there, err := w.simulate(ctx)
	if err != nil {
		return err
	}
	dir, leave, err := o.folder()
	if err != nil {
		return err
	}
	defer leave(&failed)
	if err := w.run(ctx, dir, packages); err != nil {
		return err
	}
	s := w.judge()
	off := s.grams/there.Grams - 1
	tw := tabwriter.NewWriter(o.Out, 0, 4, 2, ' ', 0)
	for _, row := range [][3]string{
		{"", "live", "simulated"},
		{"emissions", fmt.Sprintf("%.2f kgCO2eq", s.grams/1000), fmt.Sprintf("%.2f kgCO2eq", there.Grams/1000)},
		{"saved", fmt.Sprintf("%.1f %%", 100*(1-s.grams/base.Grams)), fmt.Sprintf("%.1f %%", 100*(1-there.Grams/base.Grams))},
		{"late", fmt.Sprint(s.late), fmt.Sprint(there.Late)},
		{"mean wait", fmt.Sprintf("%.1f h", s.wait.Hours()), fmt.Sprintf("%.1f h", there.MeanWait.Hours())},
	} {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", row[0], row[1], row[2])
	}
	if math.Abs(off) > weekLimit {
		s.faults = append(s.faults, fmt.Errorf("%w: live emissions are %s those simulated; accepted: a difference of at most %.0f %%", ErrDemo, against(off), 100*weekLimit))
	}
	err = tw.Flush()
	fmt.Fprintf(o.Out, "Live emissions are %s those simulated, if each job runs for its length from the start that Slurm states. From the starts to the ends that Slurm states, they are %s those simulated.\nSavings are against the same jobs as submitted, simulated.\n", against(off), against(s.runs/there.Grams-1))
	return errors.Join(append(s.faults, err)...)
}

// slurmWeek is a week by one planner.
type slurmWeek struct {
	Options
	week    *reproduce.CapacityWeek
	planner plan.Planner
	// bounded says that method carbonFlex bounds the CPUs.
	bounded bool

	cluster  *slurmlab.Cluster
	client   slurm.Commands
	timeline timegrid.Timeline
	// jobs and how they ended, in times of the replay, by the number that Slurm gave them.
	jobs  map[string]*reproduce.CapacityJob
	ended map[string]slurm.Job
}

// capacity is the bound of method carbonFlex; nil for none.
func (w *slurmWeek) capacity(state string) *slurm.Capacity {
	if !w.bounded {
		return nil
	}
	return &slurm.Capacity{Licence: weekLicence, Maximum: v1alpha1.Amount(fmt.Sprint(w.week.Servers)), Method: v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{}}, State: state}
}

// run runs the week on a Slurm of its own. The folder gets what the controller writes.
func (w *slurmWeek) run(ctx context.Context, dir, packages string) (failed error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	config := fmt.Sprintf("grace: %v\n", slurmGrace)
	if w.bounded {
		config += fmt.Sprintf("capacity: {licence: %s, maximum: %d, method: {carbonFlex: {}}}\n", weekLicence, w.week.Servers)
	}
	w.cluster, err = slurmlab.Boot(packages, self, config)
	if w.cluster != nil {
		defer w.cluster.Close("")
	}
	if err != nil {
		return fmt.Errorf("start Slurm: %w", err)
	}
	w.client = slurm.Commands{Dir: w.cluster.Root + "/usr/bin", Ended: true}
	if w.timeline, err = timegrid.NewTimeline(time.Now().Truncate(time.Second).Add(weekBefore), w.week.Start, float64(w.Factor)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "controller.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	c, err := w.controller(ctx, filepath.Join(dir, "state"), slog.New(slog.NewJSONHandler(log, nil)))
	if err != nil {
		return err
	}
	limited, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- c.Run(limited) }()
	defer func() { stop(); failed = errors.Join(failed, <-done) }()
	return w.play(ctx)
}

// controller is that of Lull, whose clock is the one of the replay.
func (w *slurmWeek) controller(ctx context.Context, state string, log *slog.Logger) (*engine.Controller, error) {
	client := &slurmlab.Fast{Client: slurm.Commands{Dir: w.client.Dir}, Timeline: w.timeline}
	about, err := client.Check(ctx)
	if err != nil {
		return nil, err
	}
	look := time.Duration(w.Factor) * weekLook
	grace := slurm.Duration(time.Duration(w.Factor) * slurmGrace)
	o := engine.Options{
		Client: client, Planner: w.planner, Substitute: w.planner, Interval: look, DecisionTime: 10 * time.Second, Clock: slurmlab.FastClock{Timeline: w.timeline}, Log: log,
		Outlook: func(time.Time) source.Outlook {
			return source.Outlook{Outlook: carbon.Outlook{Expected: w.week.Series}}
		},
		Input: slurm.Input{
			Config: &slurm.Config{Grace: &grace, Capacity: w.capacity(state)}, Zone: weekZone, Slot: weekSlot, Margin: look, Memory: about.Memory,
			Power: power.PerUnit{Watts: map[string]float64{"cpu": w.week.Watts}, PUE: 1},
		},
	}
	if k := o.Input.Config.Capacity; k != nil {
		if err := curve.SeedFile(state, rigidPast(w.week.Past)); err != nil {
			return nil, err
		}
		local, err := curve.NewLocal("slurm", v1alpha1.CapacityCurveSpec{Resource: slurm.LicenceResource, Maximum: k.Maximum, Method: k.Method}, state, log)
		if err != nil {
			return nil, err
		}
		total, err := client.Licences(ctx, k.Licence)
		if err != nil {
			return nil, err
		}
		o.Capacity = &engine.Capacity{Curve: local, Licence: k.Licence, Maximum: k.Most(), Total: total, Planner: true}
	}
	return engine.New(o)
}

// rigidPast are jobs as a curve on Slurm would have seen them.
func rigidPast(jobs []reproduce.CapacityJob) []curve.Past {
	out := past(jobs)
	for i := range out {
		out[i].Kind, out[i].Curve, out[i].Request = workload.Rigid, []float64{1}, map[string]float64{"cpu": 1, slurm.LicenceResource: 1}
	}
	return out
}

// play submits the jobs as they arrive, and waits until all are over.
func (w *slurmWeek) play(ctx context.Context) error {
	jobs := slices.Clone(w.week.Jobs)
	slices.SortStableFunc(jobs, func(a, b reproduce.CapacityJob) int { return a.Submitted.Compare(b.Submitted) })
	end, told := w.timeline.ToWall(w.week.Start.Add(7*24*time.Hour+capacityTail)).Add(slurmlab.Within), time.Now()
	for next := 0; next < len(jobs) || len(w.ended) < len(jobs); {
		now := time.Now()
		if now.After(end) {
			return fmt.Errorf("%w: %d of %d jobs are over three days after the week", ErrDemo, len(w.ended), len(jobs))
		}
		for ; next < len(jobs) && !w.timeline.ToWall(jobs[next].Submitted).After(now); next++ {
			if err := w.submit(&jobs[next]); err != nil {
				return err
			}
		}
		q, err := w.client.Observe(ctx)
		if err != nil {
			return err
		}
		for i := range q.Ended {
			w.ended[q.Ended[i].ID] = q.Ended[i]
		}
		if now.Sub(told) > 30*time.Second {
			told = now
			fmt.Fprintf(w.Out, "  hour %.0f: %d submitted, %d in the queue, %d are over\n", w.timeline.ToGrid(now).Sub(w.week.Start).Hours(), next, len(q.Jobs), len(w.ended))
		}
		if err := pause(ctx, weekLook); err != nil {
			return err
		}
	}
	return nil
}

func (w *slurmWeek) submit(j *reproduce.CapacityJob) error {
	whole := func(d time.Duration) int { return int(d / time.Second) }
	out, err := w.cluster.Command("sbatch", "--parsable", "--output=/dev/null", "--job-name="+j.ID, "--ntasks=1", "--time=60",
		fmt.Sprintf("--comment=lull:max-delay=%ds,runtime=%ds", whole(j.Delay), whole(j.Length)),
		"--wrap", fmt.Sprintf("sleep %.2f", j.Length.Seconds()/float64(w.Factor))).Output()
	if err != nil {
		return fmt.Errorf("sbatch %s: %w", j.ID, err)
	}
	w.jobs[strings.TrimSpace(string(out))] = j
	return nil
}

// simulate is what the simulator expects. CarbonFlex rolls out over the week hour by hour, and learns each day, as it does live.
func (w *slurmWeek) simulate(ctx context.Context) (reproduce.CapacityScore, error) {
	if !w.bounded {
		return w.week.Unscaled(ctx, w.planner, workload.Rigid, time.Duration(w.Factor)*weekLook)
	}
	p, err := curve.Simulated(append(rigidPast(w.week.Past), rigidPast(w.week.Jobs)...), w.week.Start, float64(w.week.Servers), w.week.Watts, w.week.Series)
	if err != nil {
		return reproduce.CapacityScore{}, err
	}
	return w.week.RollOutUnscaled(ctx, p, workload.Rigid)
}

// weekScore is what came of the week.
type weekScore struct {
	grams float64
	// runs are the emissions from starts to ends as Slurm states them.
	runs   float64
	late   int
	wait   time.Duration // mean
	faults []error
}

// judge says what the jobs emitted, by the starts that Slurm states, and which were late: they started more than weekLag after their latest start.
func (w *slurmWeek) judge() weekScore {
	var s weekScore
	allowed := time.Duration(w.Factor) * weekLag
	for _, id := range slices.SortedFunc(maps.Keys(w.jobs), func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) {
		j, ended := w.jobs[id], w.ended[id]
		if !ended.Succeeded() {
			s.faults = append(s.faults, fmt.Errorf("%w: job %s: %s; accepted: COMPLETED", ErrDemo, j.ID, cmp.Or(ended.State, "unknown")))
			continue
		}
		started := w.timeline.ToGrid(ended.Started)
		waited := started.Sub(j.Submitted)
		s.wait += waited / time.Duration(len(w.jobs))
		if waited > j.Delay+allowed {
			s.late++
			s.faults = append(s.faults, fmt.Errorf("%w: job %s: started after %v; accepted: %v, and %v that Slurm adds", ErrDemo, j.ID, waited, j.Delay, allowed))
		}
		s.grams += w.emitted(started, j.Length)
		s.runs += w.emitted(started, w.timeline.ToGrid(ended.Ended).Sub(started))
	}
	return s
}

// emitted is what a CPU emits in a span, gCO2eq.
func (w *slurmWeek) emitted(from time.Time, span time.Duration) float64 {
	mean, _ := w.week.Series.Mean(from, from.Add(span))
	return float64(mean) * w.week.Watts / 1000 * span.Hours()
}
