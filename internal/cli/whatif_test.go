package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
)

// TestExplainSaysWhoReleased: after lull release, lull explain says who has released the workload and when, and how
// the policy governs it again; of a finished one there is nothing to do.
func TestExplainSaysWhoReleased(t *testing.T) {
	ctx := t.Context()
	job := jobKind(t)
	for _, finished := range []bool{false, true} {
		held := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team-a", Annotations: map[string]string{v1alpha1.AnnotationPolicy: "batch", v1alpha1.AnnotationHold: v1alpha1.HoldAdmission}},
			Spec:       batchv1.JobSpec{Suspend: new(true)},
		}
		if finished {
			held.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
		c := clusterOf(t, held)
		fetch := func() *kube.Workload {
			w, err := kube.Fetch(ctx, c, job, client.ObjectKeyFromObject(held))
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		var out bytes.Buffer
		before := time.Now().UTC()
		if err := releaseOne(ctx, &out, c, fetch()); err != nil {
			t.Fatal(err)
		}
		after := time.Now().UTC() // perhaps on the next day
		out.Reset()
		if err := explainWorkload(ctx, &out, c, fetch(), formatText); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, want := range []string{"Job team-a/train, not governed: it was released by an operator (lull release)", "CarbonPolicy batch at "} {
			if !strings.Contains(text, want) {
				t.Errorf("finished %v: lacks %q: %s", finished, want, text)
			}
		}
		if !strings.Contains(text, before.Format(time.DateOnly)) && !strings.Contains(text, after.Format(time.DateOnly)) {
			t.Errorf("finished %v: lacks the day %s: %s", finished, before.Format(time.DateOnly), text)
		}
		if again := strings.Contains(text, "kubectl annotate job/train -n team-a lull.dev/policy=batch"); again == finished {
			t.Errorf("finished %v: %s", finished, text)
		}
		again := fetch().Objects[0]
		again.SetAnnotations(map[string]string{v1alpha1.AnnotationPolicy: "batch", v1alpha1.AnnotationDecision: again.GetAnnotations()[v1alpha1.AnnotationDecision]})
		if err := c.Update(ctx, again); err != nil {
			t.Fatal(err)
		}
		if err := explainWorkload(ctx, &out, c, fetch(), formatText); err != nil || !strings.Contains(out.String(), "CarbonPolicy batch is not there") {
			t.Errorf("governed again: %v\n%s", err, out.String())
		}
	}
}

// TestExplainNamesMisspeltAnnotations: of a workload that is governed, and of one that is not.
func TestExplainNamesMisspeltAnnotations(t *testing.T) {
	job := jobKind(t)
	const want = "annotation lull.dev/max-dealy is unknown and has no effect; the nearest is lull.dev/max-delay"
	w := func(annotations map[string]any) *kube.Workload {
		return kube.NewWorkload(job, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "train", "namespace": "n", "annotations": annotations},
		}})
	}
	if _, err := gather(t.Context(), clusterOf(t), w(map[string]any{"lull.dev/max-dealy": "6h"})); err == nil || !strings.Contains(err.Error(), "is not governed") || !strings.Contains(err.Error(), want) {
		t.Errorf("not governed: %v", err)
	}
	var out bytes.Buffer
	x := &explanation{w: w(map[string]any{"lull.dev/max-dealy": "6h", v1alpha1.AnnotationPolicy: "clean"})}
	x.w.Facts.Finished = true
	if err := x.write(t.Context(), &out, time.Now()); err != nil || !strings.Contains(out.String(), "warning: "+want+"\n") {
		t.Errorf("governed: %v\n%s", err, out.String())
	}
}

// TestExplainNamesTheReserve: the reserve is named where it may be why a workload waits.
func TestExplainNamesTheReserve(t *testing.T) {
	learned := &v1alpha1.ReserveStatus{Share: 0.43, ObservedUntil: &metav1.Time{Time: time.Now()}, HourlyPeaks: []int32{0, 430, 0}}
	for name, tc := range map[string]struct {
		reserve *v1alpha1.ReserveStatus
		state   v1alpha1.PlanState
		reason  string
		want    string
	}{
		"learned, waits beside it": {learned, v1alpha1.PlanWaiting, "SharedCapacity", "plans keep 43 % of the capacity free for work that cannot wait (learned from 3 of the last 168 hours; spec.planner.parameters.reserve of the policy states another share); this workload waits for room outside the reserve"},
		"stated, waits":            {&v1alpha1.ReserveStatus{Share: 0.2}, v1alpha1.PlanPaused, "CleanerLater", "plans keep 20 % of the capacity free for work that cannot wait (stated by spec.planner.parameters.reserve of the policy)\n"},
		"runs":                     {learned, v1alpha1.PlanRunning, "CleanNow", ""},
		"none is kept":             {nil, v1alpha1.PlanWaiting, "SharedCapacity", ""},
		"it is 0":                  {&v1alpha1.ReserveStatus{}, v1alpha1.PlanWaiting, "SharedCapacity", ""},
	} {
		x := &explanation{plan: &v1alpha1.CarbonPlan{Status: v1alpha1.CarbonPlanStatus{State: tc.state, Reason: tc.reason}}}
		x.policy.Status.Reserve = tc.reserve
		var out bytes.Buffer
		x.writePlan(&out)
		if got := strings.Contains(out.String(), "reserve "); got != (tc.want != "") || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}

// TestExplainNamesTheHook: a hook that no policy governs is explained by what it is, not by the lack of a policy.
func TestExplainNamesTheHook(t *testing.T) {
	ctx := t.Context()
	job := jobKind(t)
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"hook":           {map[string]string{"helm.sh/hook": "pre-upgrade"}, "it is a hook of Helm (helm.sh/hook). One that is created with the name of its CarbonPolicy in the annotation lull.dev/govern-by is"},
		"another policy": {map[string]string{v1alpha1.AnnotationGovernBy: "green"}, `it asks for the CarbonPolicy "green"`},
		"neither":        {nil, "no CarbonPolicy of its namespace selected it"},
	} {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "team-a", Annotations: tc.annotations}}
		c := clusterOf(t, j)
		w, err := kube.Fetch(ctx, c, job, client.ObjectKeyFromObject(j))
		if err != nil {
			t.Fatal(err)
		}
		if err := explainWorkload(ctx, &bytes.Buffer{}, c, w, formatText); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestExplainWithoutPolicyOrZone: a workload whose policy or zone is gone is explained by what stands on it and in its plan; one that was released
