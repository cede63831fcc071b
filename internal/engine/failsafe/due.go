package failsafe

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
)

// policies are the CarbonPolicies and GridZones at one look.
type policies struct {
	now    time.Time
	system string // the namespace of Lull itself
	known  bool   // whether they could be read
	byName map[client.ObjectKey]*v1alpha1.CarbonPolicy
	zones  map[string]*v1alpha1.GridZone
	// longest is the longest delay that policies and workloads may ask for; 0 for any.
	longest time.Duration
	// dead says that the controller has not renewed its lease.
	dead bool
	// before is since when policies hold nothing as of the last look, lifted as of this one.
	before, lifted map[client.ObjectKey]time.Time
}

func (d *Watchdog) readPolicies(ctx context.Context) (*policies, error) {
	p := &policies{
		now: d.Options.Clock.Now(), system: d.Options.Namespace, longest: d.Options.MaxDelay, byName: map[client.ObjectKey]*v1alpha1.CarbonPolicy{}, zones: map[string]*v1alpha1.GridZone{},
		before: d.lifted, lifted: map[client.ObjectKey]time.Time{},
	}
	var list v1alpha1.CarbonPolicyList
	var zones v1alpha1.GridZoneList
	err := d.patiently(ctx, func(ctx context.Context) error {
		if err := d.Cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list CarbonPolicies: %w", err)
		}
		if err := d.Cache.List(ctx, &zones, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list GridZones: %w", err)
		}
		return nil
	})
	if err != nil {
		p.lifted = p.before
		return p, err
	}
	p.known = true
	for i := range list.Items {
		p.byName[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
	}
	for i := range zones.Items {
		p.zones[zones.Items[i].Name] = &zones.Items[i]
	}
	return p, nil
}

// hold is the hold of a workload.
type hold struct {
	workload *kube.Workload
	// ends is when it must run at the latest, and why.
	ends time.Time
	why  string
	// lifted says that its policy holds nothing any more. The policy may be being replaced, so the grace counts.
	lifted bool
	// orphan says that its policy is gone.
	orphan bool
}

func (p *policies) hold(w *kube.Workload) (hold, error) {
	at, why, err := p.due(w)
	key := client.ObjectKey{Namespace: w.Namespace(), Name: w.Annotations()[v1alpha1.AnnotationPolicy]}
	since, lifted := p.lifted[key]
	return hold{w, at, why, lifted && at.Equal(since), p.known && p.byName[key] == nil}, err
}

// due is when a workload must run at the latest, and why. A controller has written that down, from more than the
// watchdog knows: run times that were learned, progress. What has been edited since counts too, and a policy that
// holds nothing any more.
func (p *policies) due(w *kube.Workload) (time.Time, string, error) {
	if why := w.Excluded(p.system); why != "" {
		return w.Created(), "no policy may hold it: " + why, nil
	}
	written, err := time.Parse(time.RFC3339, w.LatestStart())
	has := err == nil
	byController := fmt.Sprintf("latest safe start %s has come, and the controller has not released it", written.Format(time.RFC3339))
	if !p.known {
		if !has {
			return time.Time{}, "", fmt.Errorf("its policy cannot be read, and no controller has written its latest safe start")
		}
		return written, byController, nil
	}
	key := client.ObjectKey{Namespace: w.Namespace(), Name: w.Annotations()[v1alpha1.AnnotationPolicy]}
	policy := p.byName[key]
	zone := &v1alpha1.GridZone{}
	if policy != nil && p.zones[policy.Spec.Zone] != nil {
		zone = p.zones[policy.Spec.Zone]
	}
	if why := holdsNothing(key.Name, policy, zone); why != "" {
		return p.since(key), why, nil
	}
	created := w.Created()
	if unreadable := w.Next.Err; unreadable != nil {
		if has { // by a controller that could read it
			return written, byController, nil
		}
		return created, fmt.Sprintf("no controller has seen it, and it may not wait: %v", unreadable), nil
	}
	tl, err := kube.ZoneTimeline(zone)
	if err != nil {
		return created, fmt.Sprintf("GridZone %s: %v", zone.Name, err), nil
	}
	grid, err := kube.LatestStart(w, &policy.Spec, p.longest, tl)
	if err != nil { // what nobody can read is not held
		return created, fmt.Sprintf("its annotations or its policy cannot be read: %v", err), nil
	}
	stated := tl.ToWall(grid)
	if !has {
		return stated, fmt.Sprintf("latest safe start %s has come, and no controller has seen it", stated.UTC().Format(time.RFC3339)), nil
	}
	before := written // what was stated when the controller wrote
	if at, err := time.Parse(time.RFC3339, w.Annotations()[v1alpha1.AnnotationStatedStart]); err == nil {
		before = at
	}
	if stated.Truncate(time.Second).Before(before) && stated.Before(written) {
		return stated, fmt.Sprintf("its annotations, its policy or the longest delay have been edited, latest safe start %s has come, and no controller has seen it", stated.UTC().Format(time.RFC3339)), nil
	}
	return written, byController, nil
}

// cronJobs are the CronJobs of all namespaces.
func (d *Watchdog) cronJobs(ctx context.Context) (out kube.CronJobs) {
	if now := d.Options.Clock.Now(); d.crons.at.IsZero() || now.Sub(d.crons.at) >= askAgain {
		service, err := kube.CronJobsServed(ctx, d.Client)
		if err != nil {
			return kube.CronJobs{Err: err}
		}
		d.crons = lookup{service, now}
	}
	if d.crons.service != kube.Served {
		return kube.CronJobs{Err: kube.CronJobsForbidden("watchdog")}
	}
	err := d.patiently(ctx, func(ctx context.Context) (err error) {
		out, err = kube.ListCronJobs(ctx, d.Cache, "")
		return err
	})
	out.Err = err
	return out
}

// holdsNothing says why a policy holds nothing; "" for one that may.
func holdsNothing(name string, policy *v1alpha1.CarbonPolicy, zone *v1alpha1.GridZone) string {
	switch {
	case policy == nil:
		return fmt.Sprintf("the CarbonPolicy %q that held it is gone", name)
	case policy.DeletionTimestamp != nil:
		return fmt.Sprintf("the CarbonPolicy %s is being deleted", name)
	case policy.Spec.Paused:
		return fmt.Sprintf("the CarbonPolicy %s is paused", name)
	case policy.Spec.Mode == v1alpha1.ModeShadow:
		return fmt.Sprintf("the CarbonPolicy %s is in Shadow mode", name)
	case zone.Spec.Paused:
		return fmt.Sprintf("the GridZone %s is paused", zone.Name)
	}
	return ""
}

// since is when a policy was first seen to hold nothing: an object that is replaced is back at the next look.
func (p *policies) since(key client.ObjectKey) time.Time {
	at, seen := p.before[key]
	if !seen {
		at = p.now
	}
	p.lifted[key] = at
	return at
}
