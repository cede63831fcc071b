// Package profiler measures how a workload scales: it runs the workload at each of several
// numbers of workers for a while, and reads how fast it is and what power it takes.
//
// Source: Hanafy et al., CarbonScaler, POMACS 7(3), 2023, Section 4.1 (Carbon Profiler).
package profiler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/power"
)

// ErrProfile marks a measurement that cannot be made.
var ErrProfile = errors.New("cannot profile")

// Options say what is measured, and how.
type Options struct {
	// Min..Max are the scales, every Step-th of them and Max.
	Min, Max, Step int
	// Duration is the least time at each scale, counted from when all its pods run. Patience is
	// how long they may take to run, and how much longer than Duration a workload without enough
	// progress for a rate is measured.
	Duration, Patience time.Duration
	// Watts per unit of resource: the power model, where power is not measured.
	Watts power.PerUnit
	// Power, where given, measures what some pods draw.
	Power func(ctx context.Context, namespace string, pods []string) ([]kube.PodPower, error)
	// Keep lets the workload go on after the measurement.
	Keep  bool
	Clock clock.Clock
	// Tell is told what goes on.
	Tell func(format string, args ...any)
}

// Point is what was measured at one scale.
type Point struct {
	Workers int
	// Throughput in shares of the work per hour.
	Throughput float64
	Watts      float64
	// Parts finished during the measurement; 0 where the workload tells its progress itself.
	Parts  int
	took   time.Duration
	source string // of the watts, "" by the model
}

// Result is what was measured.
type Result struct {
	Points []Point
	// Share of the whole work that was done meanwhile.
	Share     float64
	EnergyKWh float64
	// Source of the power where it was measured at every scale, else "".
	Source string
}

// Scales are the numbers of workers that are measured. Errors wrap ErrProfile.
func (o *Options) Scales() ([]int, error) {
	if o.Min < 1 || o.Max < o.Min || o.Step < 1 {
		return nil, fmt.Errorf("%w: min %d, max %d, step %d; accepted: min at least 1, max at least min, step at least 1", ErrProfile, o.Min, o.Max, o.Step)
	}
	var out []int
	for n := o.Min; n < o.Max; n += o.Step {
		out = append(out, n)
	}
	return append(out, o.Max), nil
}

// run is a measurement under way.
type run struct {
	Options
	client client.Client
	ap     *kube.Applier
	kind   *kinds.Kind
	key    client.ObjectKey
}

// Run creates the object, which no policy governs meanwhile, measures it at each scale, the
// least first, and deletes it again. Errors wrap ErrProfile where the workload is at fault: it
// ends too soon, finds no nodes, or makes no progress that can be read.
func Run(ctx context.Context, c client.Client, ap *kube.Applier, kind *kinds.Kind, obj *unstructured.Unstructured, o Options) (res Result, err error) {
	scales, err := o.Scales()
	if err != nil {
		return res, err
	}
	if !kind.Elastic() {
		return res, fmt.Errorf("%w: the number of workers of a %s cannot be changed", ErrProfile, kind.Name)
	}
	obj = obj.DeepCopy()
	prepare(kind, obj, o.Min)
	if err := c.Create(ctx, obj); err != nil {
		return res, fmt.Errorf("create %s %s: %w", kind.Name, obj.GetName(), err)
	}
	r := &run{Options: o, client: c, ap: ap, kind: kind, key: client.ObjectKeyFromObject(obj)}
	if !o.Keep {
		defer func() {
			// Also when the measurement was cancelled.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			policy := metav1.DeletePropagationBackground
			gone := client.IgnoreNotFound(c.Delete(ctx, obj, &client.DeleteOptions{PropagationPolicy: &policy}))
			err = errors.Join(err, gone)
		}()
	}
	first, err := r.workload(ctx)
	if err != nil {
		return res, err
	}
	begun, _, err := progress(first)
	if err != nil {
		return res, err
	}
	for _, n := range scales {
		p, end, err := r.measure(ctx, n)
		if err != nil {
			return res, err
		}
		res.Points = append(res.Points, p)
		res.EnergyKWh += p.Watts / 1000 * p.took.Hours()
		res.Share = end - begun
		switch {
		case len(res.Points) == 1:
			res.Source = p.source
		case p.source == "":
			res.Source = ""
		}
		o.Tell("%d workers: %.4g of the work an hour, %.0f W", n, p.Throughput, p.Watts)
	}
	return res, nil
}

// prepare makes the object one of its own that runs at once at the least scale, governed by
// nobody.
func prepare(kind *kinds.Kind, obj *unstructured.Unstructured, least int) {
	obj.SetResourceVersion("")
	obj.SetUID("")
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationPolicy] = "" // admission leaves alone what has it
	obj.SetAnnotations(annotations)
	kind.Set(obj.Object, least)
}

func (r *run) workload(ctx context.Context) (*kube.Workload, error) {
	return kube.Fetch(ctx, r.client, r.kind, r.key)
}

// look is how often the workload is looked at.
const look = 200 * time.Millisecond

func (r *run) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.Clock.After(d):
		return nil
	}
}

