//go:build integration

package integration

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/charts"
)

// features are what differs between minor versions of Kubernetes, by the names of the table in docs/install.md, and how a server is asked about each.
var features = map[string]func(featureBed) string{
	"MutatingAdmissionPolicy": func(b featureBed) string {
		return b.versions("admissionregistration.k8s.io", "mutatingadmissionpolicies")
	},
	"ValidatingAdmissionPolicy v1": featureBed.policyRefuses,
	"ResourceClaim":                func(b featureBed) string { return b.versions("resource.k8s.io", "resourceclaims") },
	"`resize` of a Pod": func(b featureBed) string {
		return map[string]string{"v1": "yes", "no": "no"}[b.versions("", "pods/resize")]
	},
	"Lull's CustomResourceDefinitions": featureBed.definitionsApply,
	"a rule of a CustomResourceDefinition with two variables, `self.all(i, p, ...)`": func(b featureBed) string {
		return b.accepts("rule", env.client.Create(b.ctx, gadget("self.all(i, p, i == 0 || p > self[i-1])"), client.DryRunAll))
	},
	"`selectableFields` of a CustomResourceDefinition": featureBed.fieldsSelect,
	"`managedBy` of a Job": func(b featureBed) string {
		return b.keeps(func(s *batchv1.JobSpec) { s.ManagedBy = new("example.com/other") }, func(s *batchv1.JobSpec) bool { return s.ManagedBy != nil })
	},
	"`successPolicy` of a Job": func(b featureBed) string {
		return b.keeps(func(s *batchv1.JobSpec) {
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: new(int32(1))}}}
		}, func(s *batchv1.JobSpec) bool { return s.SuccessPolicy != nil })
	},
	"`backoffLimitPerIndex` of a Job": func(b featureBed) string {
		return b.keeps(func(s *batchv1.JobSpec) { s.BackoffLimit, s.BackoffLimitPerIndex = nil, new(int32(1)) }, func(s *batchv1.JobSpec) bool { return s.BackoffLimitPerIndex != nil })
	},
	"`podReplacementPolicy` of a Job": func(b featureBed) string {
		return b.keeps(func(s *batchv1.JobSpec) { s.PodReplacementPolicy = new(batchv1.Failed) }, func(s *batchv1.JobSpec) bool {
			return s.PodReplacementPolicy != nil && *s.PodReplacementPolicy == batchv1.Failed
		})
	},
	"`completions` and `parallelism` of an Indexed Job change together": func(b featureBed) string {
		return b.change(b.suspendedJob("scaled"), "completions", func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = new(int32(5)), new(int32(5)) })
	},
	"a suspended Job that has not run may get another `nodeSelector`": func(b featureBed) string { return b.change(b.suspendedJob("directed"), "template", toOtherNodes) },
	"a suspended Job that has not run may get other requests":         func(b featureBed) string { return b.change(b.suspendedJob("sized"), "template", askMore) },
	"a suspended Job that has run may get another `nodeSelector`": func(b featureBed) string {
		return b.change(b.pausedJob(), "template", toOtherNodes)
	},
	"a suspended Job that has run may get other requests": func(b featureBed) string { return b.change(b.pausedJob(), "template", askMore) },
	"a suspended Job that has run has no `status.startTime`": func(b featureBed) string {
		if b.pausedJob().Status.StartTime == nil {
			return "yes"
		}
		return "no"
	},
	"a resumed Job may get another `status.startTime`":             featureBed.startTimeChanges,
	"scheduling gates of Pods":                                     featureBed.gatesHold,
	"a watch that begins with what there is (`sendInitialEvents`)": featureBed.watchLists,
	"a consistent list is read from the server's cache":            featureBed.listsFromCache,
}

