package failsafe

import (
	"context"
	"errors"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// unparkOrphans takes Lull's marks off Workloads of queues that have no known owner. It does that at their latest start. A Workload that
// states none is done at once if all objects are known. stay counts the Workloads that keep their marks.
func (d *Watchdog) unparkOrphans(ctx context.Context, orphans []*kueue.Workload, complete bool) (stay int, err error) {
	var errs []error
	for _, q := range orphans {
		at, err := time.Parse(time.RFC3339, q.Annotations[v1alpha1.AnnotationLatestStart])
		if err != nil && !complete || err == nil && d.Options.Clock.Now().Before(at.Add(d.Options.Grace)) {
			stay++
			continue
		}
		if err = d.Applier.UnparkOrphan(ctx, q); err == nil {
			d.tell(ctx, "Workload", q.Namespace, q.Name, "no policy governs its workload")
		}
		if err = ignoreRace(err); err != nil {
			errs, stay = append(errs, err), stay+1
		}
	}
	return stay, errors.Join(errs...)
}
