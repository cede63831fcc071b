package profiler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/power"
)

// work is a Job whose workers begin a part when the scale changes, and another when they have finished one. Each takes part
// for it, and a worker is some tenths of a second behind the one before it. If says is set, the Job has no parts: it says
// its progress that often, and takes part for all of its work with one worker.
type work struct {
	part, says time.Duration
	parts      int

	workers int
	since   time.Time // when the workers began
	before  float64   // what was done before, in parts
}

// done is how much is done now, in parts.
func (x *work) done() float64 {
	if x.workers == 0 {
		return 0
	}
	took := time.Since(x.since)
	if x.says > 0 {
		return x.before + float64(x.workers)*(took.Truncate(x.says).Seconds()/x.part.Seconds())
	}
	n := x.before
	for i := range x.workers {
		n += float64(max(0, took-time.Duration(i)*300*time.Millisecond) / x.part)
	}
	return min(n, float64(x.parts))
}

// scale changes the number of workers.
func (x *work) scale(n int) {
	if n != x.workers {
		x.before, x.workers, x.since = x.done(), n, time.Now()
	}
}

// client is one of an API server where the work goes on.
func (x *work) client() client.Client {
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, obj, opts...); err != nil {
				return err
			}
			u, is := obj.(*unstructured.Unstructured)
			if !is {
				return nil
			}
			n, _, _ := unstructured.NestedInt64(u.Object, "spec", "parallelism")
			x.scale(int(n))
			if x.says > 0 {
				u.SetAnnotations(map[string]string{v1alpha1.AnnotationProgress: strconv.FormatFloat(x.done(), 'f', 6, 64)})
				return nil
			}
			status := map[string]any{"succeeded": int64(x.done())}
			if x.done() >= float64(x.parts) {
				status["conditions"] = []any{map[string]any{"type": "Complete", "status": "True"}}
			}
			u.Object["status"] = status
			return nil
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			if pods, is := list.(*corev1.PodList); is {
				for i := range x.workers {
					pods.Items = append(pods.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Status: corev1.PodStatus{Phase: corev1.PodRunning}})
				}
			}
			return nil
		},
	}).Build()
}

// job is the object of the work.
func (x *work) job(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	indexed := batchv1.IndexedCompletion
	j := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n"},
		Spec: batchv1.JobSpec{
			CompletionMode: &indexed, Completions: new(int32(x.parts)), Parallelism: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"job": "j"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"job": "j"}}},
		},
	}
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(j)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: obj}
}

// kind is the built-in kind of Jobs.
func kind(t *testing.T) *kinds.Kind {
	t.Helper()
	for _, k := range kinds.Builtin() {
		if k.Name == "Job" {
			return k
		}
	}
	t.Fatal("Job is not a built-in kind")
	return nil
}

// TestMeasuresUntilProgress: a scale is measured for the duration, and on until its workers have made progress, for as
// long as the patience. The clock is virtual.
func TestMeasuresUntilProgress(t *testing.T) {
	for name, c := range map[string]struct {
		work               work
		duration, patience time.Duration
		scales             int
		want               float64       // throughput of one worker, in shares of the work per hour
		took               time.Duration // the longest scale, which ends within two seconds more
		err                string
	}{
		"short parts":              {work: work{part: time.Second, parts: 400}, duration: 12 * time.Second, patience: time.Minute, scales: 4, want: 3600. / 400, took: 12 * time.Second},
		"parts above the duration": {work: work{part: 50 * time.Second, parts: 400}, duration: 12 * time.Second, patience: time.Minute, scales: 4, want: 3600. / 50 / 400, took: 50 * time.Second},
		"parts above the patience": {work: work{part: 80 * time.Second, parts: 400}, duration: 12 * time.Second, patience: time.Minute, scales: 4, err: "no progress in 1m12s with 1 workers"},
		"the last parts":           {work: work{part: 50 * time.Second, parts: 3}, duration: 12 * time.Second, patience: time.Minute, scales: 2, want: 3600. / 50 / 3, took: 50 * time.Second},
		"no parts are left":        {work: work{part: 50 * time.Second, parts: 3}, duration: 12 * time.Second, patience: time.Minute, scales: 3, err: "it finished before 3 workers"},
		"too short":                {work: work{part: time.Second, parts: 5}, duration: 12 * time.Second, patience: time.Minute, scales: 1, err: "a shorter --duration"},
		"says it often":            {work: work{part: time.Hour, says: 2 * time.Second}, duration: 20 * time.Second, patience: time.Minute, scales: 3, want: 1, took: 20 * time.Second},
		"says it seldom":           {work: work{part: time.Hour, says: 30 * time.Second}, duration: 12 * time.Second, patience: time.Minute, scales: 3, want: 1, took: 30 * time.Second},
		"never says it":            {work: work{part: time.Hour, says: time.Hour}, duration: 12 * time.Second, patience: time.Minute, scales: 3, err: v1alpha1.AnnotationProgress},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := c.work
				watts, err := power.NewPerUnit(map[string]float64{"cpu": 1}, 1)
				if err != nil {
					t.Fatal(err)
				}
				o := Options{
					Min: 1, Max: c.scales, Step: 1, Duration: c.duration, Patience: c.patience, Watts: watts,
					Clock: clock.RealClock{}, Tell: t.Logf,
				}
				cl := x.client()
				res, err := Run(t.Context(), cl, &kube.Applier{Client: cl, Recorder: &events.FakeRecorder{}}, kind(t), x.job(t), o)
				if c.err != "" {
					if !errors.Is(err, ErrProfile) || !strings.Contains(err.Error(), c.err) {
						t.Fatalf("error %v; want one that says %q", err, c.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(res.Points) != c.scales {
					t.Fatalf("%d scales", len(res.Points))
				}
				longest := time.Duration(0)
				for _, p := range res.Points {
					longest = max(longest, p.took)
					if got := p.Throughput / float64(p.Workers); math.Abs(got/c.want-1) > 0.1 {
						t.Errorf("%d workers: %.4g of the work an hour each, want %.4g", p.Workers, got, c.want)
					}
				}
				if d := longest - c.took; d < 0 || d > 2*time.Second {
					t.Errorf("a scale took %v, want %v", longest, c.took)
				}
			})
		})
	}
}
