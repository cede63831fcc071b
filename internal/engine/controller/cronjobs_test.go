package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
)

// informerCache is a cache whose informers are filled at once; it counts those that are there.
type informerCache struct {
	listCache
	informers int
}

func (c *informerCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	c.informers++
	return synced{}, nil
}

func (c *informerCache) RemoveInformer(context.Context, client.Object) error {
	c.informers--
	return nil
}

// answers is an API server that answers each list with an error, or with nothing.
type answers struct {
	client.Reader
	err error
}

func (a *answers) List(context.Context, client.ObjectList, ...client.ListOption) error { return a.err }

// TestCronJobsWatched: a Job of a CronJob is bounded by its next run once CronJobs may be listed, and not held while
// they may not; an API server that does not answer changes nothing.
func TestCronJobsWatched(t *testing.T) {
	ctx := context.Background()
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", UID: "c"}, Spec: batchv1.CronJobSpec{Schedule: "30 * * * *", ConcurrencyPolicy: batchv1.ForbidConcurrent}}
	job, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Namespace: "n", UID: "a", CreationTimestamp: metav1.NewTime(created), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron, kube.CronJobGVK)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	named, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	workloads := []*kube.Workload{kube.NewWorkload(named[0], &unstructured.Unstructured{Object: job})}
	live := &answers{err: errors.New("no answer")}
	c := &informerCache{listCache: listCache{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(cron).Build()}}
	s := NewKindSet()
	s.cache, s.live = c, live
	step := func(name string, answer error, ready bool, informers int, problem string) {
		t.Helper()
		live.err = answer
		s.syncCronJobs(ctx)
		next := kube.WithCronJobs(workloads, func() kube.CronJobs { return s.cronJobs(ctx, "n") })[0].Next
		if s.crons.ready() != ready || c.informers != informers {
			t.Errorf("%s: ready %v, %d informers, want %v, %d", name, s.crons.ready(), c.informers, ready, informers)
		}
		if problem == "" && (next.Err != nil || !next.At.Equal(created.Add(30*time.Minute))) || problem != "" && (next.Err == nil || !strings.Contains(next.Err.Error(), problem)) {
			t.Errorf("%s: next run %+v, want the problem %q", name, next, problem)
		}
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "cronjobs"}, "", nil)
	step("no answer yet", errors.New("no answer"), false, 0, "no answer")
	step("forbidden", forbidden, true, 0, "the controller may not list CronJobs")
	step("granted", nil, true, 1, "")
	step("no answer", errors.New("no answer"), true, 1, "")
	step("granted still", nil, true, 1, "")
	step("taken away", forbidden, true, 0, "the controller may not list CronJobs")

	waits := NewKindSet()
	waits.cache, waits.live = c, &answers{err: errors.New("no answer")}
	waits.syncCronJobs(ctx)
	waits.crons.since = waits.crons.since.Add(-listed)
	if !waits.crons.ready() {
		t.Error("one kind that cannot be listed keeps all others waiting")
	}
}
