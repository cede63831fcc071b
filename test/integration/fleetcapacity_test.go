//go:build integration && fleet

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// clusterQueue is that of the lab.
func clusterQueue(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kueue.GroupVersion.WithKind("ClusterQueue"))
	must(t, env.client.Get(context.Background(), client.ObjectKey{Name: "lab"}, u))
	return u
}

// quota is what the lab's queue may give of CPUs.
func quota(t *testing.T) float64 {
	t.Helper()
	q, err := kueue.Quota(clusterQueue(t))
	must(t, err)
	return q["cpu"]
}

// setQuota edits the first quota of the lab's queue, as a person would.
func setQuota(t *testing.T, value string) {
	t.Helper()
	u := clusterQueue(t)
	groups, _, err := unstructured.NestedSlice(u.Object, "spec", "resourceGroups")
	must(t, err)
	res := groups[0].(map[string]any)["flavors"].([]any)[0].(map[string]any)["resources"].([]any)[0].(map[string]any)
	res["nominalQuota"] = value
	must(t, unstructured.SetNestedSlice(u.Object, groups, "spec", "resourceGroups"))
	must(t, env.client.Update(context.Background(), u))
}

// TestQueueCapacity: CarbonFlex over a queue of Kueue. It is carbon-agnostic until it has learned, sets
// the quota by what it has, scales workloads by it, knows what it has learned after a restart; what a
// person sets is left alone until it is handed back; in the end the quota is what it was.
func TestQueueCapacity(t *testing.T) {
	queueLab(t)
	controller := startController(t)
	hourly := make([]float64, 96)
	for h := range hourly {
		hourly[h] = 500
		if h%6 >= 4 {
			hourly[h] = 50
		}
	}
	b := newBed(t, hourly, noReserve(func(p *v1alpha1.CarbonPolicy) {
		hour := &metav1.Duration{Duration: time.Hour}
		p.Spec.Planner, p.Spec.Slot = v1alpha1.PlannerSpec{Name: "carbonflex"}, hour
		p.Spec.MinRun, p.Spec.MinPause = &metav1.Duration{}, &metav1.Duration{}
		p.Spec.StartMargin = &metav1.Duration{Duration: 6 * time.Hour} // 24 s, for Kueue on a slow machine
	}))
	must(t, env.client.Create(context.Background(), concave(b.ns)))
	b.inQueue()
	before := quota(t)
	if before != 32 {
		t.Fatalf("the lab's queue has %v CPUs, want 32", before)
	}
	minimum := v1alpha1.Amount("1")
	b.capacityCurve(v1alpha1.CapacityCurveSpec{
		Target: v1alpha1.CapacityTarget{ClusterQueue: "lab"}, Policies: []v1alpha1.PolicyReference{{Namespace: b.ns, Name: "clean"}},
		Maximum: v1alpha1.Amount("16"), Minimum: &minimum,
		Method: v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{Every: &metav1.Duration{Duration: 6 * time.Hour}, History: &metav1.Duration{Duration: 48 * time.Hour}}},
	})
	b.eventually("a cold start", func() bool {
		c := b.curve()
		return meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionCold) && c.Status.Capacity == 16 && quota(t) == 16
	})
	submitted := 0
	more := func(n int) {
		for range n {
			j := b.elasticJob(fmt.Sprintf("job-%d", submitted), 2, 4, map[string]string{v1alpha1.AnnotationMaxDelay: "16h", v1alpha1.AnnotationProfile: "concave"})
			j.Labels[kueue.LabelQueue] = "lab"
			b.submit(j)
			submitted++
		}
	}
	more(3)
	b.eventually("what has come to be learned from", func() bool {
		if submitted < 12 && b.gridTime(time.Now()).Sub(gridStart).Hours() > 2*float64(submitted) {
			more(1)
		}
		c := b.curve()
		return c.Status.CarbonFlex != nil && c.Status.CarbonFlex.Cases > 0 && meta.IsStatusConditionFalse(c.Status.Conditions, v1alpha1.ConditionCold)
	})
	more(4)
	low, high := 16.0, 0.0
	b.eventually("the quota to follow the grid", func() bool {
		c, q := b.curve(), quota(t)
		if c.Status.Slot.Time.Equal(b.curve().Status.Slot.Time) {
			low, high = min(low, q), max(high, q)
		}
		return low <= 8 && high > low
	})
	b.eventually("its reasons to be told", func() bool {
		out, err := exec.Command(os.Getenv("LULL_BIN"), "capacity", "explain", b.ns, "--kubeconfig", env.kubeconfig).CombinedOutput()
		return err == nil && strings.Contains(string(out), "hours alike") && strings.Contains(string(out), "carbonFlex wants")
	})

	learned := b.curve().Status.CarbonFlex
	must(t, controller.Process.Kill())
	_ = controller.Wait()
	startController(t)
	b.eventually("another controller to know as much", func() bool {
		c := b.curve()
		f := c.Status.CarbonFlex
		return f != nil && f.Cases > 0 && !f.LearnedAt.Before(learned.LearnedAt) && !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionCold)
	})

	setQuota(t, "7")
	b.eventually("what a person has set to be left alone", func() bool {
		return strings.Contains(says(b.curve(), v1alpha1.ConditionReady), "cpu is 7, set was") && meta.IsStatusConditionTrue(b.curve().Status.Conditions, v1alpha1.ConditionEditedByHand)
	})
	if q := quota(t); q != 7 {
		t.Errorf("a quota of %v, want the 7 that a person has set", q)
	}
	c := b.curve()
	changed := c.DeepCopy()
	changed.Spec.Maximum = "20"
	must(t, env.client.Patch(context.Background(), changed, client.MergeFrom(c)))
	b.eventually("it to be set again once the specification has changed", func() bool {
		c := b.curve()
		return quota(t) == c.Status.Capacity && meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady)
	})
	b.eventually("all to finish", func() bool {
		for i := range submitted {
			if !b.finished(fmt.Sprintf("job-%d", i)) {
				return false
			}
		}
		return true
	})
	for i := range submitted {
		j := b.get(fmt.Sprintf("job-%d", i))
		late := j.Status.CompletionTime.Sub(j.CreationTimestamp.Time) - (18+1)*time.Hour/factor
		if late > 0 {
			t.Errorf("%s ended %v after its deadline and an hour", j.Name, late*factor)
		}
	}
	must(t, env.client.Delete(context.Background(), b.curve()))
	b.eventually("the quota to be what it was", func() bool { return quota(t) == before })
	if mark, left := clusterQueue(t).GetAnnotations()[v1alpha1.AnnotationCapacity]; left {
		t.Errorf("the queue is left with the mark %s", mark)
	}
}

