package manager

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The programs that hold a lease while they work.
const (
	Controller = "controller"
	Failsafe   = "failsafe"
)

// ReadLease says who holds the lease of a program in a namespace, and for how long nobody has renewed it. Works is false if
// nobody holds the lease, or if it has not been renewed for longer than it lasts. Without a lease ReadLease cannot tell: the message
// says so, and works is true.
func ReadLease(ctx context.Context, r client.Reader, namespace, program string, now time.Time) (message string, works bool, err error) {
	var lease coordinationv1.Lease
	err = r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: program + ".lull.dev"}, &lease)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("no lease in namespace %s: not installed, or without --leader-elect, or elsewhere (--system-namespace)", namespace), true, nil
	case err != nil:
		return "", false, fmt.Errorf("read the lease of the %s: %w", program, err)
	case lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil:
		return "no process holds the lease", false, nil
	}
	age := now.Sub(lease.Spec.RenewTime.Time).Round(time.Second)
	if d := lease.Spec.LeaseDurationSeconds; d != nil && age > time.Duration(*d)*time.Second {
		return fmt.Sprintf("silent for %v (%s)", age, *lease.Spec.HolderIdentity), false, nil
	}
	return fmt.Sprintf("at work (%s)", *lease.Spec.HolderIdentity), true, nil
}