// TestFeaturesOfThisVersion asks the API server about each feature that differs between minor versions of Kubernetes. The table in docs/install.md must say what it answers.
func TestFeaturesOfThisVersion(t *testing.T) {
	clientset, err := kubernetes.NewForConfig(env.config)
	must(t, err)
	version, err := clientset.Discovery().ServerVersion()
	must(t, err)
	minor := "1." + strings.TrimSuffix(version.Minor, "+")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "features-"}}
	must(t, env.client.Create(t.Context(), ns))
	t.Cleanup(func() { _ = env.client.Delete(context.Background(), ns) })
	bed{t: t, ns: ns.Name}.eventually("the namespace to accept pods", func() bool {
		return env.client.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: "default"}, &corev1.ServiceAccount{}) == nil
	})
	page, err := os.ReadFile("../../docs/install.md")
	must(t, err)
	table := featureTable(string(page))
	for name := range table {
		if features[name] == nil {
			t.Errorf("docs/install.md has a row %q, which nothing asks about", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(features)) {
		t.Run(name, func(t *testing.T) {
			b := featureBed{bed: bed{t: t, ns: ns.Name}, ctx: t.Context(), clientset: clientset}
			answer := features[name](b)
			t.Logf("%s: %s: %s", version.GitVersion, name, answer)
			if says := table[name][minor]; says != answer {
				t.Errorf("%s: %s: %q; docs/install.md has %q", version.GitVersion, name, answer, says)
			}
		})
	}
}

// featureTable is the table of features of docs/install.md: the cells of each row by minor version.
func featureTable(page string) map[string]map[string]string {
	_, page, _ = strings.Cut(page, "\n| feature |")
	minors, out := regexp.MustCompile(`1\.\d+`).FindAllString(page[:strings.Index(page+"\n", "\n")], -1), map[string]map[string]string{}
	_, page, _ = strings.Cut(page, "|\n")
	_, page, _ = strings.Cut(page, "|\n") // the line below the head
	for line := range strings.SplitSeq(page, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != len(minors)+2 {
			break
		}
		row := map[string]string{}
		for i, m := range minors {
			row[m] = cells[i+2]
		}
		out[cells[0]] = row
	}
	return out
}

// featureBed is a namespace without a CarbonPolicy, in which a server is asked about one feature.
type featureBed struct {
	bed
	ctx       context.Context
	clientset kubernetes.Interface
}

// versions are those of a group that serve a resource.
func (b featureBed) versions(group, resource string) string {
	b.t.Helper()
	var out []string
	for _, v := range []string{"v1", "v1beta2", "v1beta1", "v1alpha1"} {
		list, err := b.clientset.Discovery().ServerResourcesForGroupVersion(strings.TrimPrefix(group+"/"+v, "/"))
		if apierrors.IsNotFound(err) {
			continue
		}
		must(b.t, err)
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return "no"
	}
	return strings.Join(out, ", ")
}

// accepts is how a server answered a request; if it has refused it, then because of something of that name.
func (b featureBed) accepts(name string, err error) string {
	b.t.Helper()
	if apierrors.IsInvalid(err) && strings.Contains(err.Error(), name) {
		b.t.Log(err)
		return "no"
	}
	must(b.t, err)
	return "yes"
}

// policyRefuses: Lull's own policy has the controller's account create Jobs as a dry run only.
func (b featureBed) policyRefuses() string {
	config, err := clientcmd.BuildConfigFromFlags("", env.restricted)
	must(b.t, err)
	restricted, err := client.New(config, client.Options{Scheme: env.client.Scheme()})
	must(b.t, err)
	must(b.t, restricted.Create(b.ctx, b.job("tried", nil), client.DryRunAll))
	b.eventually("the policy to refuse what is no dry run", func() bool {
		err = restricted.Create(b.ctx, b.job("created", nil))
		if err == nil {
			must(b.t, env.client.Delete(b.ctx, b.job("created", nil)))
		}
		return err != nil
	})
	if !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
		b.t.Fatal(err)
	}
	return "yes"
}

// definitionsApply: each definition of Lull is established as it is shipped, and keeps its rules, of which an older server knew one not.
func (b featureBed) definitionsApply() string {
	n := 0
	for name, obj := range rendered(b.t, charts.Options{Kueue: true, Extender: true, Capacity: true, Autoscaling: true, Web: true}) {
		if obj.GetKind() != "CustomResourceDefinition" {
			continue
		}
		n++
		must(b.t, env.client.Apply(b.ctx, client.ApplyConfigurationFromUnstructured(obj.DeepCopy()), client.FieldOwner("lull-install"), client.ForceOwnership))
		b.eventually(name+" to be established", func() bool { return established(b.ctx, obj) })
	}
	if n < 8 {
		b.t.Fatalf("%d definitions", n)
	}
	for _, x := range []struct {
		workers [3]int64
		ok      bool
	}{{[3]int64{1, 2, 4}, true}, {[3]int64{1, 1, 4}, false}, {[3]int64{4, 2, 1}, false}} {
		var points []any
		for _, w := range x.workers {
			points = append(points, map[string]any{"workers": w, "throughput": float64(w)})
		}
		err := env.client.Create(b.ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "lull.dev/v1alpha1", "kind": "ScalingProfile", "metadata": map[string]any{"name": "rising", "namespace": b.ns}, "spec": map[string]any{"points": points},
		}}, client.DryRunAll)
		if got := b.accepts("workers must rise", err) == "yes"; got != x.ok {
			b.t.Fatalf("a ScalingProfile of %v workers is accepted: %v", x.workers, got)
		}
	}
	return "yes"
}