// measure measures one scale.
func (r *run) measure(ctx context.Context, workers int) (p Point, end float64, err error) {
	if err := r.reach(ctx, workers); err != nil {
		return p, 0, err
	}
	w, s, err := r.observe(ctx, workers)
	if err != nil {
		return p, 0, err
	}
	p = Point{Workers: workers, Throughput: (s.end - s.from) / s.took.Hours(), Parts: s.parts, took: s.took}
	p.Watts = float64(workers)*float64(r.Watts.Of(w.Facts.Request)) + float64(r.Watts.Of(w.Facts.Fixed))
	if r.Power == nil {
		return p, s.end, nil
	}
	pods, err := r.running(ctx, w)
	if err != nil {
		return p, 0, err
	}
	measured, err := r.Power(ctx, r.key.Namespace, pods)
	if err != nil {
		return p, 0, fmt.Errorf("measure the power: %w", err)
	}
	if watts, source := kube.Drawn(measured, w.Facts.Request, r.Watts); source != "" {
		p.Watts, p.source = watts, source
	}
	return p, s.end, nil
}

// span is the progress over a while, as shares of the work and as finished parts.
type span struct {
	from, end float64
	parts     int
	took      time.Duration
}

// states reports whether the progress is enough to state a rate. A workload of parts must have finished one for each
// worker: workers that begin their parts at the same time finish them at the same time, too.
func (s *span) states(workers int) bool {
	return s.end > s.from && (s.parts == 0 || s.parts >= workers)
}

// observe reads the progress over Duration, and on until it states a rate, for as long as Patience. It then takes the rate
// of what progress there was.
func (r *run) observe(ctx context.Context, workers int) (*kube.Workload, *span, error) {
	w, err := r.workload(ctx)
	if err != nil {
		return nil, nil, err
	}
	from, before, err := progress(w)
	if err != nil {
		return nil, nil, err
	}
	begin := r.Clock.Now()
	for wait := r.Duration; ; wait = look {
		if err := r.wait(ctx, wait); err != nil {
			return nil, nil, err
		}
		if w, err = r.workload(ctx); err != nil {
			return nil, nil, err
		}
		end, parts, err := progress(w)
		if err != nil {
			return nil, nil, err
		}
		s := &span{from: from, end: end, parts: parts - before, took: r.Clock.Now().Sub(begin)}
		late := s.took >= r.Duration+r.Patience
		switch {
		case w.Facts.Finished && (wait == r.Duration || end <= from): // nobody knows when
			return nil, nil, fmt.Errorf("%w: it finished while %d workers were measured: take a longer one, or a shorter --duration", ErrProfile, workers)
		case w.Facts.Finished, s.states(workers), late && end > from:
			return w, s, nil
		case late:
			return nil, nil, fmt.Errorf("%w: no progress in %v with %d workers: it must write %s, or finish parts; a longer --patience waits for longer",
				ErrProfile, s.took.Round(time.Second), workers, v1alpha1.AnnotationProgress)
		}
	}
}

// reach sets the number of workers and waits until they run.
func (r *run) reach(ctx context.Context, workers int) error {
	for deadline := r.Clock.Now().Add(r.Patience); ; {
		w, err := r.workload(ctx)
		if err != nil {
			return err
		}
		if w.Facts.Finished {
			return fmt.Errorf("%w: it finished before %d workers were measured: take a longer one, or a shorter --duration", ErrProfile, workers)
		}
		if w.Facts.Workers != workers {
			if err := r.ap.ScaleTo(ctx, w, workers); err != nil {
				r.Tell("try again: %v", err)
			}
		}
		pods, err := r.running(ctx, w)
		if err != nil {
			return err
		}
		running := len(pods)
		others := 0
		if len(w.Facts.Fixed) > 0 {
			others = 1
		}
		if w.Facts.Workers == workers && running >= workers+others {
			return nil
		}
		if r.Clock.Now().After(deadline) {
			return fmt.Errorf("%w: %d of %d workers run after %v: is there room for them?", ErrProfile, running, workers, r.Patience)
		}
		if err := r.wait(ctx, look); err != nil {
			return err
		}
	}
}

// running lists the running pods of the workload.
func (r *run) running(ctx context.Context, w *kube.Workload) ([]string, error) {
	labels := r.kind.PodLabels(w.Objects[0].Object)
	if len(labels) == 0 {
		return nil, nil
	}
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(r.key.Namespace), client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var names []string
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// progress is the share of the work that is done, and the parts finished where it has parts.
func progress(w *kube.Workload) (share float64, parts int, err error) {
	o, err := kube.ReadOptions(w.Annotations(), &v1alpha1.CarbonPolicySpec{}, w.Kind)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrProfile, err)
	}
	if o.Progress >= 0 {
		return o.Progress, 0, nil
	}
	if w.Facts.Of > 1 {
		return math.Min(1, float64(w.Facts.Done)/float64(w.Facts.Of)), w.Facts.Done, nil
	}
	return 0, 0, nil // it may still begin to write its progress
}

// Profile is the result as a resource. energy, emissions: what the measurement took.
func (res *Result) Profile(name, namespace string, o *Options, emissionsG float64) *v1alpha1.ScalingProfile {
	share := res.Share
	p := &v1alpha1.ScalingProfile{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ScalingProfile"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.ScalingProfileSpec{
			Unit: "runs/h", Source: "measured by lull profile at " + o.Clock.Now().UTC().Format(time.RFC3339),
			Profiled: &v1alpha1.ProfilingCost{Duration: metav1.Duration{Duration: o.Duration}, Share: &share, EnergyKWh: res.EnergyKWh, EmissionsG: emissionsG},
		},
	}
	for _, x := range res.Points {
		point := v1alpha1.ScalingPoint{Workers: int32(x.Workers), Throughput: x.Throughput}
		if res.Source != "" {
			watts := x.Watts
			point.Watts = &watts
		}
		p.Spec.Points = append(p.Spec.Points, point)
	}
	return p
}
