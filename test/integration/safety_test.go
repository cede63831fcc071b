//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

// command runs a command of Lull as the administrator and returns what it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(os.Getenv("LULL_BIN"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.kubeconfig)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("lull %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

// TestFailsafe: with no controller at all, the watchdog releases each hold when its time has
// come, and none before: of a Job that no controller has ever seen, of one that an earlier
// controller held, and of one whose policy is gone.
func TestFailsafe(t *testing.T) {
	controller := startController(t)
	b := newBed(t, dirtyDay(), nil)
	b.submit(b.job("seen", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"}))
	b.eventually("a decision", func() bool { return b.decision("seen") == "CleanerLater" })
	must(t, controller.Process.Kill())
	_ = controller.Wait()
	// Nobody plans any more; what stands in the objects decides.
	start(t, []string{"failsafe", "--kubeconfig", env.failsafe, "--grace", "0s", "--every", "200ms"})
	b.submit(b.job("unseen", map[string]string{v1alpha1.AnnotationMaxDelay: "12h"}))
	b.submit(b.job("long", map[string]string{v1alpha1.AnnotationMaxDelay: "480h"}))
	latest, err := time.Parse(time.RFC3339, b.get("seen").Annotations[v1alpha1.AnnotationLatestStart])
	must(t, err)
	created := b.get("unseen").CreationTimestamp.Time
	b.eventually("the unseen Job to be released", func() bool { return !b.suspended("unseen") })
	if waited := b.gridTime(time.Now()).Sub(b.gridTime(created)); waited < 9*time.Hour {
		t.Errorf("released after %v of the series, long before its latest start", waited)
	}
	if !b.suspended("seen") && time.Now().Before(latest) {
		t.Error("a Job was released before its time")
	}
	b.eventually("the Job that a controller held to be released", func() bool { return !b.suspended("seen") })
	if time.Now().Before(latest.Add(-time.Second)) {
		t.Errorf("released before its latest start %v", latest)
	}
	if got := b.decision("seen"); got != "Failsafe" {
		t.Errorf("released for %q", got)
	}
	if !b.suspended("long") {
		t.Error("a Job with weeks of slack was released")
	}
	// One that must not wait any more, one that its user opens and suspends again, and all when the policy is paused.
	weeks := map[string]string{v1alpha1.AnnotationMaxDelay: "480h"}
	b.submit(b.job("edited", weeks))
	b.submit(b.job("users", weeks))
	change := func(obj client.Object, patch string) {
		must(t, env.client.Patch(context.Background(), obj, client.RawPatch("application/merge-patch+json", []byte(patch))))
	}
	change(b.get("edited"), `{"metadata":{"annotations":{"lull.dev/max-delay":"0s"}}}`)
	b.eventually("the edited Job to be released", func() bool { return !b.suspended("edited") })
	change(b.get("users"), `{"spec":{"suspend":false}}`)
	b.eventually("the opened Job to lose its mark", func() bool { return b.get("users").Annotations[v1alpha1.AnnotationHold] == "" })
	change(b.get("users"), `{"spec":{"suspend":true}}`)
	b.submit(b.job("paused", weeks))
	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: b.ns}}
	if !b.suspended("paused") {
		t.Fatal("a Job with weeks of slack is not held")
	}
	change(policy, `{"spec":{"paused":true}}`)
	b.eventually("what a paused policy held to be released", func() bool { return !b.suspended("paused") })
	change(policy, `{"spec":{"paused":false}}`)
	b.submit(b.job("last", weeks))
	must(t, env.client.Delete(context.Background(), policy))
	b.eventually("the Job whose policy is gone to be released", func() bool { return !b.suspended("long") && !b.suspended("last") })
	b.eventually("all to finish", func() bool {
		return b.finished("seen") && b.finished("unseen") && b.finished("long") && b.finished("edited") && b.finished("last")
	})
	if !b.suspended("users") {
		t.Error("what its user suspended was resumed")
	}
}

