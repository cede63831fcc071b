// Package demo shows Lull's main job on a cluster of its own: it starts a lab
// (a real control plane), installs Lull, replays two days of carbon intensity,
// submits Jobs and reports what the API server's timestamps say was saved.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/charts"
	"lull.dev/lull/internal/base/outfile"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/timegrid"
)

// Options configure a demo.
type Options struct {
	Lab    string // the lab's binary
	Trace  string // CSV or JSON series; empty for the climatology of Zone
	Zone   string
	From   time.Time // first hour of the replay; zero for the middle of the trace
	Factor int64
	Jobs   int
	Seed   uint64
	Report string // file of the HTML report
	// Elastic adds three jobs that scale to the others.
	Elastic bool
	// Live has the zone ask a provider (a fake one) whose forecasts err, instead of
	// seeing the series itself; Outage is how long that provider is down.
	Live *Live
	// Planner and its parameters, and how to build it for the simulated baseline.
	Planner    string
	Parameters map[string]string
	// Terminal says that Out can be drawn over.
	Terminal bool
	Out      io.Writer
}

// Live says how the provider behaves.
type Live struct{ Outage time.Duration }

// ErrDemo marks a demo in which a Job did not finish or missed its deadline.
var ErrDemo = errors.New("demo failed")

// The demo's cluster and policy.
const (
	nodes       = 4
	cpusPerNode = 32
	wattsPerCPU = 10.0 // a loaded server of 64 cores and 640 W
	pue         = 1.2
	// margin covers what starting a pod takes: a second or two of wall time is
	// half an hour of the replay, and a pod that finds no room is tried again
	// only seconds later.
	margin = 90 * time.Minute
	// reportEvery is how often elastic Jobs report their progress, wall time.
	reportEvery = time.Second
	// tail is how long after the replay a straggler is waited for, wall time.
	tail = 20 * time.Second
)

// slot is the resolution of planning: a change of scale every few minutes of the replay would
// be one every moment.
func (o Options) slot() time.Duration {
	if o.Elastic {
		return time.Hour
	}
	return 15 * time.Minute
}

