//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/charts"
	"lull.dev/lull/internal/base/loopback"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/studies/demo"
	"lull.dev/lull/test/creations"
)

// The namespaces of a lab in which both ways to hold are in force: policies in one, lull admission in all others that it is told.
const byPolicy, byWebhook = "by-policy", "by-webhook"

// webhookLab is a lab in which the API server evaluates policies in namespace byPolicy only, and lull admission may be started for others.
func webhookLab(t *testing.T) {
	t.Helper()
	bareLab(t)
	ctx := context.Background()
	for _, name := range []string{byPolicy, byWebhook} {
		must(t, env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	for _, k := range kinds.Builtin() {
		if strings.Contains(k.Spec.Group, ".") {
			must(t, env.client.Create(ctx, anything(k)))
		}
	}
	if older() == "" {
		must(t, demo.Install(ctx, env.client, kinds.Builtin(), charts.Options{Namespaces: []string{byPolicy}}))
	}
	must(t, demo.Install(ctx, env.client, kinds.Builtin(), charts.Options{Webhook: true}))
	for _, name := range creations.Priorities() {
		must(t, env.client.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 1000}))
	}
	clientset, err := kubernetes.NewForConfig(env.config)
	must(t, err)
	env.restricted = filepath.Join(env.dir, "controller-kubeconfig")
	must(t, restrict(ctx, env.config, clientset, "lull-controller", env.restricted))
	env.admission = filepath.Join(env.dir, "admission-kubeconfig")
	must(t, restrict(ctx, env.config, clientset, "lull-admission", env.admission))
}

// anything is a custom resource of a kind with any fields.
func anything(k *kinds.Kind) *unstructured.Unstructured {
	name := k.Spec.Resource + "." + k.Spec.Group
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name, "annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for tests"}},
		"spec": map[string]any{
			"group": k.Spec.Group, "scope": "Namespaced", "names": map[string]any{"plural": k.Spec.Resource, "singular": strings.ToLower(k.Spec.Kind), "kind": k.Spec.Kind, "listKind": k.Spec.Kind + "List"},
			"versions": []any{map[string]any{"name": k.Spec.Version, "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}}
}

// startAdmission runs a replica of lull admission with the rights of its account, and returns what ends it in order.
func startAdmission(t *testing.T, address string, flags ...string) (end func()) {
	t.Helper()
	cmd := start(t, append([]string{"admission", "--kubeconfig", env.admission, "--bind-address", address, "--url", "https://" + address, "--kinds", builtinNames()}, flags...))
	return func() {
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err != nil {
			t.Errorf("lull admission did not end in order: %v", err)
		}
	}
}

// TestAdmissionWebhook: with the real API server and the rights of its account, lull admission decides what policies decide; what it holds is
// released; and where it is not there, work is created as its user wrote it.
func TestAdmissionWebhook(t *testing.T) {
	webhookLab(t)
	address, err := loopback.FreeAddress()
	must(t, err)
	if older() == "" {
		end := startAdmission(t, address, "--namespaces", byWebhook)
		t.Run("DecidesAsThePolicies", decidesAsThePolicies)
		end()
	}
	controller := startController(t)
	end := startAdmission(t, address, "--nominations")
	t.Run("HoldsAndReleases", holdsAndReleases)
	t.Run("AllIsAccepted", allIsAccepted)
	workload := nominatedWorkload(t)
	t.Run("ClearsNominations", func(t *testing.T) { clearsNominations(t, workload) })
	t.Run("LeavesOthersAlone", leavesOthersAlone)
	t.Run("RightsAreNarrow", admissionRights)
	existing := newStandingBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.HoldExisting = v1alpha1.HoldExistingUnstarted })
	t.Run("NotThere", func(t *testing.T) { notThere(t, end) })
	t.Run("NominationsWait", func(t *testing.T) { nominationsWait(t, workload) })
	t.Run("SecondLine", func(t *testing.T) { secondLine(t, existing, controller) })
}

