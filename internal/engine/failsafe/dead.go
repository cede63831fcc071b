package failsafe

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A controller that lives renews its lease every few seconds. Once its lease has run out, the watchdog leaves it no more grace, and
// begins early where many holds end together.

// controllerLease names the lease of the controller.
const controllerLease = "controller.lull.dev"

// ControllerLease follows the lease of the controller. Times in the lease are of another clock, so that only changes of it count.
type ControllerLease struct {
	// Reader reads it from the API server.
	Reader client.Reader
	// Namespace is that of the lease.
	Namespace string

	version string
	since   time.Time
}

// dead reports whether the lease has not changed for as long as it holds. A controller without a lease (--leader-elect=false) is never
// taken for dead, and no controller is while the API server does not answer.
func (l *ControllerLease) dead(ctx context.Context, now time.Time) (bool, error) {
	if l == nil {
		return false, nil
	}
	var lease coordinationv1.Lease
	err := l.Reader.Get(ctx, types.NamespacedName{Namespace: l.Namespace, Name: controllerLease}, &lease)
	if err != nil || lease.Spec.LeaseDurationSeconds == nil {
		l.version = ""
		if apierrors.IsNotFound(err) {
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("read the lease of the controller: %w", err)
		}
		return false, err
	}
	if lease.ResourceVersion != l.version {
		l.version, l.since = lease.ResourceVersion, now
	}
	return now.Sub(l.since) > time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second, nil
}

// releasesPerSecond is how many releases a second the watchdog counts on, when it begins early: a small API server does more.
const releasesPerSecond = 50

// cutoff is until when holds are released that end at some times, while no controller does: those that have ended, and as many of the next
// as take too long to wait for them, so that all are released by their ends.
//
// Complexity: O(n log n).
func cutoff(ends []time.Time, now time.Time, every time.Duration) time.Time {
	slices.SortFunc(ends, time.Time.Compare)
	out := now
	for k, end := range ends {
		takes := time.Duration(k+1) * time.Second / releasesPerSecond
		if end.After(now) && end.Add(-takes).Before(now.Add(every)) {
			out = end
		}
	}
	return out
}
