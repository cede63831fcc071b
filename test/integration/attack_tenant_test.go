//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// byNumbers are numbers that overflow, and texts that do not fit.
func (s *siege) byNumbers() {
	s.attack("numbers that overflow", func(t *testing.T) {
		s.contested = true // docs/security.md: what finds no node keeps its room for a while
		ctx := context.Background()
		n := 0
		try := func(change func(*batchv1.Job)) {
			n++
			j := s.annotated(fmt.Sprintf("number-%d", n), nil)
			change(j)
			if err := s.mallory.Create(ctx, j); err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				t.Errorf("%d: %v", n, err)
			}
		}
		for _, seconds := range []int64{1, 9223372036, 9223372037, 18446744074, 9223372036854775807} {
			try(func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &seconds })
		}
		for _, cpu := range []string{"1n", "1E", "9223372036854775807", "0"} {
			try(func(j *batchv1.Job) {
				j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
			})
		}
		for _, deadline := range []string{"9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2300-01-01T00:00:00+23:59", "2026-06-30T23:59:60Z", "1969-12-31T23:59:59Z"} {
			try(func(j *batchv1.Job) { j.Annotations[v1alpha1.AnnotationDeadline] = deadline })
		}
		for _, name := range []string{v1alpha1.AnnotationRuntime, v1alpha1.AnnotationMaxDelay, v1alpha1.AnnotationMaxWorkers, "lull.dev/min-workers", "lull.dev/runtime-p95", "lull.dev/progress", "lull.dev/ran"} {
			for _, value := range []string{"NaN", "1e308", "-1h", "2562047h47m16.854775807s", "P99999999Y", "\u0000", strings.Repeat("9", 250), "0x10"} {
				try(func(j *batchv1.Job) { j.Annotations[name] = value })
			}
		}
		zero := int32(0)
		try(func(j *batchv1.Job) { j.Spec.Parallelism = &zero })
		try(func(j *batchv1.Job) { j.Spec.Completions = &zero })
		try(func(j *batchv1.Job) { // on a node, hundreds of resources that none has
			for i := range 500 {
				name, one := corev1.ResourceName(fmt.Sprintf("example.com/r%d", i)), resource.MustParse("1")
				r := &j.Spec.Template.Spec.Containers[0].Resources
				r.Requests[name] = one
				if r.Limits == nil {
					r.Limits = corev1.ResourceList{}
				}
				r.Limits[name] = one
			}
		})
	})
	s.attack("annotations without room for Lull's own", func(t *testing.T) {
		b := s.tenant
		b.t = t
		// The API server takes 262,144 bytes of annotations. Admission writes the policy and the hold, and nothing more fits.
		j := s.annotated("full", map[string]string{v1alpha1.AnnotationMaxDelay: "2h20s", "fill": ""})
		probe := j.DeepCopy()
		must(t, s.mallory.Create(context.Background(), probe, client.DryRunAll))
		left := 262144
		for k, v := range probe.Annotations {
			left -= len(k) + len(v)
		}
		j.Annotations["fill"] = strings.Repeat("x", left)
		s.create(t, j)
		s.create(t, s.annotated("beside", nil))
		b.eventually("a decision on the Job beside it", func() bool { return b.decision("beside") == "CleanerLater" })
		b.eventually("the full Job to be released", func() bool { return !b.suspended("full") })
		t.Logf("released %v after its creation; its latest start was after 20s", time.Since(b.get("full").CreationTimestamp.Time).Round(time.Second))
	})
}