// inBoth applies the same policies to both namespaces, and waits until they are all that counts.
func inBoth(t *testing.T, round int, policies []*v1alpha1.CarbonPolicy) {
	t.Helper()
	ctx := context.Background()
	marker := fmt.Sprintf("round-%d", round)
	for _, ns := range []string{byPolicy, byWebhook} {
		must(t, env.client.DeleteAllOf(ctx, &v1alpha1.CarbonPolicy{}, client.InNamespace(ns)))
		for _, p := range append(policies, &v1alpha1.CarbonPolicy{ // it governs what names it, and nothing else
			ObjectMeta: metav1.ObjectMeta{Name: marker}, Spec: v1alpha1.CarbonPolicySpec{Zone: "de", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"round": marker}}},
		}) {
			p = p.DeepCopy()
			p.Namespace = ns
			must(t, env.client.Create(ctx, p))
		}
		b := bed{t: t, ns: ns}
		b.eventually("the policies of "+marker, func() bool {
			probe := b.job("probe", map[string]string{v1alpha1.AnnotationGovernBy: marker})
			probe.Labels = map[string]string{"round": marker}
			must(t, env.client.Create(ctx, probe, client.DryRunAll))
			return probe.Annotations[v1alpha1.AnnotationPolicy] == marker
		})
	}
}

// decidesAsThePolicies: the same random and hostile objects come out of the API server alike, or are refused alike, whoever decides.
// LULL_ADMISSION_OBJECTS says how many, 2000 by default. LULL_ADMISSION_SEED chooses others.
func decidesAsThePolicies(t *testing.T) {
	total, seed := setting(t, "LULL_ADMISSION_OBJECTS", 2000), setting(t, "LULL_ADMISSION_SEED", 3)
	perKind := max(20, total/10_000) // in a round; to change the policies takes a second
	r := rand.New(rand.NewPCG(26, uint64(seed)))
	outcomes := map[string]int{}
	for made, round := 0, 0; made < total; round++ {
		inBoth(t, round, creations.Policies(r, ""))
		for _, k := range kinds.Builtin() {
			objects, come := make([]*unstructured.Unstructured, perKind), make([][2]string, perKind)
			same := make([]bool, perKind)
			for i := range objects {
				objects[i] = creations.Object(r, k, "", fmt.Sprintf("x%d", i), true)
			}
			var ask errgroup.Group
			ask.SetLimit(8)
			for i := range objects {
				ask.Go(func() (err error) {
					come[i], same[i], err = alike(objects[i])
					return err
				})
			}
			must(t, ask.Wait())
			for i, c := range come {
				if !same[i] {
					text, _ := json.Marshal(objects[i])
					t.Fatalf("%s of round %d\nwritten   %s\nby policy %s\nby lull   %s", k.Name, round, text, c[0], c[1])
				}
				outcomes[fate(c[0])]++
			}
			made += perKind
		}
		if round%100 == 99 {
			t.Logf("%d objects: %v", made, outcomes)
		}
	}
	t.Logf("%d objects: %v", total, outcomes)
	if outcomes["held"] < total/20 || outcomes["marked"] < total/20 || outcomes["left alone"] < total/20 {
		t.Errorf("too few of an outcome: %v", outcomes)
	}
}

// fate says what became of an object, by its text as alike returns it.
func fate(come string) string {
	switch {
	case come == "":
		return "refused"
	case strings.Contains(come, `"lull.dev/hold":"admission"`):
		return "held"
	case strings.Contains(come, `"lull.dev/policy"`):
		return "marked"
	}
	return "left alone"
}

// alike reports whether an object comes out of the API server alike, whoever decides, and how: "" where it is refused. On a busy machine lull admission may
// be too slow for the API server, so that nobody holds an object: what differs once must differ again and again.
func alike(obj *unstructured.Unstructured) (come [2]string, same bool, err error) {
	for range 30 {
		for i, ns := range []string{byPolicy, byWebhook} {
			o := obj.DeepCopy()
			o.SetNamespace(ns)
			come[i] = ""
			if env.client.Create(context.Background(), o, client.DryRunAll) == nil {
				if come[i], err = essence(o); err != nil {
					return come, false, err
				}
			}
		}
		if come[0] == come[1] {
			return come, true, nil
		}
		time.Sleep(300 * time.Millisecond)
	}
	return come, false, nil
}

// createHeld creates an object that the webhook holds. One that slipped past, as it may on a busy machine, is made again.
func (b bed) createHeld(obj client.Object) {
	b.t.Helper()
	ctx := context.Background()
	b.eventually(obj.GetName()+" to be held at its creation", func() bool {
		o := obj.DeepCopyObject().(client.Object)
		if err := env.client.Create(ctx, o); err != nil {
			b.t.Log(err) // the one before is not deleted yet
			return false
		}
		if o.GetAnnotations()[v1alpha1.AnnotationHold] != v1alpha1.HoldAdmission {
			must(b.t, env.client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground), client.GracePeriodSeconds(0)))
			return false
		}
		must(b.t, env.client.Get(ctx, client.ObjectKeyFromObject(o), obj))
		return true
	})
}

