//go:build integration && realnode

package integration

import (
	"bytes"
	"context"
	"errors"
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
	"k8s.io/apimachinery/pkg/types"
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

// previousChart is that of the tree LULL_PREVIOUS, with the tag of the image that make test-upgrade has packed of it; without one
// the present chart with some kinds fewer, and the present image. Its version is lower in any case.
func previousChart(t *testing.T) (dir, tag string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "lull")
	if previous := os.Getenv("LULL_PREVIOUS"); previous != "" {
		must(t, os.CopyFS(dir, os.DirFS(filepath.Join(previous, "charts", "lull"))))
		must(t, replaceIn(filepath.Join(dir, "Chart.yaml"), "\nversion: ", "\nversion: 0.0.1\n# "))
		return dir, "previous"
	}
	must(t, os.CopyFS(dir, os.DirFS("../../charts/lull")))
	must(t, replaceIn(filepath.Join(dir, "Chart.yaml"), "\nversion: ", "\nversion: 0.0.1\n# "))
	must(t, replaceIn(filepath.Join(dir, "values.yaml"), "kinds: [Job, JobSet, ", "kinds: [Job, "))
	return dir, "test"
}

// replaceIn changes a text in a file, which must be there.
func replaceIn(file, from, to string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed := bytes.Replace(text, []byte(from), []byte(to), 1)
	if bytes.Equal(text, changed) {
		return fmt.Errorf("%s has no %q", file, from)
	}
	return os.WriteFile(file, changed, 0o600)
}