// byForgery are labels, annotations and owners that say something untrue.
func (s *siege) byForgery() {
	s.attack("pods with the labels of another's Job", func(t *testing.T) {
		b := s.tenant
		b.t = t
		honest := endless(b.job("honest", nil))
		honest.Spec.Template.Spec.PriorityClassName = "urgent"
		b.submit(honest)
		b.eventually("it to run", func() bool { return b.get("honest").Status.Active == 1 })
		forged := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "forged", Namespace: b.ns, Labels: map[string]string{batchv1.JobNameLabel: "honest", "job-name": "honest", "team": "batch"}},
			Spec:       *honest.Spec.Template.Spec.DeepCopy(),
		}
		forged.Spec.PriorityClassName = ""
		s.create(t, forged)
		b.eventually("the forged Pod to run", func() bool {
			var p corev1.Pod
			return env.client.Get(context.Background(), client.ObjectKeyFromObject(forged), &p) == nil && p.Status.Phase == corev1.PodRunning
		})
		uid := b.get("honest").UID
		b.eventually("the start of the Job in the ledger", func() bool { _, all := entries(t, s.database); return count(all, "started", uid) > 0 })
		s.unharmed(t) // meanwhile the controller has seen the forged Pod
		if _, all := entries(t, s.database); count(all, "started", uid) != 1 {
			t.Errorf("%d pods started on the account of a Job with one pod", count(all, "started", uid))
		}
	})
	s.attack("pods on nodes that are not there", func(t *testing.T) {
		for i, node := range []string{"", "ghost", "ghost-2"} {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("huge-", i), Namespace: s.tenant.ns}, Spec: *s.tenant.job("x", nil).Spec.Template.Spec.DeepCopy()}
			p.Spec.NodeName = node
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("10000")
			s.create(t, p)
		}
		s.unharmed(t)
	})
	s.attack("runs of a family of another namespace", func(t *testing.T) {
		b, v := s.tenant, s.victim
		b.t, v.t = t, t
		for i := range 6 {
			j := s.annotated(fmt.Sprintf("short-%d", i), map[string]string{"lull.dev/family": "shared"})
			delete(j.Annotations, v1alpha1.AnnotationRuntime)
			j.Spec.Template.Spec.PriorityClassName = "urgent"
			s.create(t, j)
		}
		for i := range 6 {
			b.eventually("the short runs to end", func() bool { return b.finished(fmt.Sprintf("short-%d", i)) })
		}
		start := func(name string) time.Duration {
			deadline := gridStart.Add(20 * time.Hour)
			j := v.job(name, map[string]string{"lull.dev/family": "shared", v1alpha1.AnnotationDeadline: deadline.Format(time.RFC3339)})
			delete(j.Annotations, v1alpha1.AnnotationRuntime)
			v.submit(j)
			v.eventually("a latest start", func() bool {
				return v.get(name).Annotations[v1alpha1.AnnotationLatestStart] != "" && v.decision(name) != ""
			})
			at, err := time.Parse(time.RFC3339, v.get(name).Annotations[v1alpha1.AnnotationLatestStart])
			must(t, err)
			return deadline.Sub(v.gridTime(at))
		}
		// Nobody of the victim's namespace has run this family: the default run time of an hour counts, and the margin of two.
		if before := start("family"); before < 3*time.Hour-5*time.Second || before > 3*time.Hour+30*time.Minute {
			t.Errorf("the latest start is %v before the deadline, want 3h", before)
		}
	})
	s.attack("annotations of a Job that Lull has released", func(t *testing.T) {
		b := s.tenant
		b.t = t
		for i, forged := range []map[string]string{
			{v1alpha1.AnnotationHold: "admission", v1alpha1.AnnotationPolicy: "clean", v1alpha1.AnnotationLatestStart: "9999-12-31T23:59:59Z"},
			{v1alpha1.AnnotationHold: "paused", v1alpha1.AnnotationPolicy: "nobody", v1alpha1.AnnotationLatestStart: "9999-12-31T23:59:59Z", "lull.dev/stated-start": "9999-12-31T23:59:59Z"},
			{v1alpha1.AnnotationDecision: `{"verb":"Wait","workers":1e308}`, "lull.dev/ran": "8760h", "lull.dev/changed": "9999-12-31T23:59:59Z"},
		} {
			name := fmt.Sprintf("forged-%d", i)
			s.create(t, s.annotated(name, map[string]string{v1alpha1.AnnotationMaxDelay: "2h10s"}))
			patch := ""
			for k, v := range forged {
				patch += fmt.Sprintf(",%q:%q", k, v)
			}
			s.patch(t, b.get(name), `{"metadata":{"annotations":{`+patch[1:]+`}}}`)
		}
		for i := range 3 {
			b.eventually("each to be released", func() bool { return !b.suspended(fmt.Sprintf("forged-%d", i)) })
		}
	})
	s.attack("names that the ledger must write", func(t *testing.T) {
		b := s.tenant
		b.t = t
		for i, family := range []string{"\u0000", "a\u2028b\u202e", "\U0001F525\"'\\", strings.Repeat("ä", 128), "null", "\r\n\t"} {
			j := s.annotated(fmt.Sprintf("family-%d", i), map[string]string{"lull.dev/family": family})
			for l := range 500 {
				j.Labels[fmt.Sprintf("example.com/l%d", l)] = strings.Repeat("v", 63)
			}
			j.Spec.Template.Spec.PriorityClassName = "urgent"
			s.create(t, j)
		}
		for i := range 6 {
			b.eventually("each to end", func() bool { return b.finished(fmt.Sprintf("family-%d", i)) })
			uid := b.get(fmt.Sprintf("family-%d", i)).UID
			b.eventually("its end in the ledger", func() bool { _, all := entries(t, s.database); return count(all, "finished", uid) == 1 })
			_, all := entries(t, s.database)
			if n := count(all, "submitted", uid) + count(all, "started", uid) + count(all, "ended", uid); n != 3 {
				t.Errorf("family %d: %d entries of submission, start and end, want 3", i, n)
			}
		}
		audited(t, s.database)
	})
	s.attack("a Job that deletes itself", func(t *testing.T) {
		b := s.tenant
		b.t = t
		now := int32(0)
		j := s.annotated("vanishes", nil)
		j.Spec.TTLSecondsAfterFinished, j.Spec.Template.Spec.PriorityClassName = &now, "urgent"
		s.create(t, j)
		b.eventually("its run in the ledger", func() bool {
			_, all := entries(t, s.database)
			return count(all, "started", j.UID) == 1 && count(all, "ended", j.UID) == 1 && count(all, "finished", j.UID) == 1
		})
	})
}