// essence is an object as the API server has it, without what differs between two requests.
func essence(o *unstructured.Unstructured) (string, error) {
	m := o.DeepCopy()
	for _, field := range []string{"uid", "creationTimestamp", "managedFields", "namespace", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(m.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(m.Object, "status")
	uid := string(o.GetUID())
	text, err := json.Marshal(m.Object)
	if err != nil {
		return "", err
	}
	out := string(text)
	if uid != "" { // in the labels that a Job gives its pods
		out = strings.ReplaceAll(out, uid, "UID")
	}
	return tokenVolume.ReplaceAllString(out, "kube-api-access"), nil
}

// tokenVolume is the name of the volume that the API server adds to a Pod.
var tokenVolume = regexp.MustCompile(`kube-api-access-[a-z0-9]+`)

// holdsAndReleases: a Job, a Pod and a Deployment are held by the webhook and released by the controller.
func holdsAndReleases(t *testing.T) {
	ctx := context.Background()
	b := newStandingBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Kinds = []string{"Job", "Pod", "Deployment"} })
	wait := map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}
	job := b.job("job", wait)
	b.createHeld(job)
	if job.Spec.Suspend == nil || !*job.Spec.Suspend || job.Annotations[v1alpha1.AnnotationPolicy] != "clean" {
		t.Fatalf("the Job is not held at creation: %v", job.Annotations)
	}
	annotations := maps.Clone(b.job("job", wait).Annotations)
	meta := metav1.ObjectMeta{Name: "other", Namespace: b.ns, Labels: map[string]string{"team": "batch", "app": "x"}, Annotations: annotations}
	spec := *job.Spec.Template.Spec.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: *meta.DeepCopy(), Spec: spec}
	b.createHeld(pod)
	if len(pod.Spec.SchedulingGates) != 1 || pod.Spec.SchedulingGates[0].Name != v1alpha1.Gate {
		t.Errorf("the Pod has gates %v", pod.Spec.SchedulingGates)
	}
	three := int32(3)
	spec = *spec.DeepCopy()
	spec.RestartPolicy = corev1.RestartPolicyAlways
	deployment := &appsv1.Deployment{ObjectMeta: *meta.DeepCopy(), Spec: appsv1.DeploymentSpec{
		Replicas: &three, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "d"}}, Spec: spec},
	}}
	b.createHeld(deployment)
	if *deployment.Spec.Replicas != 0 || deployment.Annotations[v1alpha1.AnnotationWorkers] != "3" {
		t.Errorf("the Deployment has %d replicas, %v", *deployment.Spec.Replicas, deployment.Annotations)
	}
	b.eventually("a decision on the held Job", func() bool { return b.decision("job") == "CleanerLater" })
	b.eventually("the policy to say that the webhook holds", func() bool {
		c := b.heldAtCreation()
		return c != nil && c.Reason == v1alpha1.ReasonWebhook && strings.Contains(c.Message, "Deployment, Job, Pod")
	})
	if !b.suspended("job") {
		t.Error("the Job is released in dirty hours")
	}
	b.jump(8)
	b.eventually("all three to be released", func() bool {
		must(t, env.client.Get(ctx, client.ObjectKeyFromObject(pod), pod))
		must(t, env.client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment))
		return !b.suspended("job") && len(pod.Spec.SchedulingGates) == 0 && *deployment.Spec.Replicas == 3
	})
}

// configuration reads that of the webhooks.
func configuration(t *testing.T) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	var c admissionregistrationv1.MutatingWebhookConfiguration
	must(t, env.client.Get(context.Background(), client.ObjectKey{Name: kinds.WebhookConfiguration}, &c))
	return &c
}

// listed are the namespaces that the API server asks about.
func listed(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, w := range configuration(t).Webhooks {
		if w.Name == kinds.NominationsName {
			continue // it is about what others create
		}
		for _, e := range w.NamespaceSelector.MatchExpressions {
			for _, name := range e.Values {
				out[name] = true
			}
		}
	}
	return out
}