// Run runs the demo. It returns an error wrapping ErrDemo when a Job did not
// finish or a deadline was missed. Nothing is left running.
func Run(ctx context.Context, o Options) (err error) {
	// Children end with the thread that started them: it must outlive them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	series, from, err := o.series()
	if err != nil {
		return err
	}
	dir, leave, err := o.folder()
	if err != nil {
		return err
	}
	defer leave(&err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	fmt.Fprintf(o.Out, "Replaying %s from %s, %d times as fast: 48 hours in %s.\n", series.Source, from.Format("2006-01-02 15:04"), o.Factor, (span / time.Duration(o.Factor)).Round(time.Second))
	fmt.Fprintf(o.Out, "Starting a real control plane (%d nodes of %d CPUs) and Lull's controller ...\n", nodes, cpusPerNode)
	st, err := Raise(ctx, dir, Setup{Lab: o.Lab, Nodes: nodes, CPUs: cpusPerNode, Factor: o.Factor})
	if err != nil {
		return err
	}
	defer st.Stop()
	c := st.Client
	recorded := ""
	if o.Live == nil {
		recorded = seriesCSV(series, from.Add(-24*time.Hour), from.Add(span+24*time.Hour))
	}
	if err := setUp(ctx, c, o, recorded); err != nil {
		return err
	}
	rec, err := watch(ctx, st.Config, c.Scheme())
	if err != nil {
		return err
	}
	var grid *liveGrid
	if o.Live != nil {
		if grid, err = startGrid(ctx, dir, st.self, o, seriesCSV(series, from.Add(-liveHistory), from.Add(span+5*24*time.Hour)), from); err != nil {
			return err
		}
		st.children = append(st.children, grid.child)
		if o.Live.Outage > 0 {
			if err := grid.fail(ctx, from.Add(outageFrom), from.Add(outageFrom+o.Live.Outage)); err != nil {
				return err
			}
		}
	}
	epoch, err := createZone(ctx, c, o, from, grid)
	if err != nil {
		return errors.Join(err, st.Ended())
	}
	timeline, err := timegrid.NewTimeline(epoch, from, float64(o.Factor))
	if err != nil {
		return err
	}
	specs := generate(o.Jobs, o.Seed)
	if o.Elastic {
		specs = append(specs, elasticJobs()...)
		slices.SortStableFunc(specs, func(a, b spec) int { return cmp.Compare(a.arrival, b.arrival) })
	}
	r := &replay{Options: o, client: c, recorder: rec, timeline: timeline, series: series, specs: specs, stage: st}
	r.player = &Player{Client: c, Namespace: namespace, Timeline: timeline, Running: rec.pods, Every: reportEvery}
	for _, s := range specs {
		if s.elastic != nil {
			r.player.Add(s.work())
		}
	}
	if err := r.play(ctx); err != nil {
		return err
	}
	return r.finish(ctx)
}

// series returns what is replayed and from when.
func (o Options) series() (*carbon.Series, time.Time, error) {
	from := o.From.UTC().Truncate(time.Hour)
	if o.Trace == "" {
		if o.From.IsZero() {
			from = time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
		}
		s, err := climatology.Series(o.Zone, from.Add(-liveHistory), from.Add(span+5*24*time.Hour))
		return s, from, err
	}
	f, err := os.Open(o.Trace)
	if err != nil {
		return nil, from, err
	}
	defer f.Close()
	s, err := source.Read(f, o.Trace, carbon.Provenance{Zone: o.Zone, Source: o.Trace})
	if err != nil {
		return nil, from, fmt.Errorf("%s: %w", o.Trace, err)
	}
	if o.From.IsZero() {
		from = s.Start().Add(s.End().Sub(s.Start()) / 2).UTC().Truncate(24 * time.Hour)
	}
	if from.Before(s.Start()) || s.End().Before(from.Add(span)) {
		return nil, from, fmt.Errorf("%s covers %s to %s; accepted: a start at least 48 h before its end", o.Trace, s.Start().Format(time.RFC3339), s.End().Format(time.RFC3339))
	}
	if gaps := s.Gaps(from, from.Add(span)); len(gaps) > 0 {
		return nil, from, fmt.Errorf("%s has %d gaps in the 48 h from %s, the first at %s; choose another start", o.Trace, len(gaps), from.Format(time.RFC3339), gaps[0].From.Format(time.RFC3339))
	}
	return s, from, nil
}

// folder makes a folder for a demo. leave removes it, or says where the logs are if the demo
// failed.
func (o Options) folder() (dir string, leave func(failed *error), err error) {
	dir, err = os.MkdirTemp("", "lull-demo-")
	return dir, func(failed *error) {
		if *failed == nil {
			*failed = os.RemoveAll(dir)
			return
		}
		fmt.Fprintf(o.Out, "\nlogs: %s\n", dir)
	}, err
}

// Setup is the lab of a demo or a benchmark.
type Setup struct {
	Lab    string // the lab's binary
	Nodes  int
	CPUs   int64 // of each node
	GPUs   int   // of each node
	Factor int64
	// Spokes makes the lab a hub with Kueue, and that many clusters of such nodes.
	Spokes int
	// Binary is Lull's; empty for the running one. Flags are more for its controller, which
	// serves no metrics unless they say so.
	Binary string
	Flags  []string
	// Kinds of workloads are governed beside the default ones.
	Kinds []string
	// Scheduler is a file with kube-scheduler's configuration; Extender the address at which
	// "lull extender" answers it. Empty for none.
	Scheduler, Extender string
}

// Stage is a lab with Lull installed and its controller running.
type Stage struct {
	Client client.Client
	Config *rest.Config
	// Controller is the process id of Lull's controller.
	Controller int
	// Spokes are the clusters of a hub.
	Spokes []Spoke

	self     string // Lull's binary
	children []*child
}

// Spoke is a cluster of a hub.
type Spoke struct {
	Name, Kubeconfig string
	Client           client.Client
	Config           *rest.Config
}

// Raise starts a lab in dir, installs Lull and starts its controller. The calling goroutine
// must hold its thread until Stop: all ends with it.
func Raise(ctx context.Context, dir string, setup Setup) (_ *Stage, err error) {
	s := &Stage{self: setup.Binary}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	lab, err := startLab(ctx, dir, setup)
	if err != nil {
		return nil, err
	}
	s.children = append(s.children, lab)
	kubeconfig := filepath.Join(dir, "lab", "kubeconfig")
	if s.Client, s.Config, err = connect(kubeconfig); err != nil {
		return nil, err
	}
	governed, err := kinds.Named(append(slices.Clone(kinds.DefaultNames), setup.Kinds...))
	if err != nil {
		return nil, err
	}
	if err := Install(ctx, s.Client, governed, charts.Options{Kueue: setup.Spokes > 0}); err != nil {
		return nil, err
	}
	for i := range setup.Spokes {
		name := fmt.Sprintf("spoke-%d", i+1)
		sp := Spoke{Name: name, Kubeconfig: filepath.Join(dir, "lab", "spokes", name, "kubeconfig")}
		if sp.Client, sp.Config, err = connect(sp.Kubeconfig); err != nil {
			return nil, err
		}
		s.Spokes = append(s.Spokes, sp)
	}
	if s.self == "" {
		if s.self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	ctl, err := startChild(dir, "controller", s.self, append([]string{
		"controller", "--kubeconfig", kubeconfig, "--leader-elect=false",
		"--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--cache-dir", filepath.Join(dir, "cache"),
	}, setup.Flags...)...)
	if err != nil {
		return nil, err
	}
	s.children, s.Controller = append(s.children, ctl), ctl.cmd.Process.Pid
	if setup.Extender != "" {
		answers, err := startChild(dir, "extender", s.self, "extender", "--kubeconfig", kubeconfig, "--bind-address", setup.Extender, "--metrics-bind-address", "0", "--health-probe-bind-address", "0")
		if err != nil {
			return nil, err
		}
		s.children = append(s.children, answers)
	}
	return s, nil
}

// Stop ends all, the last started first.
func (s *Stage) Stop() {
	for i := len(s.children) - 1; i >= 0; i-- {
		s.children[i].stop()
	}
}

// Ended reports a process that ended by itself.
func (s *Stage) Ended() error {
	for _, c := range s.children {
		if err := c.ended(); err != nil {
			return err
		}
	}
	return nil
}

func connect(kubeconfig string) (client.Client, *rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.QPS, config.Burst = 100, 200
	scheme, err := controller.NewScheme()
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	return c, config, err
}

// writeReport writes the report of a demo to the file that the user named.
func (o Options) writeReport(doc report.Document) error {
	return outfile.Write(o.Report, func(w io.Writer) error { return report.WriteDocument(w, doc) })
}

// publish prints the table of a demo and writes its report; what has failed is an error wrapping ErrDemo.
func (o Options) publish(doc report.Document, head []string, rows [][]string, failed []string) error {
	fmt.Fprintf(o.Out, "\n| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, row := range rows {
		fmt.Fprintf(o.Out, "| %s |\n", strings.Join(row, " | "))
	}
	if err := o.writeReport(doc); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "\nreport: %s\n", o.Report)
	if len(failed) > 0 {
		return fmt.Errorf("%w: %s", ErrDemo, strings.Join(failed, "; "))
	}
	return nil
}