// byObjects are odd objects, in odd numbers, at odd moments.
func (s *siege) byObjects() {
	ctx := context.Background()
	yes := true
	s.attack("a CronJob that never comes", func(t *testing.T) {
		b := s.tenant
		b.t = t
		cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "never", Namespace: b.ns}, Spec: batchv1.CronJobSpec{
			Schedule: "0 0 31 2 *", ConcurrencyPolicy: batchv1.ForbidConcurrent, JobTemplate: batchv1.JobTemplateSpec{Spec: b.job("x", nil).Spec},
		}}
		s.create(t, cron)
		j := s.annotated("never-1", map[string]string{"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T00:00:00+14:00"})
		j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "never", UID: cron.UID, Controller: &yes}}
		s.create(t, j)
		b.eventually("a decision", func() bool { return b.decision("never-1") != "" })
	})
	s.attack("a Job with a name of 253 characters", func(t *testing.T) {
		b := s.tenant
		b.t = t
		name := strings.Repeat("a", 250) + "bcd"
		j := s.annotated(name, nil)
		j.Spec.ManualSelector = &yes
		j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"mine": "yes"}}
		j.Spec.Template.Labels = map[string]string{"mine": "yes"}
		if err := s.mallory.Create(ctx, j); apierrors.IsInvalid(err) {
			t.Skipf("the API server refuses it: %v", err)
		} else {
			must(t, err)
		}
		b.eventually("a decision", func() bool { return b.decision(name) == "CleanerLater" })
	})
	s.attack("a Job made again while a finalizer keeps it, and edited while it is held", func(t *testing.T) {
		b := s.tenant
		b.t = t
		j := s.annotated("again", nil)
		j.Finalizers = []string{"example.com/stuck"}
		s.create(t, j)
		b.eventually("a decision", func() bool { return b.decision("again") != "" })
		must(t, s.mallory.Delete(ctx, j))
		s.unharmed(t)
		s.patch(t, b.get("again"), `{"metadata":{"finalizers":null}}`)
		b.eventually("it to go", func() bool {
			return apierrors.IsNotFound(env.client.Get(ctx, client.ObjectKeyFromObject(j), &batchv1.Job{}))
		})
		s.create(t, s.annotated("again", nil))
		b.eventually("the new one to have a plan of its own", func() bool {
			var p v1alpha1.CarbonPlan
			return env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "job-again"}, &p) == nil && p.Spec.Workload.UID == b.get("again").UID && b.decision("again") == "CleanerLater"
		})
	})
	s.attack("updates all the time", func(t *testing.T) {
		b := s.tenant
		b.t = t
		s.create(t, s.annotated("storm", map[string]string{v1alpha1.AnnotationMaxDelay: "2h15s"}))
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					patch := fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d","lull.dev/latest-start":"9999-12-31T23:59:59Z","lull.dev/hold":"admission"}}}`, i)
					_ = s.mallory.Patch(ctx, s.annotated("storm", nil), client.RawPatch(types.MergePatchType, []byte(patch)))
				}
			}
		}()
		s.unharmed(t)
		b.eventually("it to be released in spite of that", func() bool { return !b.suspended("storm") })
		close(stop)
		<-stopped
	})
	s.attack("policies that are hostile or do not go", func(t *testing.T) {
		b := s.tenant
		b.t = t
		policy := func(name string, change func(*v1alpha1.CarbonPolicySpec)) *v1alpha1.CarbonPolicy {
			p := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.ns}, Spec: v1alpha1.CarbonPolicySpec{
				Zone: b.zone, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"p": name}}, MaxDelay: &metav1.Duration{Duration: 480 * time.Hour},
			}}
			change(&p.Spec)
			return p
		}
		held := func(p *v1alpha1.CarbonPolicy, name string) {
			j := s.annotated(name, nil)
			j.Labels = map[string]string{"p": p.Name}
			b.eventually("admission to know the policy "+p.Name, func() bool {
				probe := j.DeepCopy()
				return s.mallory.Create(ctx, probe, client.DryRunAll) == nil && probe.Annotations[v1alpha1.AnnotationHold] != ""
			})
			s.create(t, j)
		}
		for i, parameters := range []map[string]string{{"effort": "1e18"}, {"effort": "9223372036854775807"}, {"reserve": "NaN"}, {"reserve": "-1e308"}, {"seed": "x"}, {strings.Repeat("k", 63): strings.Repeat("v", 256)}} {
			p := policy(fmt.Sprintf("parameters-%d", i), func(spec *v1alpha1.CarbonPolicySpec) {
				spec.Planner = v1alpha1.PlannerSpec{Name: "joint", Parameters: parameters}
			})
			if err := s.mallory.Create(ctx, p); err != nil {
				t.Logf("%v: %v", parameters, err)
				continue
			}
			held(p, p.Name)
			b.eventually(fmt.Sprintf("a decision under %v", parameters), func() bool { return b.decision(p.Name) != "" })
			t.Logf("%v: %s", parameters, b.decision(p.Name))
			must(t, s.mallory.Delete(ctx, p))
		}
		s.unharmed(t)
		stuck := policy("stuck", func(*v1alpha1.CarbonPolicySpec) {})
		stuck.Finalizers = []string{"example.com/stuck"}
		s.create(t, stuck)
		held(stuck, "stuck")
		b.eventually("a decision", func() bool { return b.decision("stuck") == "CleanerLater" })
		must(t, s.mallory.Delete(ctx, stuck))
		b.eventually("the Job of the policy that is being deleted to be released", func() bool { return !b.suspended("stuck") })
		s.patch(t, stuck, `{"metadata":{"finalizers":null}}`)
		elsewhere := policy("elsewhere", func(spec *v1alpha1.CarbonPolicySpec) { spec.Zone = "nowhere" })
		s.create(t, elsewhere)
		held(elsewhere, "elsewhere")
		b.eventually("the Job of a policy without a zone to be released", func() bool { return !b.suspended("elsewhere") })
		must(t, s.mallory.Delete(ctx, elsewhere))
	})
	s.attack("what an editor may not write", func(t *testing.T) {
		for _, obj := range []client.Object{
			&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: s.victim.zone}}, &v1alpha1.WorkloadKind{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
			&v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, &v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
			&v1alpha1.Follow{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: s.tenant.ns}}, &v1alpha1.CarbonPlan{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: s.tenant.ns}},
			&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: s.victim.ns}},
		} {
			if err := s.mallory.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`))); !apierrors.IsForbidden(err) {
				t.Errorf("%T: %v", obj, err)
			}
			if err := s.mallory.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"status":{}}`))); !apierrors.IsForbidden(err) {
				t.Errorf("status of %T: %v", obj, err)
			}
		}
	})
	s.attack("a flood of Jobs", func(t *testing.T) {
		s.flood(t, 300, func(i int) client.Object {
			j := s.annotated("", nil)
			j.GenerateName = "flood-"
			return j
		})
	})
}

