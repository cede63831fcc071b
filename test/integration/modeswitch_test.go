//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/charts"
	"lull.dev/lull/internal/base/loopback"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/studies/demo"
)

// account makes a kubeconfig of an account of Lull.
func account(t *testing.T, name string) (file string) {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(env.config)
	must(t, err)
	file = filepath.Join(env.dir, name+"-kubeconfig")
	must(t, restrict(context.Background(), env.config, clientset, name, file))
	return file
}

// rendered are the objects that the manifests with some options have, by kind and name.
func rendered(t *testing.T, o charts.Options) map[string]*unstructured.Unstructured {
	t.Helper()
	text, err := charts.Manifests(kinds.Builtin(), o)
	must(t, err)
	out := map[string]*unstructured.Unstructured{}
	for _, one := range strings.Split(text, "\n---\n") {
		var obj unstructured.Unstructured
		must(t, yaml.Unmarshal([]byte(one), &obj.Object))
		if len(obj.Object) > 0 {
			out[obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName()] = &obj
		}
	}
	return out
}

// reinstall does what an upgrade of the chart does: it applies what there is with the new options, then deletes what there was only with the old ones.
func reinstall(t *testing.T, before, after charts.Options) (deleted []string) {
	t.Helper()
	must(t, demo.Install(context.Background(), env.client, kinds.Builtin(), after))
	stay := rendered(t, after)
	for name, obj := range rendered(t, before) {
		if stay[name] == nil {
			must(t, client.IgnoreNotFound(env.client.Delete(context.Background(), obj)))
			deleted = append(deleted, name)
		}
	}
	return deleted
}

