package failsafe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A controller that lives renews its lease every few seconds. Once its lease has run out, the watchdog releases holds without grace, and
// begins early where many holds end together.

// controllerLease names the lease of the controller.
const controllerLease = "controller.lull.dev"

// ControllerLease follows the lease of the controller. The times in a lease are from another clock, so the watchdog only uses when it sees
// a change.
type ControllerLease struct {
	// Reader reads it from the API server.
	Reader client.Reader
	// Namespace is that of the lease.
	Namespace string

	version string
	since   time.Time
	// renewed says that a controller has renewed it under the eyes of this watchdog.
	renewed bool
}

// leaseDuration is for how long a lease of the controller holds. A controller that ends by itself leaves one of a second: another follows it.
const leaseDuration = 15 * time.Second

// dead reports whether the controller has stopped to renew its lease. A controller without leader election renews none, and is never
// reported dead. While the API server does not answer, nothing is reported.
func (l *ControllerLease) dead(ctx context.Context, now time.Time) (bool, error) {
	if l == nil {
		return false, nil
	}
	var lease coordinationv1.Lease
	err := l.Reader.Get(ctx, types.NamespacedName{Namespace: l.Namespace, Name: controllerLease}, &lease)
	switch {
	case apierrors.IsNotFound(err):
		l.version, l.renewed = "", false
		return false, nil
	case err != nil:
		l.version = ""
		return false, fmt.Errorf("read the lease of the controller: %w", err)
	}
	if lease.ResourceVersion != l.version {
		l.renewed = l.renewed || l.version != ""
		l.version, l.since = lease.ResourceVersion, now
	}
	return l.renewed && now.Sub(l.since) > leaseDuration, nil
}

// releasesPerSecond is how many releases a second the watchdog counts on at most, when it begins early: a small API server does more.
const releasesPerSecond = 50

// rate is how many releases a second the API server does.
type rate struct {
	mu        sync.Mutex
	perSecond float64 // as measured last; 0 before that
	at        time.Time
	counts    time.Duration // from at on
}

// fewestMeasured is how many releases at a time are measured at least: a few say nothing of thousands.
const fewestMeasured = 4 * atOnce

const (
	// measuredFor is how long a measurement counts: what made an API server slow ends, and what comes each day is known from the day before.
	measuredFor = 25 * time.Hour
	// outageFor is the same of a measurement in which the API server did not make releases in time: an outage of some seconds would otherwise have a day's holds
	// released hours early.
	outageFor = time.Hour
)

// measure notes how long it took to make some releases, until now, and to wait for others that the API server did not make in time.
func (r *rate) measure(made, tooSlow int, took time.Duration, now time.Time) {
	if made+tooSlow < fewestMeasured || took <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.perSecond, r.at, r.counts = max(1, float64(made))/took.Seconds(), now, measuredFor
	if tooSlow > 0 {
		r.counts = outageFor
	}
}

// tookTooLong reports whether an error says that the API server does not keep up.
func tookTooLong(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}

// counted is how many releases a second the watchdog counts on now: half of what was measured last, if that is not old, releasesPerSecond at most, and one at least.
func (r *rate) counted(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.perSecond == 0 || now.Sub(r.at) >= r.counts {
		return releasesPerSecond
	}
	return max(1, min(releasesPerSecond, r.perSecond/2))
}

// cutoff returns the time up to which the watchdog releases holds now, in place of a dead controller. ends are when the holds of one kind
// end. Holds that have ended are released now. So are later ones, if at the next look there would not be enough time left to release all of
// them by their ends, at so many a second.
//
// Complexity: O(n log n).
func cutoff(ends []time.Time, now time.Time, every time.Duration, perSecond float64) time.Time {
	slices.SortFunc(ends, time.Time.Compare)
	out := now
	for k, end := range ends {
		takes := time.Duration(float64(k+1) / perSecond * float64(time.Second))
		if end.After(now) && end.Add(-takes).Before(now.Add(every)) {
			out = end
		}
	}
	return out
}