// says why, and not only that it runs.
func TestExplainWithoutPolicyOrZone(t *testing.T) {
	job := jobKind(t)
	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}, Spec: v1alpha1.CarbonPolicySpec{Zone: "z"}}
	zone := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "z"}}
	for name, tc := range map[string]struct {
		there []client.Object
		want  string
	}{
		"no policy":       {nil, "CarbonPolicy p is not there"},
		"no zone":         {[]client.Object{policy}, "GridZone z, which CarbonPolicy p names, is not there"},
		"nothing is gone": {[]client.Object{policy, zone}, "governed by CarbonPolicy p"},
	} {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "a", Annotations: map[string]string{
			v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationDecision: `{"verb":"Release","reason":"ZoneUnknown","message":"nothing is known of its zone","at":"2026-03-01T12:00:00Z"}`,
		}}}
		w0 := kube.NewWorkload(job, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "a", "namespace": "n", "uid": "a"}}})
		p := &v1alpha1.CarbonPlan{ObjectMeta: metav1.ObjectMeta{Name: kube.PlanName(w0), Namespace: "n"}, Status: v1alpha1.CarbonPlanStatus{State: v1alpha1.PlanRunning, Message: "running", Reason: "Running"}}
		c := clusterOf(t, append(tc.there, j, p)...)
		w, err := kube.Fetch(t.Context(), c, job, client.ObjectKeyFromObject(j))
		if err != nil {
			t.Fatal(err)
		}
		w.Facts.Finished = name == "nothing is gone" // there is nothing to decide otherwise
		var out bytes.Buffer
		if err := explainWorkload(t.Context(), &out, c, w, formatText); err != nil || !strings.Contains(out.String(), tc.want) ||
			!strings.Contains(out.String(), "Release at 2026-03-01T12:00:00Z: nothing is known of its zone (ZoneUnknown)") {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// TestExplainSuspendedByUser: a Job that its user has suspended after Lull released it is explained as that, and not by the plan of when it ran.
func TestExplainSuspendedByUser(t *testing.T) {
	job := jobKind(t)
	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}, Spec: v1alpha1.CarbonPolicySpec{Zone: "z"}}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "a", Annotations: map[string]string{
		v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationDecision: `{"verb":"Release","reason":"CleanNow","message":"power is clean now","at":"2026-03-01T12:00:00Z"}`,
	}}, Spec: batchv1.JobSpec{Suspend: new(true)}}
	w := kube.NewWorkload(job, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "a", "namespace": "n", "uid": "a"}}})
	plan := &v1alpha1.CarbonPlan{ObjectMeta: metav1.ObjectMeta{Name: kube.PlanName(w), Namespace: "n"}, Status: v1alpha1.CarbonPlanStatus{State: v1alpha1.PlanRunning, Message: "no pods", Reason: "Unscheduled"}}
	c := clusterOf(t, policy, &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "z"}}, j, plan)
	w, err := kube.Fetch(t.Context(), c, job, client.ObjectKeyFromObject(j))
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{formatText, formatJSON} {
		var out bytes.Buffer
		if err := explainWorkload(t.Context(), &out, c, w, format); err != nil || !strings.Contains(out.String(), "it is suspended, and not by Lull") ||
			!strings.Contains(out.String(), "power is clean now") || strings.Contains(out.String(), "Unscheduled") || strings.Contains(out.String(), "no plan yet") {
			t.Errorf("%s: %v\n%s", format, err, out.String())
		}
	}
}

// TestExplainCronJob: what would change a Job of a CronJob is found with the next run as its deadline.
func TestExplainCronJob(t *testing.T) {
	ctx := t.Context()
	job := jobKind(t)
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "team-a", UID: "c"}, Spec: batchv1.CronJobSpec{Schedule: "0 18 * * *", ConcurrencyPolicy: batchv1.ForbidConcurrent}}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Namespace: "team-a", CreationTimestamp: metav1.NewTime(created), Annotations: map[string]string{v1alpha1.AnnotationPolicy: "p"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron, kube.CronJobGVK)},
	}}
	c := clusterOf(t, j, cron,
		&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "team-a"}, Spec: v1alpha1.CarbonPolicySpec{Zone: "z"}}, &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "z"}})
	w, err := kube.Fetch(ctx, c, job, client.ObjectKeyFromObject(j))
	if err != nil {
		t.Fatal(err)
	}
	x, err := gather(ctx, c, w)
	if err != nil || !x.w.Next.At.Equal(created.Add(6*time.Hour)) {
		t.Errorf("next run %+v, %v", x.w.Next, err)
	}
}
