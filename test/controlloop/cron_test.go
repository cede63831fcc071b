package controlloop

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

// every is the time between two runs of a CronJob of these tests: twelve hours of the series.
const every = 12 * time.Minute

// cronJob makes a CronJob of Jobs of one hour of the series, which say that they take a run time.
func (b *bed) cronJob(name string, policy batchv1.ConcurrencyPolicy, runtime string) {
	b.t.Helper()
	template := b.job(name, map[string]string{v1alpha1.AnnotationMaxDelay: "90h", v1alpha1.AnnotationRuntime: runtime})
	b.Create(&batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.ns},
		Spec: batchv1.CronJobSpec{Schedule: "*/12 * * * *", ConcurrencyPolicy: policy, JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec,
		}},
	})
}

// runsOf are the Jobs of a CronJob that are there, in the order of the times that they were made for.
func (b *bed) runsOf(cron string) []batchv1.Job {
	b.t.Helper()
	var list batchv1.JobList
	b.must(b.Client.List(b.Context(), &list, client.InNamespace(b.ns)))
	list.Items = slices.DeleteFunc(list.Items, func(j batchv1.Job) bool {
		owner := metav1.GetControllerOf(&j)
		return owner == nil || owner.Name != cron
	})
	slices.SortFunc(list.Items, func(x, y batchv1.Job) int { return b.scheduled(&x).Compare(b.scheduled(&y)) })
	return list.Items
}

// scheduled is the time that a run was made for.
func (b *bed) scheduled(j *batchv1.Job) time.Time {
	b.t.Helper()
	v, err := time.Parse(time.RFC3339, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	b.must(err)
	return v
}

// inTime checks that no run of a CronJob was skipped or replaced: each has ended before the next. It checks that Lull governs
// each, and that each began so long after its time, to a few minutes of the series.
func (b *bed) inTime(cron string, n int, waits time.Duration) {
	b.t.Helper()
	runs := b.runsOf(cron)
	if len(runs) != n {
		b.t.Fatalf("%s: %d runs, want %d", cron, len(runs), n)
	}
	for i := range runs {
		j := &runs[i]
		due := b.scheduled(j)
		if i > 0 && due.Sub(b.scheduled(&runs[i-1])) != every {
			b.t.Errorf("%s: no run between %v and %v", cron, b.scheduled(&runs[i-1]), due)
		}
		if j.Annotations[v1alpha1.AnnotationPolicy] == "" {
			b.t.Errorf("%s: run %s is not governed", cron, j.Name)
		}
		if i == n-1 { // it has only begun
			continue
		}
		if end, done := simkube.Finished(j); !done || !end.Before(due.Add(every)) {
			b.t.Errorf("%s: run %s ended at %v, want before %v", cron, j.Name, end, due.Add(every))
			continue
		}
		if waited := factor * j.Status.StartTime.Sub(due); waited < waits-3*minute || waited > waits+3*minute {
			b.t.Errorf("%s: run %s waited %v of the series, want %v", cron, j.Name, waited, waits)
		}
	}
}

// TestCronJobRunsEndBeforeTheNext: each run of a CronJob that forbids two runs, or replaces one by the next, waits and ends before the
// next run. A run that takes too long for that is released at once, with the reason. A CronJob that allows several runs is held as other Jobs are.
func TestCronJobRunsEndBeforeTheNext(t *testing.T) {
	followsEveryPlan := func(p *v1alpha1.CarbonPolicy) { p.Spec.MinSaving = new(0.0) }
	onBed(t, falling(), followsEveryPlan, func(b *bed) {
		b.Controller()
		b.cronJob("forbid", batchv1.ForbidConcurrent, "1h")
		b.cronJob("replace", batchv1.ReplaceConcurrent, "1h")
		b.cronJob("allow", batchv1.AllowConcurrent, "1h")
		b.cronJob("long", batchv1.ForbidConcurrent, "14h")
		b.Run(4*every + time.Second)     // three runs of each, and the fourth has begun
		last := 10*time.Hour + 55*minute // the last five minutes that leave an hour and the margin of the policy before the next run
		b.inTime("forbid", 4, last)
		b.inTime("replace", 4, last)
		b.inTime("long", 4, 0)
		for _, cron := range []string{"forbid", "replace", "long"} {
			if text := b.runsOf(cron)[0].Annotations[v1alpha1.AnnotationDecision]; !strings.Contains(text, "the next run of CronJob "+cron) {
				t.Errorf("%s: %s", cron, text)
			}
		}
		if runs := b.runsOf("allow"); len(runs) != 4 || !*runs[0].Spec.Suspend {
			t.Errorf("allow: of %d runs the first is held no more", len(runs))
		}
	})
}

// TestCronJobsFailsafe: with no controller at all, the watchdog releases each run in time for the next.
func TestCronJobsFailsafe(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		b.Watchdog(quickWatchdog)
		b.cronJob("forbid", batchv1.ForbidConcurrent, "1h")
		b.Run(every + time.Second)
		if runs := b.runsOf("forbid"); len(runs) != 1 || !*runs[0].Spec.Suspend {
			t.Fatalf("of %d runs the first is not held", len(runs))
		}
		b.Run(2 * every)
		b.inTime("forbid", 3, 11*time.Hour-5*minute) // an hour and the margin before the next run
	})
}

// TestCronJobsWithoutLull shows that inTime can fail: nobody releases what admission holds, and the runs after the first
// are skipped.
func TestCronJobsWithoutLull(t *testing.T) {
	onBed(t, falling(), nil, func(b *bed) {
		b.cronJob("forbid", batchv1.ForbidConcurrent, "1h")
		b.cronJob("replace", batchv1.ReplaceConcurrent, "1h")
		b.Run(3*every + time.Second)
		if runs := b.runsOf("forbid"); len(runs) != 1 || b.scheduled(&runs[0]).Sub(b.Began) != every {
			t.Errorf("forbid: %d runs, want the first only", len(runs))
		}
		if runs := b.runsOf("replace"); len(runs) != 1 || b.scheduled(&runs[0]).Sub(b.Began) != 3*every {
			t.Errorf("replace: %d runs, want the last only", len(runs))
		}
	})
}

// falling is always cleaner later.
func falling() []float64 {
	out := make([]float64, 96)
	for h := range out {
		out[h] = float64(1000 - 10*h)
	}
	return out
}