// leavesOthersAlone: the API server asks about namespaces with a CarbonPolicy only, never about kube-system and Lull's own; a configuration that somebody
// damages is restored, and one that is right is not written again.
func leavesOthersAlone(t *testing.T) {
	ctx := context.Background()
	b := newStandingBed(t, dirtyThenClean(), nil)
	for _, ns := range []string{"kube-system", charts.Namespace} {
		policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: ns}, Spec: v1alpha1.CarbonPolicySpec{Zone: b.zone}}
		must(t, env.client.Create(ctx, policy))
		t.Cleanup(func() { _ = env.client.Delete(ctx, policy) })
	}
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "without-"}}
	must(t, env.client.Create(ctx, other))
	b.eventually("the namespace to be listed", func() bool { return listed(t)[b.ns] })
	if l := listed(t); l[other.Name] || l["kube-system"] || l[charts.Namespace] || l["default"] {
		t.Errorf("the API server asks about %v", l)
	}
	for ns, annotations := range map[string]map[string]string{other.Name: nil, "kube-system": {v1alpha1.AnnotationGovernBy: "clean"}} {
		job := bed{t: t, ns: ns}.job("free", annotations)
		must(t, env.client.Create(ctx, job, client.DryRunAll))
		if *job.Spec.Suspend || job.Annotations[v1alpha1.AnnotationPolicy] != "" {
			t.Errorf("%s: %v", ns, job.Annotations)
		}
	}
	before := configuration(t)
	damaged := before.DeepCopy()
	for i := range damaged.Webhooks {
		damaged.Webhooks[i].ClientConfig.CABundle = nil
	}
	damaged.Webhooks = damaged.Webhooks[1:]
	must(t, env.client.Update(ctx, damaged))
	b.eventually("the configuration to be restored", func() bool {
		now := configuration(t).Webhooks
		for _, webhooks := range [][]admissionregistrationv1.MutatingWebhook{now, before.Webhooks} {
			for i := range webhooks {
				webhooks[i].NamespaceSelector = nil // a namespace of an earlier test may go meanwhile
			}
		}
		return listed(t)[b.ns] && reflect.DeepEqual(now, before.Webhooks)
	})
	job := b.job("again", nil)
	b.eventually("Jobs to be held again", func() bool {
		job = b.job("again", nil)
		must(t, env.client.Create(ctx, job, client.DryRunAll))
		return *job.Spec.Suspend
	})
	b.eventually("namespaces of tests before to be gone", func() bool {
		l := listed(t)
		delete(l, byPolicy)
		delete(l, byWebhook)
		return len(l) == 1
	})
	steady := configuration(t).ResourceVersion
	time.Sleep(12 * time.Second) // longer than a round of lull admission
	if now := configuration(t); now.ResourceVersion != steady {
		t.Errorf("the configuration is written though nothing changed: %v", now.ManagedFields)
	}
}

// admissionRights: whoever has the token of lull admission may write its own two objects, and no other.
func admissionRights(t *testing.T) {
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", env.admission)
	must(t, err)
	clientset, err := client.New(config, client.Options{Scheme: env.client.Scheme()})
	must(t, err)
	own := configuration(t)
	own.Annotations = map[string]string{"a": "b"}
	if err := clientset.Update(ctx, own); err != nil {
		t.Errorf("its own configuration: %v", err)
	}
	none := admissionregistrationv1.SideEffectClassNone
	url := "https://127.0.0.1:1"
	for name, err := range map[string]error{
		"create a configuration": clientset.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "a.b.c", SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
		}}}),
		"create a Secret":        clientset.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: charts.Namespace}}),
		"read other Secrets":     clientset.List(ctx, &corev1.SecretList{}, client.InNamespace(charts.Namespace)),
		"read Jobs":              clientset.List(ctx, &batchv1.JobList{}, client.InNamespace(byWebhook)),
		"delete the CarbonPlans": clientset.DeleteAllOf(ctx, &v1alpha1.CarbonPolicy{}, client.InNamespace(byWebhook)),
	} {
		if err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// notThere: without lull admission nothing is held, and nothing is refused.
func notThere(t *testing.T, end func()) {
	ctx := context.Background()
	b := newStandingBed(t, dirtyThenClean(), nil)
	end()
	job := b.job("unheld", nil)
	must(t, env.client.Create(ctx, job))
	if *job.Spec.Suspend || job.Annotations[v1alpha1.AnnotationPolicy] != "" {
		t.Errorf("held by nobody: %v", job.Annotations)
	}
	if !listed(t)[b.ns] {
		t.Error("the webhook was not even configured")
	}
	b.eventually("the policy to say that nothing is held", func() bool {
		c := b.heldAtCreation()
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonNotHeld
	})
}
