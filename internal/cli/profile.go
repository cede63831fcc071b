package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/accounting/meter"
	"lull.dev/lull/internal/base/outfile"
	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/profiler"
	"lull.dev/lull/pkg/power"
	curves "lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// profileOptions are the flags of lull profile.
type profileOptions struct {
	cluster              clusterFlags
	measure              profiler.Options
	prometheus           prometheusFlags
	file, name, zone, to string
	watts                map[string]string
}

func newProfileCommand() *cobra.Command {
	o := profileOptions{measure: profiler.Options{Clock: clock.RealClock{}}}
	cmd := &cobra.Command{
		Use:   "profile -f FILE",
		Short: "Measure how a workload scales, and write its ScalingProfile",
		Long: `Profile creates the workload of a file, runs it at each number of workers for a while,
reads its progress (what it writes by "lull progress", or its finished parts), and writes
the ScalingProfile that workloads name in the annotation lull.dev/profile. It measures a slow
workload for longer: until it has made progress, and each worker has finished a part. Afterwards
it deletes the workload, unless you set --keep. No policy governs the workload meanwhile.`,
		Example: `  lull profile -f job.yaml --min 1 --max 8 --duration 60s
  lull profile -f job.yaml --max 16 --step 4 --zone de --keep
  lull profile -f job.yaml --max 8 -o profile.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.cluster.register(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&o.file, "filename", "f", "", "file with the workload (YAML or JSON)")
	fl.StringVar(&o.name, "name", "", "name of the ScalingProfile (default that of the workload)")
	number(fl, &o.measure.Min, "min", 1, between(1, workload.MaxScale), "least number of workers")
	number(fl, &o.measure.Max, "max", 8, between(1, workload.MaxScale), "largest number of workers")
	number(fl, &o.measure.Step, "step", 1, between(1, workload.MaxScale), "distance between two measured scales; Lull interpolates between them")
	duration(fl, &o.measure.Duration, "duration", time.Minute, "shortest time to measure each scale")
	duration(fl, &o.measure.Patience, "patience", 5*time.Minute, "longest time until the pods of a scale run, and longest time beyond --duration to measure a scale that has made too little progress for a rate")
	fl.BoolVar(&o.measure.Keep, "keep", false, "let the workload run on afterwards")
	fl.StringVar(&o.zone, "zone", "", "GridZone whose intensity is used for the emissions of profiling")
	fl.StringVarP(&o.to, "output", "o", "", "write the ScalingProfile to this file instead of the cluster")
	o.prometheus.register(cmd)
	fl.StringToStringVar(&o.watts, "watts", nil, "watts of a unit of a resource, NAME=WATTS (default cpu=3.5)")
	return cmd
}

func (o *profileOptions) run(cmd *cobra.Command) error {
	m := &o.measure
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := cmd.OutOrStdout()
	if err := errors.Join(checkProfile(o.file, m), o.prometheus.check()); err != nil {
		return err
	}
	if o.prometheus.url != "" {
		get := &fetch.Client{Cache: fetch.NewCache(""), Quote: true}
		m.Power = meter.New(o.prometheus.url, o.prometheus.tokenFile, 0, get, m.Clock).Measure
	}
	perUnit, err := wattsPerUnit(o.watts)
	if err != nil {
		return err
	}
	if m.Watts, err = power.NewPerUnit(perUnit, 1); err != nil {
		return fmt.Errorf("--watts: %w", err)
	}
	scales, err := m.Scales()
	if err != nil {
		return err
	}
	c, err := o.cluster.connect(cmd.Context())
	if err != nil {
		return err
	}
	kind, obj, err := o.cluster.readWorkload(ctx, c, o.file)
	if err != nil {
		return err
	}
	intensity, err := zoneIntensity(ctx, c, o.zone)
	if err != nil {
		return err
	}
	if o.name == "" {
		o.name = obj.GetName()
	}
	obj.SetName(obj.GetName() + "-profile")
	m.Tell = func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	m.Tell("%s %s/%s at %d scales, at least %v each", kind.Name, obj.GetNamespace(), obj.GetName(), len(scales), m.Duration)
	res, err := profiler.Run(ctx, c, &kube.Applier{Client: c, Recorder: noEvents{}}, kind, obj, *m)
	if err != nil {
		return err
	}
	grams := res.EnergyKWh * intensity
	p := res.Profile(o.name, obj.GetNamespace(), m, grams)
	if err := drawCurve(out, &res); err != nil {
		return err
	}
	writeCost(out, &res, o.zone, grams)
	return writeProfile(ctx, out, c, p, o.to)
}

// checkProfile checks what was asked for.
func checkProfile(file string, o *profiler.Options) error {
	switch {
	case file == "":
		return errors.New("--filename: not given; accepted: a file with a workload (YAML or JSON)")
	case o.Duration < time.Second:
		return fmt.Errorf("--duration: %v; accepted: at least 1s", o.Duration)
	case o.Patience < time.Second:
		return fmt.Errorf("--patience: %v; accepted: at least 1s", o.Patience)
	case o.Max < o.Min:
		return fmt.Errorf("--max: %d; accepted: at least --min, %d", o.Max, o.Min)
	}
	return nil
}

// writeCost says how much of the run was profiled, what that took and, of a zone, emitted, and who measured it.
func writeCost(out io.Writer, res *profiler.Result, zone string, grams float64) {
	fmt.Fprintf(out, "\n%.1f %% of the run was profiled; it took %s", 100*res.Share, units.Energy(res.EnergyKWh))
	if zone != "" {
		fmt.Fprintf(out, " and emitted %s", units.Emissions(grams))
	}
	fmt.Fprintf(out, ", by %s\n", cmp.Or(res.Source, "the power model"))
}

func wattsPerUnit(stated map[string]string) (map[string]float64, error) {
	if len(stated) == 0 {
		return map[string]float64{"cpu": power.DefaultWattsPerCPU}, nil
	}
	out := map[string]float64{}
	for r, text := range stated {
		v, err := parseNumber[float64](text, between(0, power.MaxWattsPerUnit))
		if err != nil {
			return nil, fmt.Errorf("--watts: %s=%q; accepted: %w", r, text, err)
		}
		out[r] = v
	}
	return out, nil
}

// maxManifest bounds a file with a workload.
const maxManifest = 1 << 20

// readWorkload reads a workload of a known kind from a file.
func (f *clusterFlags) readWorkload(ctx context.Context, c client.Client, file string) (*kinds.Kind, *unstructured.Unstructured, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, nil, fmt.Errorf("-f: %w", err)
	}
	defer in.Close()
	plain, err := units.PlainText(io.LimitReader(in, maxManifest))
	if err != nil {
		return nil, nil, fmt.Errorf("-f %s: %w", file, err)
	}
	text, err := io.ReadAll(plain)
	if err != nil {
		return nil, nil, fmt.Errorf("-f %s: %w", file, err)
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &obj.Object); err != nil {
		return nil, nil, fmt.Errorf("-f %s: %w", file, units.ReadError(err))
	}
	if obj.GetName() == "" {
		return nil, nil, fmt.Errorf("-f %s: metadata.name: not set", file)
	}
	if obj.GetNamespace() == "" {
		ns, err := f.scope()
		if err != nil {
			return nil, nil, err
		}
		obj.SetNamespace(ns)
	}
	all, err := kube.Kinds(ctx, c)
	if err != nil && all == nil {
		return nil, nil, err
	}
	var names []string
	for _, k := range all {
		if k.GVK() == obj.GroupVersionKind() {
			return k, obj, nil
		}
		names = append(names, k.Name)
	}
	return nil, nil, fmt.Errorf("-f %s: kind: %s; accepted: %s", file, obj.GroupVersionKind(), strings.Join(names, ", "))
}

// zoneIntensity is the present intensity of a GridZone in gCO2eq/kWh; 0 where none is named.
func zoneIntensity(ctx context.Context, c client.Client, name string) (float64, error) {
	if name == "" {
		return 0, nil
	}
	var zone v1alpha1.GridZone
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &zone); err != nil {
		return 0, fmt.Errorf("--zone: %w", err)
	}
	if zone.Status.Intensity == nil {
		return 0, fmt.Errorf("--zone: the intensity of GridZone %s is not known", name)
	}
	return *zone.Status.Intensity, nil
}

// drawCurve draws throughput by workers, with the scales in between interpolated.
func drawCurve(out io.Writer, res *profiler.Result) error {
	p := &curves.Profile{}
	for _, x := range res.Points {
		p.Workers, p.Throughput = append(p.Workers, x.Workers), append(p.Throughput, x.Throughput)
	}
	m, err := p.Scale(p.Workers[0], p.MaxWorkers())
	if err != nil {
		return err
	}
	throughputs := workload.Throughputs(m.Curve)
	most := throughputs[len(throughputs)-1]
	const width = 40
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprint(tw, "\nWORKERS\tRUNS/H\tSPEED-UP\tADDS\t\n")
	next := 0
	for i, v := range m.Curve {
		workers, note := p.Workers[0]+i, "interpolated"
		if p.Workers[next] == workers {
			next++
			note = ""
		}
		fmt.Fprintf(tw, "%d\t%.4g\t%.2f\t%.2f\t%s %s\n", workers, throughputs[i], throughputs[i]/m.Curve[0], v/m.Curve[0], strings.Repeat("#", int(width*throughputs[i]/most)), note)
	}
	return tw.Flush()
}

func writeProfile(ctx context.Context, out io.Writer, c client.Client, p *v1alpha1.ScalingProfile, to string) error {
	if to != "" {
		text, err := yaml.Marshal(p)
		if err != nil {
			return err
		}
		if err := outfile.WriteFile(to, text); err != nil {
			return fmt.Errorf("-o: %w", err)
		}
		_, err = fmt.Fprintf(out, "wrote %s\n", to)
		return err
	}
	var old v1alpha1.ScalingProfile
	err := c.Get(ctx, client.ObjectKeyFromObject(p), &old)
	switch {
	case apierrors.IsNotFound(err):
		err = c.Create(ctx, p)
	case err == nil:
		old.Spec = p.Spec
		err = c.Update(ctx, &old)
	}
	if err != nil {
		return fmt.Errorf("write ScalingProfile %s/%s: %w", p.Namespace, p.Name, err)
	}
	_, err = fmt.Fprintf(out, "wrote ScalingProfile %s/%s: name it in workloads as %s: %s\n", p.Namespace, p.Name, v1alpha1.AnnotationProfile, p.Name)
	return err
}