// TestPodsAndDeployments: kinds without a suspend field: a Pod and a group of Pods are held
// by their scheduling gate, a Deployment at no replicas, and get back what they had.
func TestPodsAndDeployments(t *testing.T) {
	startController(t)
	ctx := context.Background()
	b := newBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Kinds = []string{"Job", "Pod", "Deployment"} })
	labels := map[string]string{"team": "batch"}
	annotations := map[string]string{v1alpha1.AnnotationRuntime: "1h", v1alpha1.AnnotationMaxDelay: "12h", "lab.lull.dev/runtime": "1h"}
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
		Name: "work", Image: "example.invalid/work", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}}}
	pod := func(name, group string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.ns, Labels: map[string]string{"team": "batch"}, Annotations: annotations}, Spec: *spec.DeepCopy()}
		if group != "" {
			p.Labels[v1alpha1.LabelGroup] = group
			p.Annotations = map[string]string{v1alpha1.AnnotationGroupSize: "2"}
			for k, v := range annotations {
				p.Annotations[k] = v
			}
		}
		return p
	}
	three := int32(3)
	always := spec.DeepCopy()
	always.RestartPolicy = corev1.RestartPolicyAlways
	for _, obj := range []client.Object{
		pod("alone", ""), pod("left", "pair"), pod("right", "pair"),
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "workers", Namespace: b.ns, Labels: labels, Annotations: annotations},
			Spec: appsv1.DeploymentSpec{
				Replicas: &three, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "w"}},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "w"}}, Spec: *always},
			},
		},
	} {
		must(t, env.client.Create(ctx, obj))
	}
	gates := func(name string) int {
		var p corev1.Pod
		must(t, env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: name}, &p))
		return len(p.Spec.SchedulingGates)
	}
	deployment := func() *appsv1.Deployment {
		var d appsv1.Deployment
		must(t, env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "workers"}, &d))
		return &d
	}
	if gates("alone") != 1 || gates("left") != 1 || gates("right") != 1 || *deployment().Spec.Replicas != 0 {
		t.Fatalf("held: gates %d %d %d, replicas %d", gates("alone"), gates("left"), gates("right"), *deployment().Spec.Replicas)
	}
	b.eventually("plans for each, and one for the group", func() bool {
		return b.plan("pod-alone").Status.State == v1alpha1.PlanWaiting && b.plan("podgroup-pair").Status.State == v1alpha1.PlanWaiting &&
			b.plan("deployment-workers").Status.State == v1alpha1.PlanWaiting
	})
	if n := len(b.plan("podgroup-pair").OwnerReferences); n != 2 {
		t.Errorf("the plan of the group has %d owners, want both Pods", n)
	}
	b.eventually("the Pods to run", func() bool { return gates("alone") == 0 && gates("left") == 0 && gates("right") == 0 })
	b.eventually("the Deployment to have its replicas back", func() bool { return *deployment().Spec.Replicas == 3 })
	if at := b.gridTime(time.Now()); at.Before(gridStart.Add(7*time.Hour + 40*time.Minute)) {
		t.Errorf("released at %v of the series, want the clean hours from 08:00", at)
	}
	b.eventually("the Pods to be done", func() bool { return b.plan("podgroup-pair").Status.State == v1alpha1.PlanFinished })
	// A pod of the Deployment is part of it, not a workload.
	var pods corev1.PodList
	must(t, env.client.List(ctx, &pods, client.InNamespace(b.ns), client.MatchingLabels{"app": "w"}))
	for i := range pods.Items {
		if pods.Items[i].Annotations[v1alpha1.AnnotationPolicy] != "" {
			t.Error("a pod that a ReplicaSet owns is governed by itself")
		}
	}
	var jobs batchv1.JobList
	must(t, env.client.List(ctx, &jobs, client.InNamespace(b.ns)))
}

// TestDeployments: what `lull manifests --image` prints runs under the restricted pod security
// of its namespace: the controller with its volume and the web page, and the watchdog.
func TestDeployments(t *testing.T) {
	ctx := context.Background()
	reader := yamlutil.NewYAMLReader(bufio.NewReader(strings.NewReader(command(t, "manifests", "--web", "--image", "example.invalid/lull:test"))))
	made := []client.Object{&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "ledger"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Namespace: "lull-system", Name: "lull-ledger"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/ledger"}},
		},
	}}
	var deployments []client.Object
	t.Cleanup(func() {
		for _, obj := range made {
			_ = env.client.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationForeground))
		}
	})
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		var obj unstructured.Unstructured
		must(t, yaml.Unmarshal(text, &obj.Object))
		switch obj.GetKind() {
		case "PersistentVolumeClaim": // bound here, as the lab has nobody who does
			obj.SetAnnotations(map[string]string{"pv.kubernetes.io/bind-completed": "yes"})
			must(t, unstructured.SetNestedField(obj.Object, "ledger", "spec", "volumeName"))
			made = append(made, &obj)
		case "Deployment":
			deployments = append(deployments, &obj)
		}
	}
	if len(made) != 2 || len(deployments) != 2 {
		t.Fatalf("%d volumes and claims, %d Deployments, want 2 and 2", len(made), len(deployments))
	}
	made = append(made, deployments...)
	for _, obj := range made {
		must(t, env.client.Create(ctx, obj))
	}
	for _, obj := range deployments {
		bed{t: t, ns: "lull-system"}.eventually(obj.GetName()+" to be available", func() bool {
			var d appsv1.Deployment
			must(t, env.client.Get(ctx, client.ObjectKeyFromObject(obj), &d))
			return d.Status.AvailableReplicas == *d.Spec.Replicas
		})
	}
}
