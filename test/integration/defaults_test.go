//go:build integration

package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// TestHookJobsRunAtOnce: hooks of Helm and Argo CD run at once, as does what is in kube-system, unless they name the policy.
// A hook that an earlier Lull holds is released.
func TestHookJobsRunAtOnce(t *testing.T) {
	startController(t)
	ctx := context.Background()
	b := newBed(t, dirtyLong(), nil)
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
	if older() == "" { // a webhook is never asked about kube-system
		b.eventually("the policy in kube-system to hold what names it", func() bool {
			return probe(long(v1alpha1.AnnotationGovernBy, "clean")).Annotations[v1alpha1.AnnotationHold] != ""
		})
	}
	if j := probe(long()); j.Annotations[v1alpha1.AnnotationPolicy] != "" || j.Spec.Suspend != nil && *j.Spec.Suspend {
		t.Errorf("a Job in kube-system is governed: %v", j.Annotations)
	}
}

// TestCronJobIsHeldUntilItsNextRun: a Job that the real controller of CronJobs creates is held, and must end by the next run. When runs begin and end
// is tested in test/controlloop, where time is virtual.
func TestCronJobIsHeldUntilItsNextRun(t *testing.T) {
	startController(t)
	ctx := context.Background()
	b := newBed(t, dirtyThenClean(), nil)
	template := b.job("forbid", map[string]string{v1alpha1.AnnotationMaxDelay: "90h"})
	must(t, env.client.Create(ctx, &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "forbid", Namespace: b.ns},
		Spec: batchv1.CronJobSpec{Schedule: "* * * * *", ConcurrencyPolicy: batchv1.ForbidConcurrent, JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec,
		}},
	}))
	b.eventually("a run of the CronJob that must end by the next", func() bool {
		var list batchv1.JobList
		must(t, env.client.List(ctx, &list, client.InNamespace(b.ns)))
		return slices.ContainsFunc(list.Items, func(j batchv1.Job) bool {
			return strings.Contains(j.Annotations[v1alpha1.AnnotationDecision], "the next run of CronJob forbid")
		})
	})
}
