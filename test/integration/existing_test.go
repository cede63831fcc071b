//go:build integration

package integration

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// secondLine: while lull admission is not there and no controller runs, two Jobs are created, of which one starts. The controller that starts then suspends the
// other one, if the policy asks for it, with the rights of its account; and says of the first why it is left alone.
func secondLine(t *testing.T, b bed, controller *exec.Cmd) {
	ctx := context.Background()
	must(t, controller.Process.Kill())
	waits := endless(b.job("waits", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
	waits.Spec.Template.Spec.NodeSelector = map[string]string{"there-is": "none"}
	started := endless(b.job("started", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
	must(t, env.client.Create(ctx, started))
	must(t, env.client.Create(ctx, waits))
	get := func(name string) (job batchv1.Job) {
		must(t, env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: name}, &job))
		return job
	}
	b.eventually("one Job to run, and the other one to have a pod that waits", func() bool {
		s := get("started").Status
		return s.Ready != nil && *s.Ready == 1 && get("waits").Status.Active == 1
	})
	startController(t)
	b.eventually("the Job that waits to be suspended", func() bool { return b.suspended("waits") })
	if a := get("waits").Annotations; a[v1alpha1.AnnotationPolicy] != "clean" || a[v1alpha1.AnnotationHold] != v1alpha1.HoldAdmission || a[v1alpha1.AnnotationLatestStart] == "" {
		t.Errorf("%v", a)
	}
	b.eventually("its pod to go", func() bool {
		var pods corev1.PodList
		must(t, env.client.List(ctx, &pods, client.InNamespace(b.ns), client.MatchingLabels{batchv1.JobNameLabel: "waits"}))
		return len(pods.Items) == 0
	})
	b.eventually("a decision on it", func() bool { return b.decision("waits") == "CleanerLater" })
	explain := func() string {
		out, _ := exec.Command(os.Getenv("LULL_BIN"), "explain", "job/started", "-n", b.ns, "--kubeconfig", env.kubeconfig).CombinedOutput()
		return string(out)
	}
	if out := explain(); !strings.Contains(out, "Lull leaves it alone: status.ready is 1") {
		t.Errorf("lull explain: %s", out)
	}
	if job := get("started"); *job.Spec.Suspend || job.Annotations[v1alpha1.AnnotationPolicy] != "" {
		t.Errorf("a Job that has started is held: %v", job.Annotations)
	}
}
