//go:build integration && realnode

package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/charts"
)

const lullImage = "lull.dev/lull:test"

// helm runs the real one against the lab.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Getenv("LULL_HELM"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.kubeconfig, "HELM_CACHE_HOME="+env.dir, "HELM_CONFIG_HOME="+env.dir, "HELM_DATA_HOME="+env.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		for _, pods := range []string{"describe pods", "logs -l app.kubernetes.io/name=lull --tail 30", "get events"} {
			more, _ := lab(append([]string{"kubectl", "--kubeconfig", env.kubeconfig, "-n", charts.Namespace}, strings.Fields(pods)...)...)
			t.Log(more[max(0, len(more)-6000):])
		}
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// previousChart is the chart with a lower version and some kinds fewer.
func previousChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lull")
	must(t, os.CopyFS(dir, os.DirFS("../../charts/lull")))
	for file, change := range map[string][2]string{
		"Chart.yaml":  {"\nversion: ", "\nversion: 0.0.1\n# "},
		"values.yaml": {"kinds: [Job, JobSet, ", "kinds: [Job, "},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		must(t, err)
		changed := bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(text, changed) {
			t.Fatalf("%s has no %q", file, change[0])
		}
		must(t, os.WriteFile(filepath.Join(dir, file), changed, 0o600))
	}
	return dir
}

// ledgerVolume makes a volume for the ledger on the real node.
func ledgerVolume(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))
	must(t, env.client.Create(context.Background(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "ledger"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "lull.dev/real", Operator: corev1.NodeSelectorOpIn, Values: []string{"true"}}},
			}}}},
		},
	}))
}

