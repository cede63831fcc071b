//go:build integration

package integration

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// TestHookJobs: hooks of Helm and Argo CD run at once, as does what is in kube-system, unless they name the policy.
// A hook that an earlier Lull holds is released.
func TestHookJobs(t *testing.T) {
	startController(t)
	ctx := context.Background()
	b := newBed(t, dirtyThenClean(), nil)
	long := func(more ...string) map[string]string {
		out := map[string]string{v1alpha1.AnnotationMaxDelay: "90h"}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	hooks := map[string]map[string]string{
		"helm": long("helm.sh/hook", "pre-upgrade"), "argo": long("argocd.argoproj.io/hook", "PreSync"), "wave": long("argocd.argoproj.io/sync-wave", "1"),
	}
	for name, annotations := range hooks {
		b.submit(b.job(name, annotations))
		if j := b.get(name); b.suspended(name) || j.Annotations[v1alpha1.AnnotationPolicy] != "" {
			t.Errorf("%s is governed: %v", name, j.Annotations)
		}
	}
	b.submit(b.job("by-name", long("helm.sh/hook", "pre-upgrade", v1alpha1.AnnotationGovernBy, "clean")))
	b.submit(b.job("other-policy", long(v1alpha1.AnnotationGovernBy, "another")))
	b.submit(b.job("held", long()))
	if !b.suspended("by-name") || b.suspended("other-policy") || !b.suspended("held") {
		t.Errorf("held: hook by name %v, of another policy %v, ordinary %v; want true, false, true", b.suspended("by-name"), b.suspended("other-policy"), b.suspended("held"))
	}
	must(t, env.client.Patch(ctx, b.get("held"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"helm.sh/hook":"pre-upgrade"}}}`))))
	b.eventually("the held hook to be released", func() bool { return !b.suspended("held") })
	if j := b.get("held"); b.decision("held") != "Excluded" || !strings.Contains(j.Annotations[v1alpha1.AnnotationDecision], v1alpha1.AnnotationGovernBy) || j.Annotations[v1alpha1.AnnotationHold] != "" {
		t.Errorf("released with %v", j.Annotations)
	}
	b.eventually("the hooks to finish", func() bool {
		return b.finished("helm") && b.finished("argo") && b.finished("wave") && b.finished("held")
	})
	if !b.suspended("by-name") {
		t.Error("the hook that names the policy was released")
	}

	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: "kube-system"}, Spec: v1alpha1.CarbonPolicySpec{
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "batch"}}, Zone: b.zone,
	}}
	must(t, env.client.Create(ctx, policy))
	t.Cleanup(func() { _ = env.client.Delete(ctx, policy) })
	probe := func(annotations map[string]string) *batchv1.Job {
		j := b.job("probe", annotations)
		j.Namespace = "kube-system"
		must(t, env.client.Create(ctx, j, client.DryRunAll))
		return j
	}
	b.eventually("the policy in kube-system to hold what names it", func() bool {
		return probe(long(v1alpha1.AnnotationGovernBy, "clean")).Annotations[v1alpha1.AnnotationHold] != ""
	})
	if j := probe(long()); j.Annotations[v1alpha1.AnnotationPolicy] != "" || j.Spec.Suspend != nil && *j.Spec.Suspend {
		t.Errorf("a Job in kube-system is governed: %v", j.Annotations)
	}
}

// cronJob makes a CronJob that runs each minute a Job of the bed, which says that it takes a run time.
func (b bed) cronJob(name string, policy batchv1.ConcurrencyPolicy, runtime string) {
	b.t.Helper()
	template := b.job(name, map[string]string{v1alpha1.AnnotationMaxDelay: "90h", v1alpha1.AnnotationRuntime: runtime})
	history := int32(20)
	must(b.t, env.client.Create(context.Background(), &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.ns},
		Spec: batchv1.CronJobSpec{Schedule: "* * * * *", ConcurrencyPolicy: policy, SuccessfulJobsHistoryLimit: &history, JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec,
		}},
	}))
}

// runsOf are the Jobs of a CronJob in the order of the times that they were made for.
func (b bed) runsOf(cron string) (jobs []batchv1.Job, at []time.Time) {
	b.t.Helper()
	var list batchv1.JobList
	must(b.t, env.client.List(context.Background(), &list, client.InNamespace(b.ns)))
	for _, j := range list.Items {
		if owner := metav1.GetControllerOf(&j); owner != nil && owner.Name == cron {
			jobs = append(jobs, j)
		}
	}
	scheduled := func(j batchv1.Job) time.Time {
		v, err := time.Parse(time.RFC3339, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
		must(b.t, err)
		return v
	}
	slices.SortFunc(jobs, func(x, y batchv1.Job) int { return scheduled(x).Compare(scheduled(y)) })
	for _, j := range jobs {
		at = append(at, scheduled(j))
	}
	return jobs, at
}

// inTime reports whether a CronJob has had n runs that ended, each before the next minute. It fails the test where
// a run was skipped, replaced or late, and where Lull did not govern it.
func (b bed) inTime(cron string, n int) bool {
	b.t.Helper()
	jobs, at := b.runsOf(cron)
	for i := range jobs {
		j := &jobs[i]
		if i > 0 && at[i].Sub(at[i-1]) != time.Minute {
			b.t.Fatalf("%s: no run between %v and %v", cron, at[i-1], at[i])
		}
		if j.Annotations[v1alpha1.AnnotationPolicy] == "" {
			b.t.Fatalf("%s: run %s is not governed", cron, j.Name)
		}
		if done := j.Status.CompletionTime; done != nil && !done.Time.Before(at[i].Add(time.Minute)) {
			b.t.Fatalf("%s: run %s ended at %v", cron, j.Name, done)
		}
		if j.Status.CompletionTime == nil {
			if time.Now().After(at[i].Add(90 * time.Second)) {
				b.t.Fatalf("%s: run %s has not ended: %v", cron, j.Name, j.Annotations)
			}
			return false
		}
	}
	return len(jobs) >= n
}

// TestCronJobs: each run of a CronJob that forbids two runs, or replaces one by the next, waits and ends before the
// next run. One of which the run time leaves no room runs at once, and says why. One that allows several waits on.
func TestCronJobs(t *testing.T) {
	startController(t)
	falling := make([]float64, 96) // it is always cleaner later
	for h := range falling {
		falling[h] = float64(1000 - 10*h)
	}
	b := newBed(t, falling, nil)
	b.cronJob("forbid", batchv1.ForbidConcurrent, "1h")
	b.cronJob("replace", batchv1.ReplaceConcurrent, "1h")
	b.cronJob("allow", batchv1.AllowConcurrent, "1h")
	b.cronJob("long", batchv1.ForbidConcurrent, "20h") // 80 s
	b.eventually("two runs of each", func() bool { return b.inTime("forbid", 2) && b.inTime("replace", 2) && b.inTime("long", 2) })
	for _, cron := range []string{"forbid", "replace", "long"} {
		jobs, at := b.runsOf(cron)
		// A suspended Job has no start time.
		if waited := jobs[0].Status.StartTime.Sub(at[0]); (waited > 10*time.Second) != (cron != "long") {
			t.Errorf("%s: waited %v", cron, waited)
		}
		if text := jobs[0].Annotations[v1alpha1.AnnotationDecision]; !strings.Contains(text, "the next run of CronJob "+cron) {
			t.Errorf("%s: %s", cron, text)
		}
	}
	if jobs, _ := b.runsOf("allow"); len(jobs) < 2 || !*jobs[0].Spec.Suspend {
		t.Errorf("allow: of %d runs the first is held no more", len(jobs))
	}
}

// TestCronJobsFailsafe: with no controller at all, the watchdog releases a run in time for the next.
func TestCronJobsFailsafe(t *testing.T) {
	start(t, []string{"failsafe", "--kubeconfig", env.failsafe, "--grace", "0s", "--every", "200ms"})
	b := newBed(t, dirtyThenClean(), nil)
	b.cronJob("forbid", batchv1.ForbidConcurrent, "1h")
	b.eventually("a run", func() bool { jobs, _ := b.runsOf("forbid"); return len(jobs) > 0 })
	if jobs, _ := b.runsOf("forbid"); len(jobs) == 1 && !*jobs[0].Spec.Suspend {
		t.Errorf("the first run is not held: %v", jobs[0].Annotations)
	}
	b.eventually("a run that has ended", func() bool { return b.inTime("forbid", 1) })
}