// ledgerVolume makes a volume for a ledger on the real node.
func ledgerVolume(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))
	must(t, env.client.Create(context.Background(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ledger-"},
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
// Containerfile, restricted as the chart says and with the rights that it gives, beside Kueue; upgrades it while
// Jobs are held, some of them in a queue, and uninstalls it: nothing stays held, no object stays behind but those with data.
func TestRealNodeHelm(t *testing.T) {
	ctx := context.Background()
	previous, tag := previousChart(t)
	images := map[string]string{lullImage: "LULL_IMAGE"}
	if tag == "previous" {
		t.Setenv("LULL_PREVIOUS_IMAGE", os.Getenv("LULL_PREVIOUS")+".tar")
		images["lull.dev/lull:previous"] = "LULL_PREVIOUS_IMAGE"
	}
	dir := bareLab(t, append(realNodeFlags(t, images), "--kueue")...)
	tellOfNode(t, dir)
	ledgerVolume(t)
	must(t, env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: charts.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}))
	const chart = "../../charts/lull"
	set := []string{"--namespace", charts.Namespace, "--wait", "--timeout", "4m", "--set", "image.repository=lull.dev/lull,image.tag=test,capacity.enabled=true,kueue.enabled=true"}
	t.Log(helm(t, "lint", "--strict", chart, "--set", "image.repository=lull.dev/lull"))
	helm(t, append(append([]string{"install", "lull", previous}, set...), "--set", "image.tag="+tag)...)

	clean := make([]float64, 96)
	for h := range clean {
		clean[h] = 500
	}
	clean[85] = 50
	// Nothing may be released for the time that it takes: an hour of the series is a minute, and the clean one comes after 85.
	slow := func(b bed) bed {
		zone := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: b.zone}}
		must(t, env.client.Patch(ctx, zone, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replay":{"factor":60}}}`))))
		return b
	}
	b := slow(newBed(t, clean, nil))
	held := func(j *batchv1.Job) bool { return *j.Spec.Suspend && j.Annotations[v1alpha1.AnnotationHold] != "" }
	get := func(name string) *batchv1.Job {
		var j batchv1.Job
		must(t, env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: name}, &j))
		return &j
	}
	waits := map[string]string{v1alpha1.AnnotationMaxDelay: "90h"}
	small := func(j *batchv1.Job) *batchv1.Job { // all fit onto the node in the same hour
		j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("100m")
		return j
	}
	for i := range 3 {
		b.submit(small(b.job(fmt.Sprint("job-", i), waits)))
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

	queue := slow(newBed(t, clean, nil))
	queue.inQueue()
	queue.submit(small(queue.queued("queued", waits)))
	gated := func() bool {
		w := queue.workload("queued")
		return w != nil && w.Gated && !w.Reserved
	}
	queue.eventually("a plan of what waits in a queue", func() bool { return queue.plan("job-queued").Status.State != "" && gated() })

	helm(t, append([]string{"upgrade", "lull", chart}, set...)...)
	if out := helm(t, "list", "--namespace", charts.Namespace); !strings.Contains(out, "lull-0.1.0") {
		t.Errorf("after the upgrade: %s", out)
	}
	b.submit(small(b.job("later", waits)))
	b.eventually("a plan by the new controller", func() bool { return b.plan("job-later").Status.State != "" })
	for _, name := range []string{"job-0", "job-1", "job-2", "later"} {
		if j := get(name); !held(j) {
			t.Errorf("%s is not held after the upgrade: %v", name, j.Annotations)
		}
	}

	if !gated() {
		t.Errorf("not held in its queue after the upgrade: %+v", queue.workload("queued"))
	}

	// The other way: let all go first, and go on after it.
	helm(t, append([]string{"upgrade", "lull", chart, "--set", "hooks.releaseOnUpgrade=true"}, set...)...)
	var policy v1alpha1.CarbonPolicy
	must(t, env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "clean"}, &policy))
	if held(get("job-0")) || policy.Spec.Paused {
		t.Errorf("after an upgrade that releases: %v, policy paused %v", get("job-0").Annotations, policy.Spec.Paused)
	}
	queue.eventually("Kueue to let run what was queued", func() bool { return !queue.suspended("queued") })
	queue.submit(small(queue.queued("last", waits)))
	queue.eventually("another to be held in the queue", func() bool { w := queue.workload("last"); return w != nil && w.Gated })
	for i := range 2 {
		b.submit(small(b.job(fmt.Sprint("last-", i), waits)))
	}
	b.eventually("plans", func() bool { return b.plan("job-last-1").Status.State != "" && held(get("last-0")) })
	left := objects(t, helm(t, "get", "manifest", "lull", "--namespace", charts.Namespace))
	if !slices.ContainsFunc(left, func(u *unstructured.Unstructured) bool { return u.GetKind() == "CustomResourceDefinition" }) || len(left) < 40 {
		t.Fatalf("%d objects", len(left))
	}
	left = append(left, objects(t, helm(t, "get", "hooks", "lull", "--namespace", charts.Namespace))...)

	helm(t, "uninstall", "lull", "--namespace", charts.Namespace, "--wait", "--timeout", "4m")
	for _, name := range []string{"job-0", "later", "last-0", "last-1"} {
		if j := get(name); *j.Spec.Suspend || j.Annotations[v1alpha1.AnnotationHold] != "" {
			t.Errorf("%s stays held", name)
		}
	}
	queue.eventually("Kueue to let run what was held in a queue", func() bool { return !queue.suspended("last") })
	kept := 0
	for _, u := range left {
		if u.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
			must(t, env.client.Get(ctx, client.ObjectKeyFromObject(u), u))
			kept++
			continue
		}
		// What is deleted may take a moment to go.
		b.eventually(fmt.Sprintf("%s %s to be gone", u.GetKind(), u.GetName()), func() bool {
			err := env.client.Get(ctx, client.ObjectKeyFromObject(u), u)
			return apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
		})
	}
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(&policy), &policy); err != nil || kept != 9 {
		t.Errorf("%d objects are kept, policy: %v", kept, err)
	}
	plain := b.job("plain", nil)
	must(t, env.client.Create(ctx, plain))
	if plain.Spec.Suspend != nil && *plain.Spec.Suspend || plain.Annotations[v1alpha1.AnnotationPolicy] != "" {
		t.Errorf("a Job is still governed: %v", plain.Annotations)
	}
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.PodList{}, &batchv1.JobList{}, &corev1.SecretList{}} {
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

// TestRealNodePages runs the commands of docs/install.md as printed, with the image that they build, and those of
// other pages that need Lull inside of a cluster. On an older control plane the webhook holds: the API server reaches it by its Service.
func TestRealNodePages(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	dir := workspace(t)
	environ := append(installed(t, dir), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	run := func(in, script string) string {
		t.Helper()
		t.Log(script)
		out, err := shell(in, "set -eo pipefail\n"+script, environ...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	todo := commandsOf(t, "docs/install.md")
	next := func(in, prefix string) {
		t.Helper()
		if len(todo) == 0 || !strings.HasPrefix(todo[0], prefix) {
			t.Fatalf("the page goes on with %q, not with %s", todo, prefix)
		}
		run(in, todo[0])
		todo = todo[1:]
	}
	next(root, "make image")
	t.Setenv("LULL_PAGE_IMAGE", filepath.Join(root, "bin", "image.tar"))
	tellOfNode(t, bareLab(t, realNodeFlags(t, map[string]string{"registry.example/lull:v0.1.0": "LULL_PAGE_IMAGE"})...))
	environ = append(environ, "KUBECONFIG="+env.kubeconfig)
	for range 3 { // one for each installation
		ledgerVolume(t)
	}
	// All of Lull: with the webhook, lull-admission too.
	const rolledOut = "for d in $(kubectl get deployments -n lull-system -o name); do kubectl rollout status -n lull-system $d --timeout=4m; done"
	var verify string
	for _, line := range commandsOf(t, "docs/ledger.md") {
		if strings.HasPrefix(line, "kubectl exec") {
			verify = line
		}
	}
	again := func(line string) string { return "for i in $(seq 240); do " + line + " && break; sleep 1; done" }
	works := func() {
		t.Helper()
		// A ledger without entries cannot be verified, so a Job makes one. It is held by what the page has installed.
		b := newBed(t, dirtyLong(), nil)
		b.submit(b.job("entry", map[string]string{v1alpha1.AnnotationMaxDelay: "90h"}))
		if out := run(dir, rolledOut+"\n"+again(verify)); !strings.Contains(out, "unbroken") {
			t.Errorf("%s", out)
		}
	}
	next(dir, "helm install")
	works()
	next(dir, "helm upgrade")
	works()
	next(dir, "helm uninstall")
	next(dir, "kubectl delete -n lull-system persistentvolumeclaim")
	next(dir, "kubectl delete $(kubectl get customresourcedefinitions")

	// Where the API server has no admission policies, the page's second pair is for it. Elsewhere both pairs are.
	if older() == "" {
		next(dir, "lull manifests --image")
		works()
		webPage(t, dir, run, again, rolledOut)
		next(dir, "lull retire")
	} else {
		todo = slices.DeleteFunc(todo, func(line string) bool { return strings.Contains(line, "lull manifests --image") })
	}
	next(dir, "lull manifests --webhook --image")
	works()
	next(dir, "lull retire")
	if len(todo) > 0 {
		t.Errorf("not run: %q", todo)
	}
	if out := run(dir, "kubectl get crd -o name"); strings.Contains(out, "lull.dev") {
		t.Errorf("left: %s", out)
	}
}

// webPage runs the commands of docs/web.md that need Lull inside of a cluster.
func webPage(t *testing.T, dir string, run func(in, script string) string, again func(line string) string, rolledOut string) {
	t.Helper()
	cert, key, _ := certificate(t)
	must(t, errors.Join(os.Symlink(cert, filepath.Join(dir, "tls.crt")), os.Symlink(key, filepath.Join(dir, "tls.key"))))
	script := "trap 'kill $(jobs -p)' EXIT\n"
	for _, line := range commandsOf(t, "docs/web.md") {
		switch {
		case strings.HasPrefix(line, "lull serve"):
			continue // TestCommandsOfEveryPageRun
		case strings.HasPrefix(line, "curl"):
			line = again(line)
		case strings.HasPrefix(line, "lull manifests"):
			line += "\n" + rolledOut
		}
		script += line + "\n"
	}
	if out := run(dir, script); !strings.Contains(out, `"zones":`) {
		t.Errorf("the page says %s", out)
	}
}