// established reports whether a CustomResourceDefinition is.
func established(ctx context.Context, definition *unstructured.Unstructured) bool {
	got := definition.DeepCopy()
	if env.client.Get(ctx, client.ObjectKeyFromObject(definition), got) != nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == "Established" && m["status"] == "True"
	})
}

// gadget is a definition of a kind whose objects have a color, which selects them, and sizes, of which the rule is.
func gadget(rule string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gadgets.test.lull.dev"},
		"spec": map[string]any{
			"group": "test.lull.dev", "scope": "Namespaced", "names": map[string]any{"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "selectableFields": []any{map[string]any{"jsonPath": ".color"}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"color": map[string]any{"type": "string"},
					"sizes": map[string]any{
						"type": "array", "maxItems": int64(8), "items": map[string]any{"type": "integer"},
						"x-kubernetes-validations": []any{map[string]any{"rule": rule}},
					},
				}}},
			}},
		},
	}}
}

// fieldsSelect lists custom resources by one of their fields.
func (b featureBed) fieldsSelect() string {
	definition := gadget("self.isSorted()")
	must(b.t, env.client.Create(b.ctx, definition))
	b.t.Cleanup(func() { _ = env.client.Delete(context.Background(), definition) })
	for _, color := range []string{"red", "green"} {
		b.eventually("a gadget to be created", func() bool {
			return env.client.Create(b.ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "test.lull.dev/v1", "kind": "Gadget", "metadata": map[string]any{"name": color, "namespace": b.ns}, "color": color,
			}}) == nil
		})
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "test.lull.dev/v1", "kind": "GadgetList"}}
	must(b.t, env.client.List(b.ctx, list, client.InNamespace(b.ns), client.MatchingFields{"color": "red"}))
	if len(list.Items) != 1 || list.Items[0].GetName() != "red" {
		b.t.Fatalf("%d gadgets are red", len(list.Items))
	}
	return "yes"
}

// suspendedJob creates an Indexed Job that has never run.
func (b featureBed) suspendedJob(name string, changes ...func(*batchv1.JobSpec)) *batchv1.Job {
	b.t.Helper()
	job := b.job(name, nil)
	job.Name, job.GenerateName = "", name+"-"
	job.Spec.Suspend, job.Spec.CompletionMode = new(true), new(batchv1.IndexedCompletion)
	job.Spec.Completions, job.Spec.Parallelism = new(int32(2)), new(int32(2))
	job.Spec.Template.Annotations["lab.lull.dev/runtime"] = "1000h"
	for _, change := range changes {
		change(&job.Spec)
	}
	must(b.t, env.client.Create(b.ctx, job))
	b.t.Cleanup(func() {
		_ = env.client.Delete(context.Background(), job, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
	return job
}

// keeps creates a Job with a field, and reports whether the server has stored it.
func (b featureBed) keeps(set func(*batchv1.JobSpec), kept func(*batchv1.JobSpec) bool) string {
	b.t.Helper()
	if job := b.suspendedJob("field", set); !kept(&b.get(job.Name).Spec) {
		return "no"
	}
	return "yes"
}

// change changes the spec of a Job. If the server refuses that, then because of the field.
func (b featureBed) change(job *batchv1.Job, field string, change func(*batchv1.JobSpec)) string {
	b.t.Helper()
	before := job.DeepCopy()
	change(&job.Spec)
	return b.accepts(field, env.client.Patch(b.ctx, job, client.MergeFrom(before)))
}

func toOtherNodes(s *batchv1.JobSpec) {
	s.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
}

func askMore(s *batchv1.JobSpec) {
	s.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1500m")
}

// pausedJob creates a Job that has run, and is suspended.
func (b featureBed) pausedJob() *batchv1.Job {
	b.t.Helper()
	job := b.suspendedJob("ran", func(s *batchv1.JobSpec) { s.Suspend = new(false) })
	b.eventually("the Job to run", func() bool {
		got := b.get(job.Name)
		return got.Status.Active == 2 && got.Status.StartTime != nil
	})
	must(b.t, env.client.Patch(b.ctx, job.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))))
	b.eventually("the Job to be suspended", func() bool {
		job = b.get(job.Name)
		return job.Status.Active == 0 && suspendedCondition(job) == corev1.ConditionTrue
	})
	return job
}

// suspendedCondition is the status of condition Suspended.
func suspendedCondition(job *batchv1.Job) corev1.ConditionStatus {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobSuspended {
			return c.Status
		}
	}
	return ""
}

