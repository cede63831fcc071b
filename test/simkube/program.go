package simkube

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"lull.dev/lull/internal/cli"
	"lull.dev/lull/internal/cluster/manager"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/internal/engine/failsafe"
)

// Grace and Every are the watchdog's own defaults.
const (
	Grace = 30 * time.Second
	Every = 5 * time.Second
)

// Program is a process of Lull.
type Program struct {
	*Process
	ended chan struct{}
}

// Wait waits until the program has ended.
func (p *Program) Wait() { <-p.ended }

// Controller starts a controller. The changes are made to the options of the binary's defaults.
func (w *World) Controller(changes ...func(*controller.Options)) *Program {
	o := controller.Options{Metrics: manager.Metrics{Address: "0"}, HealthAddress: "0", Namespace: "lull-system", Namespaces: w.Namespaces, Planner: cli.NewPlanner, Clock: realClock, LeaderElection: w.Leaders}
	o.Limits = controller.Limits{Planners: cli.PolicyPlanners(), DecisionTime: 10 * time.Second}
	for _, change := range changes {
		change(&o)
	}
	return w.Start("controller", func(ctx context.Context, config *rest.Config) error { return controller.Run(ctx, config, o) })
}

// Watchdog starts a watchdog.
func (w *World) Watchdog(changes ...func(*failsafe.Options)) *Program {
	o := failsafe.Options{Metrics: manager.Metrics{Address: "0"}, HealthAddress: "0", Namespace: "lull-system", Namespaces: w.Namespaces, Grace: Grace, Every: Every, Clock: realClock, LeaderElection: w.Leaders}
	for _, change := range changes {
		change(&o)
	}
	return w.Start("failsafe", func(ctx context.Context, config *rest.Config) error {
		scheme, err := controller.NewScheme()
		if err != nil {
			return err
		}
		return failsafe.Run(ctx, config, scheme, o)
	})
}

// Start starts a program with a connection of its own, and the rights of its service account, lull-NAME. It is a violation that it ends by itself with an error, unless
// there are faults.
func (w *World) Start(name string, run func(ctx context.Context, config *rest.Config) error) *Program {
	w.mu.Lock()
	w.started[name]++
	account := name
	name = fmt.Sprintf("%s-%d", name, w.started[name])
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(w.ctx)
	p := &Program{
		Process: &Process{Name: name, Account: "lull-" + account, Forbidden: func(what, namespace string) { w.forbidden(name, what, namespace) }, Store: w.Store, Faults: w.Faults, Seed: w.Seed, Killed: cancel, Down: w.Down, Hangs: w.hanging, Calm: w.calm.Load, Webhooks: w.Webhooks, Second: w.Second},
		ended:   make(chan struct{}),
	}
	w.Go(func() {
		defer close(p.ended)
		defer cancel()
		err := run(ctx, p.Config())
		if err != nil && ctx.Err() == nil && w.Faults == (Faults{Lag: w.Faults.Lag, Latency: w.Faults.Latency}) && len(w.outages) == 0 {
			w.Violate("%s ended without a fault: %v", name, err)
		}
	})
	return p
}

// forbidden records that a program may not do something, except where its rights have been taken away.
func (w *World) forbidden(program, what, namespace string) {
	if !w.Store.rights.isRevoked(namespace) {
		w.Violate("%s may not %s", program, what)
	}
}

// Command runs a command of Lull that reads or changes a cluster once, as an administrator, and returns what it prints and
// its error. Its calls take time, and none fails.
func (w *World) Command(args ...string) (string, error) { return w.CommandAs("", args...) }

// CommandAs is Command with the rights of a service account of Lull's namespace; empty for all rights.
func (w *World) CommandAs(account string, args ...string) (string, error) {
	w.mu.Lock()
	w.started["command"]++
	name := fmt.Sprintf("command-%d", w.started["command"])
	w.mu.Unlock()
	process := &Process{Name: name, Account: account, Forbidden: func(what, namespace string) { w.forbidden(name, what, namespace) }, Store: w.Store, Faults: Typical, Seed: w.Seed, Hangs: w.hanging}
	var out strings.Builder
	err := cli.RunOn(w.ctx, process.Config(), args, &out, &out)
	return out.String(), err
}

// Kill ends the program: no call of it has an effect from now on. It returns when the program has ended.
func (p *Program) Kill() {
	p.Process.Kill()
	p.Wait()
}

// Keep runs a program until the world ends, and starts it again some seconds after it has ended, as a kubelet does.
func (w *World) Keep(start func() *Program) {
	w.Go(func() {
		for w.ctx.Err() == nil {
			start().Wait()
			w.Sleep(10 * time.Second)
		}
	})
}

// others is what of a Job is not Lull's to change.
func others(u *unstructured.Unstructured) map[string]any {
	x := u.DeepCopy()
	for _, f := range []string{"suspend", "parallelism", "completions"} {
		unstructured.RemoveNestedField(x.Object, "spec", f)
	}
	a := x.GetAnnotations()
	for k := range a {
		if strings.HasPrefix(k, "lull.dev/") {
			delete(a, k)
		}
	}
	x.SetAnnotations(a)
	for _, f := range []string{"resourceVersion", "generation", "managedFields"} {
		unstructured.RemoveNestedField(x.Object, "metadata", f)
	}
	return x.Object
}

// Finished reports whether a Job is done, and when.
func Finished(job *batchv1.Job) (time.Time, bool) {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			return job.Status.CompletionTime.Time, true
		}
	}
	return time.Time{}, false
}