// heldJobs creates Jobs that must come back held, and waits until the controller has decided on them.
func (b bed) heldJobs(prefix string, n int) (out []*batchv1.Job) {
	b.t.Helper()
	for i := range n {
		job := b.job(fmt.Sprintf("%s-%d", prefix, i), map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		b.createHeld(job)
		out = append(out, job)
	}
	b.eventually("decisions on all of "+prefix, func() bool {
		for _, job := range out {
			if b.decision(job.Name) != "CleanerLater" {
				return false
			}
		}
		return true
	})
	return out
}

// stillHeld checks that Jobs are the same as before, suspended and marked.
func (b bed) stillHeld(when string, jobs []*batchv1.Job) {
	b.t.Helper()
	for _, was := range jobs {
		if j := b.get(was.Name); j.UID != was.UID || !*j.Spec.Suspend || j.Annotations[v1alpha1.AnnotationHold] != v1alpha1.HoldAdmission || j.Status.Active > 0 {
			b.t.Errorf("%s: %s: %v %+v", when, j.Name, j.Annotations, j.Status)
		}
	}
}

// TestAdmissionModeIsSwitched: a chart whose policies hold is upgraded so that the webhook holds, and back. What was held in either mode
// stays held, with its marks. Work that comes is held by the mode of the time, and all runs in the clean hours.
func TestAdmissionModeIsSwitched(t *testing.T) {
	if older() != "" {
		t.Skip("this server has no policies that hold: TestControlPlaneIsUpgraded switches there")
	}
	bareLab(t)
	policies, webhook := charts.Options{}, charts.Options{Webhook: true}
	must(t, demo.Install(context.Background(), env.client, kinds.Builtin(), policies))
	env.restricted = account(t, "lull-controller")
	b := newStandingBed(t, dirtyThenClean(), nil)
	controller := startController(t)
	var all []*batchv1.Job
	holds := func(reason string) {
		t.Helper()
		must(t, controller.Process.Signal(syscall.SIGTERM)) // it asks who holds when it starts
		_ = controller.Wait()
		controller = startController(t)
		b.eventually("the policy to say that work is held by "+reason, func() bool {
			c := b.heldAtCreation()
			return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason
		})
		all = append(all, b.heldJobs(strings.ToLower(reason)+fmt.Sprint(len(all)), 8)...)
		b.stillHeld("while work is held by "+reason, all)
	}
	holds(v1alpha1.ReasonAdmissionPolicy)

	if gone := reinstall(t, policies, webhook); len(gone) == 0 {
		t.Error("the webhook's manifests have all objects of the policies")
	}
	env.admission = account(t, "lull-admission")
	address, err := loopback.FreeAddress()
	must(t, err)
	end := startAdmission(t, address)
	b.stillHeld("after the switch to the webhook", all)
	holds(v1alpha1.ReasonWebhook)

	if gone := reinstall(t, webhook, policies); len(gone) == 0 {
		t.Error("the policies' manifests have all objects of the webhook")
	}
	end()
	b.stillHeld("after the switch to policies", all)
	holds(v1alpha1.ReasonAdmissionPolicy)

	b.jump(8)
	b.eventually("all to be released", func() bool {
		for _, job := range all {
			if b.suspended(job.Name) {
				return false
			}
		}
		return true
	})
}

// TestPoliciesThatHoldNothing: an API server serves admission policies and accepts them, but evaluates none, as its admission plugin is off. admission.mode=auto of the chart takes policies there.
// The controller finds out by its dry run that nothing holds: the condition and lull status say so. With the webhook instead, work is held.
func TestPoliciesThatHoldNothing(t *testing.T) {
	if older() != "" {
		t.Skip("this server does not serve the policies")
	}
	bareLab(t, "--api-server-flag", "--disable-admission-plugins=MutatingAdmissionPolicy")
	policies, webhook := charts.Options{}, charts.Options{Webhook: true}
	must(t, demo.Install(context.Background(), env.client, kinds.Builtin(), policies))
	env.restricted = account(t, "lull-controller")
	b := newPolicyBed(t, dirtyThenClean(), nil)
	b.startZone(1)
	startController(t)
	says := func(status metav1.ConditionStatus, reason, words string) {
		t.Helper()
		b.eventually("the condition "+reason, func() bool {
			c := b.heldAtCreation()
			return c != nil && c.Status == status && c.Reason == reason
		})
		// Its exit status is about leases, which the programs of tests have not.
		out, _ := exec.Command(os.Getenv("LULL_BIN"), "status", "--kubeconfig", env.kubeconfig, "-n", b.ns).CombinedOutput()
		if !strings.Contains(string(out), words) {
			t.Errorf("lull status: %s", out)
		}
		t.Logf("%+v\n%s", b.heldAtCreation(), out)
	}
	says(metav1.ConditionFalse, v1alpha1.ReasonNotHeld, "NOT HELD at creation since ")
	job := b.job("unheld", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
	b.submit(job)
	if _, held := job.Annotations[v1alpha1.AnnotationHold]; held {
		t.Errorf("the Job is held: %v", job.Annotations)
	}

	reinstall(t, policies, webhook)
	env.admission = account(t, "lull-admission")
	address, err := loopback.FreeAddress()
	must(t, err)
	startAdmission(t, address)
	b.governed()
	says(metav1.ConditionTrue, v1alpha1.ReasonWebhook, "held at creation by the webhook since ")
	b.stillHeld("by the webhook", b.heldJobs("held", 3))
}

// TestRetire: lull retire releases all that is held, whoever holds at creation, and pauses the policies: what comes then runs at once. If
// Lull is installed again and the policies are resumed, they hold again.
func TestRetire(t *testing.T) {
	bareLab(t)
	o := charts.Options{Webhook: older() != ""}
	must(t, demo.Install(context.Background(), env.client, kinds.Builtin(), o))
	env.restricted = account(t, "lull-controller")
	if o.Webhook {
		env.admission = account(t, "lull-admission")
		address, err := loopback.FreeAddress()
		must(t, err)
		startAdmission(t, address)
	}
	startController(t)
	b := newStandingBed(t, dirtyThenClean(), nil)
	jobs := b.heldJobs("held", 10)
	lull := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(os.Getenv("LULL_BIN"), append(args, "--kubeconfig", env.kubeconfig)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("lull %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	t.Log(lull("retire"))
	released := func(name string) bool {
		j := b.get(name)
		_, marked := j.Annotations[v1alpha1.AnnotationHold]
		return !*j.Spec.Suspend && !marked
	}
	for _, job := range jobs {
		if !released(job.Name) {
			t.Errorf("%s after lull retire: %v", job.Name, b.get(job.Name).Annotations)
		}
	}
	t.Log(lull("retire"), "again: it has nothing to do")
	b.eventually("work to be created as its user wrote it", func() bool {
		job := b.job("free", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		must(t, env.client.Create(context.Background(), job))
		if _, held := job.Annotations[v1alpha1.AnnotationHold]; !held {
			return true
		}
		must(t, env.client.Delete(context.Background(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		return false
	})
	must(t, demo.Install(context.Background(), env.client, kinds.Builtin(), o)) // lull retire takes the rights away too
	t.Log(lull("release", "--all", "--undo"))
	b.heldJobs("again", 3)
}