// startTimeChanges does to a Job what its controller does when the Job is resumed that has run before: that controller is the test, as the Job's managedBy says.
func (b featureBed) startTimeChanges() string {
	job := b.suspendedJob("resumed", func(s *batchv1.JobSpec) { s.ManagedBy = new("example.com/test") })
	is := func(status corev1.ConditionStatus, started time.Time) error {
		job.Status.StartTime = &metav1.Time{Time: started}
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: status, LastTransitionTime: metav1.NewTime(started)}}
		return env.client.Status().Update(b.ctx, job)
	}
	must(b.t, is(corev1.ConditionTrue, gridStart))
	job.Spec.Suspend = new(false)
	must(b.t, env.client.Update(b.ctx, job))
	return b.accepts("startTime", is(corev1.ConditionFalse, gridStart.Add(time.Hour)))
}

// gatesHold: a Pod with a gate is not scheduled until the gate is gone.
func (b featureBed) gatesHold() string {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "gated", Namespace: b.ns}, Spec: b.job("", nil).Spec.Template.Spec}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	must(b.t, env.client.Create(b.ctx, pod))
	b.eventually("the scheduler to see the gate", func() bool {
		must(b.t, env.client.Get(b.ctx, client.ObjectKeyFromObject(pod), pod))
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated
		})
	})
	if pod.Spec.NodeName != "" {
		b.t.Fatalf("the Pod with a gate is on %s", pod.Spec.NodeName)
	}
	must(b.t, env.client.Patch(b.ctx, pod, client.RawPatch("application/json-patch+json", []byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`))))
	b.eventually("the Pod to be scheduled", func() bool {
		must(b.t, env.client.Get(b.ctx, client.ObjectKeyFromObject(pod), pod))
		return pod.Spec.NodeName != ""
	})
	return "yes"
}

// watchLists watches ConfigMaps from the first one on, and waits for the bookmark that says that all which there were have come.
func (b featureBed) watchLists() string {
	w, err := b.clientset.CoreV1().ConfigMaps(b.ns).Watch(b.ctx, metav1.ListOptions{
		SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true, TimeoutSeconds: new(int64(patience.Seconds())),
	})
	if answer := b.accepts("sendInitialEvents", err); answer == "no" {
		return answer
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type != watch.Bookmark {
			continue
		}
		o, err := meta.Accessor(event.Object)
		must(b.t, err)
		if o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			return "yes"
		}
	}
	b.t.Fatal("the watch ended without the bookmark")
	return ""
}

// listsFromCache lists ConfigMaps as they are now, and reads in the metrics of the server whether its cache has answered.
func (b featureBed) listsFromCache() string {
	answered := func() string {
		text, err := b.clientset.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(b.ctx)
		must(b.t, err)
		return strings.Join(regexp.MustCompile(`(?m)^apiserver_watch_cache_consistent_read_total\{.*resource="/?configmaps".*success="true".*$`).FindAllString(string(text), -1), "\n")
	}
	before := answered()
	_, err := b.clientset.CoreV1().ConfigMaps(b.ns).List(b.ctx, metav1.ListOptions{})
	must(b.t, err)
	after := answered()
	b.t.Logf("before:\n%s\nafter:\n%s", before, after)
	if before == after {
		return "no"
	}
	return "yes"
}
