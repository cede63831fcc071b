package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestNamespacesFlagAcceptsOnlyNames: what --namespaces accepts.
func TestNamespacesFlagAcceptsOnlyNames(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "", "a,b-1": "", "a,a": `"a": there twice; accepted: each namespace once`, "A": `"A"; accepted: names of namespaces`, "a,,b": `""; accepted`, "a/b": `"a/b"; accepted`,
	} {
		var n Namespaces
		if text != "" {
			n = strings.Split(text, ",")
		}
		if err := n.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// paged lists Jobs a page at a time. A namespace without any may not be listed, and all of them may not be.
type paged struct {
	client.Reader
	jobs map[string][]string
}

func (p paged) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	if _, nodes := list.(*corev1.NodeList); nodes && o.Namespace == "" {
		return nil
	}
	names, may := p.jobs[o.Namespace]
	if !may {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "", errors.New(o.Namespace))
	}
	from := slices.Index(names, o.Continue) + 1
	names = names[from:]
	if o.Limit > 0 && len(names) > int(o.Limit) {
		names = names[:o.Limit]
		list.SetContinue(names[len(names)-1])
	}
	var items []runtime.Object
	for _, name := range names {
		items = append(items, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name}})
	}
	return meta.SetList(list, items)
}

// TestReaderListsEachNamespace: a list of all namespaces is one of each, page by page, without those that may not be listed.
func TestReaderListsEachNamespace(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	api := paged{jobs: map[string][]string{"a": {"1", "2", "3"}, "b": {}, "d": {"4", "5"}}}
	var left []string
	r := Namespaces{"a", "b", "c", "d"}.Reader(api, scheme.Scheme, mapper, func(ns string, _ error) { left = append(left, ns) })
	for limit := range int64(5) {
		left = nil
		got, more := "", ""
		for {
			var list batchv1.JobList
			if err := r.List(t.Context(), &list, &client.ListOptions{Limit: limit, Continue: more}); err != nil {
				t.Fatal(err)
			}
			if limit > 0 && len(list.Items) > int(limit) {
				t.Errorf("a page of %d, want at most %d", len(list.Items), limit)
			}
			for _, j := range list.Items {
				got += " " + j.Namespace + "/" + j.Name
			}
			if more = list.Continue; more == "" {
				break
			}
		}
		if want := " a/1 a/2 a/3 d/4 d/5"; got != want || !slices.Equal(left, []string{"c"}) {
			t.Errorf("limit %d:%s, want%s; without %v", limit, got, want, left)
		}
	}
	var list batchv1.JobList
	if err := (Namespaces{"c", "e"}).Reader(api, scheme.Scheme, mapper, nil).List(t.Context(), &list, client.Limit(1)); !apierrors.IsForbidden(err) {
		t.Errorf("no namespace may be listed: %v", err)
	}
	for _, token := range []string{"x", "-1/", "4/", "/"} {
		if err := r.List(t.Context(), &list, client.Continue(token)); err == nil {
			t.Errorf("token %q is accepted", token)
		}
	}
	if err := r.List(t.Context(), &corev1.NodeList{}); err != nil {
		t.Errorf("what is cluster-wide: %v", err)
	}
	if err := r.List(t.Context(), &list, client.InNamespace("b")); err != nil || len(list.Items) > 0 {
		t.Errorf("one namespace: %v, %v", list.Items, err)
	}
}

// TestForbiddenNamespaceDelaysNoInformer: an informer of a namespace that may not be listed is filled after ten seconds, without objects, and has them within
// one and a half minutes once they may be listed. An informer that had them keeps them when they may not be listed any more.
func TestForbiddenNamespaceDelaysNoInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		forbidden, calls := true, 0
		var watches []*watch.FakeWatcher
		refused := apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "", errors.New("no"))
		api := &toolscache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				calls++
				if forbidden {
					return nil, refused
				}
				return &batchv1.JobList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []batchv1.Job{{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}}}}, nil
			},
			WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
				if forbidden {
					return nil, refused
				}
				if o.SendInitialEvents != nil {
					return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
				}
				w := watch.NewFake()
				watches = append(watches, w)
				return w, nil
			},
		}
		informer := newInformer(func(runtime.Object) bool { return true }, false)(api, &batchv1.Job{}, 0, nil)
		done := make(chan struct{})
		go func() { defer close(done); informer.RunWithContext(ctx) }()
		state := func() string { return fmt.Sprintf("%v %d", informer.HasSynced(), len(informer.GetStore().List())) }
		check := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := state(); got != want {
				t.Errorf("filled and objects: %s, want %s", got, want)
			}
		}
		check(9*time.Second, "false 0")
		check(21*time.Second, "true 0")
		before := calls
		check(10*time.Minute, "true 0")
		// Of these ten minutes, the last half minute is after longAway.
		if n := calls - before; n < 85 || n > 125 {
			t.Errorf("%d lists in ten minutes, want one in five to six and a half seconds", n)
		}
		before = calls
		check(10*time.Minute, "true 0")
		if n := calls - before; n < 15 || n > 40 {
			t.Errorf("%d lists in the second ten minutes, want one in half a minute", n)
		}
		forbidden = false
		for range 90 { // client-go adds a random time to each half minute
			if time.Sleep(time.Second); state() == "true 1" {
				break
			}
		}
		check(0, "true 1")
		forbidden = true
		for _, w := range watches {
			w.Stop()
		}
		check(10*time.Minute, "true 1")
		cancel()
		<-done
		time.Sleep(time.Minute)
	})
}

