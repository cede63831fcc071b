package failsafe

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/internal/base/metrics"
)

// fleetRole is what lets the watchdog list the Workloads of Kueue.
func fleetRole() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"})
	u.SetName("lull-failsafe-fleet")
	return u
}

// report says once, and in metrics and readiness for as long as it lasts, that a kind cannot be listed.
func (d *Watchdog) report(ctx context.Context, name string, regarding runtime.Object, problem error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.unlisted[name]
	if problem == nil {
		delete(d.unlisted, name)
		metrics.UnlistedKinds.DeleteLabelValues(name)
		return
	}
	if d.unlisted == nil {
		d.unlisted = map[string]string{}
	}
	d.unlisted[name] = problem.Error()
	metrics.UnlistedKinds.WithLabelValues(name).Set(1)
	if before != problem.Error() {
		log.FromContext(ctx).Error(problem, "Failed to list a kind: only the controller releases its holds", "kind", name)
		if !d.Options.Namespaces.Has(corev1.NamespaceDefault) {
			return // Events of what is cluster-wide are in that namespace
		}
		d.Applier.Recorder.Eventf(regarding, nil, corev1.EventTypeWarning, "KindNotListed", "List", "%s", problem.Error())
	}
}

// Check implements healthz.Checker: the watchdog is not ready while there is a kind that it cannot list.
func (d *Watchdog) Check(*http.Request) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, why := range d.unlisted {
		errs = append(errs, errors.New(why))
	}
	return errors.Join(errs...)
}

// mostErrors is how many errors of one kind are reported of one look.
const mostErrors = 10

func few(errs []error) error {
	if n := len(errs); n > mostErrors {
		errs = append(errs[:mostErrors], fmt.Errorf("and %d more", n-mostErrors))
	}
	return errors.Join(errs...)
}
