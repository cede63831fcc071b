//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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

// TestWatchdogAloneReleasesEachHoldInTime: with no controller at all, the watchdog releases each hold when its time has come, and none before: of a Job
// that no controller has ever seen, of one that an earlier controller held, and of one whose policy is gone. TestWatchdogReleasesEachHoldInTime of
// test/controlloop checks that none is released too late.
func TestWatchdogAloneReleasesEachHoldInTime(t *testing.T) {
	controller := startController(t)
	b := newStandingBed(t, dirtyThenClean(), nil)
	b.submit(b.job("seen", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
	b.eventually("a decision", func() bool { return b.decision("seen") == "CleanerLater" })
	must(t, controller.Process.Kill())
	_ = controller.Wait()
	// Nobody plans any more; what stands in the objects decides.
	change := func(obj client.Object, patch string) {
		must(t, env.client.Patch(context.Background(), obj, client.RawPatch("application/merge-patch+json", []byte(patch))))
	}
	start(t, []string{"failsafe", "--kubeconfig", env.failsafe, "--grace", "0s", "--every", "200ms"})
	b.submit(b.job("long", map[string]string{v1alpha1.AnnotationMaxDelay: "480h"}))
	// The margin of the policy is two hours: its latest start comes after twenty seconds.
	b.submit(b.job("unseen", map[string]string{v1alpha1.AnnotationMaxDelay: "2h20s"}))
	unseen := b.get("unseen").CreationTimestamp.Add(20 * time.Second)
	b.eventually("the unseen Job to be released", func() bool { return !b.suspended("unseen") })
	if now := time.Now(); now.Before(unseen) {
		t.Errorf("released at %v, its latest start is %v", now, unseen)
	}
	// The controller wrote a latest start of tomorrow. This is as if it were about to come.
	if _, err := time.Parse(time.RFC3339, b.get("seen").Annotations[v1alpha1.AnnotationLatestStart]); err != nil || !b.suspended("seen") {
		t.Fatalf("suspended: %v; latest start: %v", b.suspended("seen"), err)
	}
	latest := time.Now().Add(10 * time.Second).Truncate(time.Second)
	change(b.get("seen"), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationLatestStart, latest.UTC().Format(time.RFC3339)))
	b.eventually("the Job that a controller held to be released", func() bool { return !b.suspended("seen") })
	if now := time.Now(); now.Before(latest) {
		t.Errorf("released at %v, its latest start is %v", now, latest)
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

// TestDeploymentsRunUnderRestrictedPodSecurity: what `lull manifests --image` prints runs under the restricted pod security
// of its namespace: the controller with its volume and the web page, and the watchdog.
func TestDeploymentsRunUnderRestrictedPodSecurity(t *testing.T) {
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