// flood creates many objects at a time.
func (s *siege) flood(t *testing.T, n int, object func(i int) client.Object) {
	var done sync.WaitGroup
	todo := make(chan int)
	for range 8 {
		done.Go(func() {
			for i := range todo {
				if err := s.mallory.Create(context.Background(), object(i)); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	for i := range n {
		todo <- i
	}
	close(todo)
	done.Wait()
}

// byMemory are objects that take much memory, or plans that do.
func (s *siege) byMemory() {
	ctx := context.Background()
	s.attack("elastic work of two thousand million workers", func(t *testing.T) {
		s.contested = true
		b := s.tenant
		b.t = t
		s.create(t, &v1alpha1.ScalingProfile{ObjectMeta: metav1.ObjectMeta{Name: "wide", Namespace: b.ns}, Spec: v1alpha1.ScalingProfileSpec{
			Points: []v1alpha1.ScalingPoint{{Workers: 1, Throughput: 1}, {Workers: 100000, Throughput: 90000}},
		}})
		for _, planner := range []string{"staticscale", "carbonscaler", "carbonscaler-multi", "carbonflex-oracle", "caspian", "carbonflex", "vcc-scaling", "cap", "joint"} {
			p := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "wide-" + planner, Namespace: b.ns}, Spec: v1alpha1.CarbonPolicySpec{
				Zone: b.zone, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"p": planner}}, Slot: &metav1.Duration{Duration: time.Minute}, Planner: v1alpha1.PlannerSpec{Name: planner},
			}}
			s.create(t, p)
			for i, most := range []string{"1000", "1000000", "2000000000"} {
				j := s.annotated(fmt.Sprintf("%s-%d", planner, i), map[string]string{v1alpha1.AnnotationRuntime: "8760h", v1alpha1.AnnotationMaxDelay: "8760h", v1alpha1.AnnotationMaxWorkers: most, "lull.dev/profile": "wide"})
				j.Labels = map[string]string{"p": planner}
				indexed, parts, one := batchv1.IndexedCompletion, int32(100000), int32(1)
				j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = &indexed, &parts, &one
				b.eventually("admission to know the policy "+p.Name, func() bool {
					probe := j.DeepCopy()
					return s.mallory.Create(ctx, probe, client.DryRunAll) == nil && probe.Annotations[v1alpha1.AnnotationHold] != ""
				})
				s.create(t, j)
			}
			s.unharmed(t)
			b.eventually("decisions of planner "+planner, func() bool {
				return b.decision(planner+"-0") != "" && b.decision(planner+"-1") != "" && b.decision(planner+"-2") != ""
			})
			t.Logf("%s: %s, %s, %s; the controller had %d MiB at most", planner, b.decision(planner+"-0"), b.decision(planner+"-1"), b.decision(planner+"-2"), peak(s.controller)>>20)
			must(t, s.mallory.Delete(ctx, p))
			must(t, s.mallory.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(b.ns), client.MatchingLabels{"p": planner}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}
	})
	s.attack("objects of a megabyte", func(t *testing.T) {
		b := s.tenant
		b.t = t
		text := strings.Repeat("x", 1000000)
		s.flood(t, 160, func(i int) client.Object {
			j := s.annotated(fmt.Sprintf("large-%d", i), nil)
			yes := true
			j.Spec.Suspend = &yes
			j.Spec.Template.Spec.Containers[0].Args = []string{text}
			return j
		})
		s.flood(t, 100, func(i int) client.Object {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d", i), Namespace: b.ns}, Spec: *b.job("x", nil).Spec.Template.Spec.DeepCopy()}
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/never"}}
			p.Spec.Containers[0].Args = []string{text}
			return p
		})
		kill(s.controller)
		kill(s.watchdog)
		s.startPrograms()
		s.create(t, s.annotated("beside", map[string]string{v1alpha1.AnnotationMaxDelay: "2h10s"}))
		b.eventually("a Job to be released by its latest start", func() bool { return !b.suspended("beside") })
	})
}