// TestQueueCapacityOfCohort: the quota that the queues of a cohort borrow from follows a schedule; Kueue
// never admits more than it.
func TestQueueCapacityOfCohort(t *testing.T) {
	queueLab(t)
	startController(t)
	ctx := context.Background()
	b := newBed(t, []float64{300}, noReserve(nil))
	object := func(kind, name string, spec map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetGroupVersionKind(kueue.GroupVersion.WithKind(kind))
		u.SetName(name)
		return u
	}
	groups := func(quota string) []any {
		flavor := map[string]any{"name": "default", "resources": []any{map[string]any{"name": "cpu", "nominalQuota": quota}}}
		return []any{map[string]any{"coveredResources": []any{"cpu"}, "flavors": []any{flavor}}}
	}
	cohort := object("Cohort", "shared", map[string]any{"resourceGroups": groups("20")})
	must(t, env.client.Create(ctx, cohort))
	must(t, env.client.Create(ctx, object("ClusterQueue", "borrower", map[string]any{"cohortName": "shared", "namespaceSelector": map[string]any{}, "resourceGroups": groups("0")})))
	local := object("LocalQueue", "borrower", map[string]any{"clusterQueue": "borrower"})
	local.SetNamespace(b.ns)
	must(t, env.client.Create(ctx, local))
	quota := func() float64 {
		must(t, env.client.Get(ctx, client.ObjectKeyFromObject(cohort), cohort))
		q, err := kueue.Quota(cohort)
		must(t, err)
		return q["cpu"]
	}
	minimum := v1alpha1.Amount("2")
	b.capacityCurve(v1alpha1.CapacityCurveSpec{
		Target: v1alpha1.CapacityTarget{Cohort: "shared"}, Maximum: v1alpha1.Amount("8"), Minimum: &minimum,
		Method: v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "10:00", To: "24:00", Capacity: v1alpha1.Amount("6")}}},
	})
	b.eventually("the least quota", func() bool { return quota() == 2 })
	// Nobody governs these but Kueue.
	const jobs = 8
	for i := range jobs {
		j := b.job(fmt.Sprintf("job-%d", i), nil)
		j.Labels = map[string]string{kueue.LabelQueue: "borrower"}
		j.Spec.Template.Annotations["lab.lull.dev/runtime"] = "30h"
		b.submit(j)
	}
	admitted := func() (n int) {
		for i := range jobs {
			if !b.suspended(fmt.Sprintf("job-%d", i)) {
				n++
			}
		}
		return n
	}
	most := 0
	b.eventually("Kueue to admit more at 10:00", func() bool {
		n := admitted() // before the capacity, which only rises until 24:00, 56 s later
		if b.curve().Status.Capacity == 2 {
			most = max(most, n)
		}
		return n == 6
	})
	if most != 2 || quota() != 6 {
		t.Errorf("%d were admitted of a quota of 2, and the quota is %v, want 6", most, quota())
	}
	must(t, env.client.Delete(ctx, b.curve()))
	b.eventually("the quota to be what it was", func() bool { return quota() == 20 })
	b.eventually("Kueue to admit all", func() bool { return admitted() == jobs })
}