// objects are those of manifests.
func objects(t *testing.T, manifests string) (out []*unstructured.Unstructured) {
	t.Helper()
	for text := range strings.SplitSeq("\n"+manifests, "\n---\n") {
		u := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(text), &u.Object))
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// TestRealNodeHelm installs the chart with Helm on a cluster whose node runs the image of the
// Containerfile, restricted as the chart says and with the rights that it gives; upgrades it while
// Jobs are held, and uninstalls it: nothing stays held, no object stays behind.
func TestRealNodeHelm(t *testing.T) {
	ctx := context.Background()
	dir := bareLab(t, realNodeFlags(t, map[string]string{lullImage: "LULL_IMAGE"})...)
	tellOfNode(t, dir)
	ledgerVolume(t)
	must(t, env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: charts.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}))
	const chart = "../../charts/lull"
	set := []string{"--namespace", charts.Namespace, "--wait", "--timeout", "2m", "--set", "image.repository=lull.dev/lull,image.tag=test,capacity.enabled=true"}
	t.Log(helm(t, "lint", "--strict", chart, "--set", "image.repository=lull.dev/lull"))
	helm(t, append([]string{"install", "lull", previousChart(t)}, set...)...)

	clean := make([]float64, 96)
	for h := range clean {
		clean[h] = 500
	}
	clean[85] = 50
	b := newBed(t, clean, nil)
	held := func(j *batchv1.Job) bool { return *j.Spec.Suspend && j.Annotations[v1alpha1.AnnotationHold] != "" }
	get := func(name string) *batchv1.Job {
		var j batchv1.Job
		must(t, env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: name}, &j))
		return &j
	}
	for i := range 3 {
		b.submit(b.job(fmt.Sprint("job-", i), map[string]string{v1alpha1.AnnotationMaxDelay: "90h"}))
	}
	b.eventually("plans by the controller in its pod", func() bool { return b.plan("job-job-2").Status.State != "" })
	for _, u := range objects(t, fmt.Sprintf(`
apiVersion: lull.dev/v1alpha1
kind: CapacityCurve
metadata: {name: nodes}
spec:
  zone: %[1]s
  target: {nodes: {matchLabels: {pool: batch}}}
  maximum: 2
  policies: [{name: clean, namespace: %[1]s}]
  method: {planned: {}}
---
apiVersion: lull.dev/v1alpha1
kind: Follow
metadata: {name: web, namespace: %[1]s}
spec:
  clusters: [a, b]
  manifests:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}
`, b.ns)) {
		must(t, env.client.Create(ctx, u))
		b.eventually("the controller to have taken "+u.GetKind()+" in", func() bool {
			return env.client.Get(ctx, client.ObjectKeyFromObject(u), u) == nil && len(u.GetFinalizers()) > 0
		})
	}

	helm(t, append([]string{"upgrade", "lull", chart}, set...)...)
	if out := helm(t, "list", "--namespace", charts.Namespace); !strings.Contains(out, "lull-0.1.0") {
		t.Errorf("after the upgrade: %s", out)
	}
	b.submit(b.job("later", map[string]string{v1alpha1.AnnotationMaxDelay: "90h"}))
	b.eventually("a plan by the new controller", func() bool { return b.plan("job-later").Status.State != "" })
	for _, name := range []string{"job-0", "job-2", "later"} {
		if j := get(name); !held(j) {
			t.Errorf("%s is not held after the upgrade: %v", name, j.Annotations)
		}
	}

	// The other way: let all go first, and go on after it.
	helm(t, append([]string{"upgrade", "lull", chart, "--set", "hooks.releaseOnUpgrade=true"}, set...)...)
	var policy v1alpha1.CarbonPolicy
	must(t, env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "clean"}, &policy))
	if held(get("job-0")) || policy.Spec.Paused {
		t.Errorf("after an upgrade that releases: %v, policy paused %v", get("job-0").Annotations, policy.Spec.Paused)
	}
	for i := range 2 {
		b.submit(b.job(fmt.Sprint("last-", i), map[string]string{v1alpha1.AnnotationMaxDelay: "90h"}))
	}
	b.eventually("plans", func() bool { return b.plan("job-last-1").Status.State != "" && held(get("last-0")) })
	left := objects(t, helm(t, "get", "manifest", "lull", "--namespace", charts.Namespace))
	if !slices.ContainsFunc(left, func(u *unstructured.Unstructured) bool { return u.GetKind() == "CustomResourceDefinition" }) || len(left) < 40 {
		t.Fatalf("%d objects", len(left))
	}
	left = append(left, objects(t, helm(t, "get", "hooks", "lull", "--namespace", charts.Namespace))...)

	helm(t, "uninstall", "lull", "--namespace", charts.Namespace, "--wait", "--timeout", "3m")
	for _, name := range []string{"job-0", "later", "last-0", "last-1"} {
		if j := get(name); *j.Spec.Suspend || j.Annotations[v1alpha1.AnnotationHold] != "" {
			t.Errorf("%s stays held", name)
		}
	}
	for _, u := range left {
		// What is deleted may take a moment to go.
		b.eventually(fmt.Sprintf("%s %s to be gone", u.GetKind(), u.GetName()), func() bool {
			err := env.client.Get(ctx, client.ObjectKeyFromObject(u), u)
			return apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
		})
	}
	plain := b.job("plain", nil)
	must(t, env.client.Create(ctx, plain))
	if plain.Spec.Suspend != nil && *plain.Spec.Suspend || plain.Annotations[v1alpha1.AnnotationPolicy] != "" {
		t.Errorf("a Job is still governed: %v", plain.Annotations)
	}
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.PodList{}, &batchv1.JobList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{}} {
		var names []string
		b.eventually("the namespace to be empty", func() bool {
			must(t, env.client.List(ctx, list, client.InNamespace(charts.Namespace)))
			items, err := meta.ExtractList(list)
			must(t, err)
			names = nil
			for _, item := range items {
				if o, ok := item.(client.Object); ok && o.GetName() != "kube-root-ca.crt" {
					names = append(names, fmt.Sprintf("%T %s", o, o.GetName()))
				}
			}
			return len(names) == 0
		})
	}
}