// TestTolerantOnceAllowed: when the API server allows one namespace, informers of namespaces that it forbids do not wait ten seconds
// each: those that run beside it are filled after their next try, later ones at once. An API server that starts and
// allows nothing yet is waited for.
func TestTolerantOnceAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		began := time.Now()
		informers := newInformer(func(runtime.Object) bool { return true }, false)
		start := func(name string, allowed func() bool) func() bool {
			api := &toolscache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					if !allowed() {
						return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "", errors.New(name))
					}
					return &batchv1.JobList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []batchv1.Job{{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: name}}}}, nil
				},
				WatchFuncWithContext: watchNothing,
			}
			informer := informers(api, &batchv1.Job{}, 0, nil)
			running.Go(func() { informer.RunWithContext(ctx) })
			return informer.HasSynced
		}
		rights := func() bool { return time.Since(began) >= 5*time.Second }
		never := func() bool { return false }
		allowed, gone := start("allowed", rights), start("gone", never)
		check := func(after time.Duration, want string, synced ...func() bool) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			got := ""
			for _, s := range synced {
				got += fmt.Sprintf(" %v", s())
			}
			if got != want {
				t.Errorf("filled:%s, want%s", got, want)
			}
		}
		check(4*time.Second, " false false", allowed, gone)
		time.Sleep(time.Minute) // more than the longest wait between two tries
		again := start("allowed", rights)
		check(time.Millisecond, " true true true", allowed, gone, again)
		second := start("gone", never)
		check(time.Millisecond, " true", second)
		time.Sleep(time.Minute) // too long ago to say that the API server still knows who has which rights
		third := start("gone", never)
		check(5*time.Second, " false", third)
		check(time.Minute, " true", third)
		cancel()
		running.Wait()
		time.Sleep(time.Minute)
	})
}

// TestRightThatComesLate: an API server that has just allowed one namespace forbids another for eight seconds more. A certain informer is never filled without
// the objects of that one. Another informer is, and has them within ten seconds after it may list them, however long in ten minutes that was forbidden: a watchdog must
// release holds by ten seconds after their latest safe start.
func TestRightThatComesLate(t *testing.T) {
	for _, tc := range []struct {
		certain bool
		after   time.Duration
	}{{false, 8 * time.Second}, {false, 25 * time.Second}, {false, 3 * time.Minute}, {false, 9 * time.Minute}, {true, 8 * time.Second}} {
		certain := tc.certain
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			informers := newInformer(func(runtime.Object) bool { return true }, certain)
			start := func(from time.Time) toolscache.SharedIndexInformer {
				api := &toolscache.ListWatch{
					ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
						if time.Now().Before(from) {
							return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "", errors.New("not yet"))
						}
						return &batchv1.JobList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []batchv1.Job{{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}}}}, nil
					},
					WatchFuncWithContext: watchNothing,
				}
				informer := informers(api, &batchv1.Job{}, 0, nil)
				running.Go(func() { informer.RunWithContext(ctx) })
				return informer
			}
			start(time.Now())
			time.Sleep(time.Second)
			late := time.Now().Add(tc.after)
			informer := start(late)
			const soon = 10 * time.Second
			blind, known := false, time.Time{}
			for range 600 + int(tc.after/(100*time.Millisecond)) {
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				blind = blind || informer.HasSynced() && len(informer.GetStore().List()) == 0
				if known.IsZero() && len(informer.GetStore().List()) == 1 {
					known = time.Now()
				}
			}
			switch {
			case certain && (blind || known.IsZero()):
				t.Errorf("a certain informer was filled without objects: %v; it had them at %v", blind, known)
			case !certain && (!blind || known.IsZero() || known.Sub(late) > soon):
				t.Errorf("after %v, an informer was filled without objects: %v; it had them %v after it might list them", tc.after, blind, known.Sub(late))
			}
			cancel()
			running.Wait()
			time.Sleep(time.Minute)
		})
	}
}

// TestForbiddenNamespaceDelaysTheStartOnce: a namespace that is forbidden for good delays what a certain program starts first. What it starts
// later, such as the informers of a list in its first decision, is filled at once: by then all API servers know who has which rights.
func TestForbiddenNamespaceDelaysTheStartOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		informers := newInformer(func(runtime.Object) bool { return true }, true)
		start := func(allowed bool) toolscache.SharedIndexInformer {
			api := &toolscache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					if !allowed {
						return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "", errors.New("never"))
					}
					return &batchv1.JobList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil
				},
				WatchFuncWithContext: watchNothing,
			}
			informer := informers(api, &batchv1.Job{}, 0, nil)
			running.Go(func() { informer.RunWithContext(ctx) })
			return informer
		}
		filled := func(i toolscache.SharedIndexInformer) time.Duration {
			began := time.Now()
			for !i.HasSynced() && time.Since(began) < time.Hour {
				time.Sleep(100 * time.Millisecond)
			}
			return time.Since(began)
		}
		start(true)
		if took := filled(start(false)); took < forbiddenFor || took > time.Minute {
			t.Errorf("the first informer of a forbidden namespace was filled after %v, want %v and no more than a minute", took, forbiddenFor)
		}
		start(true) // as others in the same list
		time.Sleep(time.Second)
		for range 3 {
			if took := filled(start(false)); took > 3*time.Second {
				t.Errorf("a later informer of a forbidden namespace was filled after %v, want at once", took)
			}
		}
		cancel()
		running.Wait()
		time.Sleep(time.Minute)
	})
}

// watchNothing is the watch of an API server that does not stream lists, and on which nothing happens.
func watchNothing(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	}
	return watch.NewFake(), nil
}
