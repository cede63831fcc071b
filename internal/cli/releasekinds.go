package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
)

// releaseKinds releases all workloads of some kinds, and what waits in queues of Kueue if asked to, and takes them out of their
// policies: a controller that still has the rights does not hold them again. What refuses keeps no other from its release.
func releaseKinds(ctx context.Context, out io.Writer, c client.Client, names []string, queued bool) error {
	known, err := kube.HeldKinds(ctx, c)
	if known == nil {
		return err
	}
	goes := func(k *kinds.Kind) bool { return slices.Contains(names, k.Name) }
	for _, name := range names {
		if !slices.ContainsFunc(known, func(k *kinds.Kind) bool { return k.Name == name }) {
			return fmt.Errorf("--kinds: %q; accepted: %s", name, strings.Join(kindNames(known), ", "))
		}
	}
	var errs []error
	unbound := 0
	var going []*kinds.Kind
	for _, k := range known {
		if goes(k) {
			going = append(going, k)
			deleted, err := unbind(ctx, c, k)
			errs = append(errs, err)
			if deleted {
				unbound++
			}
		}
	}
	removed, err := removeWebhooks(ctx, c, going)
	errs = append(errs, err)
	if unbound > 0 || removed { // admission hears of it by a watch
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settle):
		}
	}
	marks := &kube.Marks{Reader: c, Page: 500, Governed: true}
	queues, err := kube.QueuesServed(ctx, c)
	if err != nil {
		errs = append(errs, fmt.Errorf("look for Kueue: %w", err))
	} else if queues == kube.Served {
		errs = append(errs, marks.ReadQueues(ctx, ""))
	}
	r := &releases{out: out, client: c, applier: &kube.Applier{Client: c, Recorder: &eventRecorder{ctx: ctx, client: c}}}
	for _, k := range known {
		if !goes(k) && !queued {
			continue
		}
		service, err := kube.ServiceOf(ctx, c, k)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case service == kube.Forbidden && goes(k):
			fmt.Fprintf(out, "%s may not be listed: it is not among the kinds of the present installation\n", k.Name)
		}
		if service != kube.Served {
			continue
		}
		governed, err := marks.Of(ctx, k, "")
		errs = append(errs, err)
		governed = slices.DeleteFunc(governed, func(w *kube.Workload) bool { return !goes(k) && w.Facts.Queue == "" })
		r.each(k, governed, func(w *kube.Workload) (bool, error) { return ungovern(ctx, c, r.applier, w) })
	}
	if queued && errors.Join(errs...) == nil {
		r.orphans(ctx, marks)
	}
	return errors.Join(append(errs, r.end())...)
}

// unbind deletes the binding of the admission policy that holds objects of a kind, and says whether there was one.
func unbind(ctx context.Context, c client.Client, k *kinds.Kind) (bool, error) {
	binding := kube.AdmissionPolicy(k)
	binding.SetKind("MutatingAdmissionPolicyBinding")
	err := c.Delete(ctx, binding)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete MutatingAdmissionPolicyBinding %s: %w", binding.GetName(), err)
	}
	return true, nil
}

// removeWebhooks is kube.RemoveWebhooks, again if somebody else has written at the same time.
func removeWebhooks(ctx context.Context, c client.Client, of []*kinds.Kind) (removed bool, err error) {
	if len(of) == 0 {
		return false, nil
	}
	for range 5 {
		if removed, err = kube.RemoveWebhooks(ctx, c, of); !apierrors.IsConflict(err) {
			break
		}
	}
	return removed, err
}

func kindNames(of []*kinds.Kind) (out []string) {
	for _, k := range of {
		out = append(out, k.Name)
	}
	return out
}
