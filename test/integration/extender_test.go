//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/engine/extender"
)

// manifestsIn are the manifests in a page of the documentation, of a kind each.
func manifestsIn(t *testing.T, page, kind string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	must(t, err)
	var out []string
	for _, m := range regexp.MustCompile("(?s)( *)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		block := strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n")
		if strings.Contains(block, "\nkind: "+kind+"\n") {
			out = append(out, block)
		}
	}
	if len(out) == 0 {
		t.Fatalf("docs/%s has no %s", page, kind)
	}
	return out
}

// extenderNodes says that node-1 stands in a zone of its own.
const extenderNodes = `
apiVersion: lull.dev/v1alpha1
kind: ExtenderConfiguration
nodes:
- selector: {matchLabels: {kubernetes.io/hostname: %s}}
  zone: %s
`

// write writes a file of the test.
func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// podOf is a Pod of an hour; with shift the policy of the extender governs it.
func (b bed) podOf(name string, shift bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.ns, Annotations: map[string]string{"lab.lull.dev/runtime": "1h"}},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
			Name: "work", Image: "example.invalid/work", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}}},
	}
	if shift {
		p.Labels = map[string]string{"shift": "yes"}
	}
	return p
}

// shifts makes a policy of the extender.
func (b bed) shifts() {
	b.t.Helper()
	must(b.t, env.client.Create(context.Background(), &v1alpha1.CarbonPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "shift", Namespace: b.ns},
		Spec: v1alpha1.CarbonPolicySpec{
			Via: v1alpha1.ViaExtender, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"shift": "yes"}}, Zone: b.zone,
			CriticalPriorityClasses: []string{"urgent"}, Planner: v1alpha1.PlannerSpec{Name: "window"},
		},
	}))
}

// pod creates one.
func (b bed) pod(name string, shift bool, change func(*corev1.Pod)) {
	b.t.Helper()
	p := b.podOf(name, shift)
	if change != nil {
		change(p)
	}
	must(b.t, env.client.Create(context.Background(), p))
}

// askExtender asks the extender about a Pod as kube-scheduler does; the answer is empty while it does not listen.
func askExtender(url string, pod *corev1.Pod, nodes []string) string {
	body, err := json.Marshal(map[string]any{"Pod": pod, "NodeNames": nodes})
	if err != nil {
		return err.Error()
	}
	res, err := (&http.Client{Timeout: patience}).Post("http://"+url, "application/json", bytes.NewReader(body))
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return string(text)
}

// scheduled is when kube-scheduler has given a Pod a node, and which; else why it has not.
func (b bed) scheduled(name string) (at time.Time, node, why string) {
	b.t.Helper()
	var p corev1.Pod
	must(b.t, env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: name}, &p))
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			at = c.LastTransitionTime.Time
		} else if c.Type == corev1.PodScheduled {
			why = c.Message
		}
	}
	return at, p.Spec.NodeName, why
}

// logSkipped tells, of a test that failed, when kube-scheduler went on without the extender, and why.
func logSkipped(t *testing.T, schedulerLog string) {
	if !t.Failed() {
		return
	}
	text, err := os.ReadFile(schedulerLog)
	if err != nil {
		t.Log(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "extender") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// TestSchedulerAsksTheExtender: the real kube-scheduler asks the real extender, with the extender's own rights.
// Pods wait for the cleanest window, critical and other Pods do not, all go where they emit least;
// while the extender is down or does not answer Pods are scheduled without it.
func TestSchedulerAsksTheExtender(t *testing.T) {
	address := freeAddress(t)
	scheduler := manifestsIn(t, "extender.md", "KubeSchedulerConfiguration")[0]
	// kube-scheduler goes on without an extender that is not given a core for as long as the timeout.
	for printed, here := range map[string]string{"127.0.0.1:8888": address, "httpTimeout: 500ms": "httpTimeout: 10s"} {
		if strings.Count(scheduler, printed) != 1 {
			t.Fatalf("the configuration of docs/extender.md has no %q", printed)
		}
		scheduler = strings.Replace(scheduler, printed, here, 1)
	}
	dir := ownLab(t, "--scheduler-config", write(t, "scheduler.yaml", scheduler))
	t.Cleanup(func() { logSkipped(t, filepath.Join(dir, "logs", "kube-scheduler.log")) })
	startController(t)
	b := newStandingBed(t, dirtyDay(), nil)
	clean := newStandingBed(t, []float64{20}, nil)
	ctx := context.Background()
	var nodes corev1.NodeList
	must(t, env.client.List(ctx, &nodes))
	cleanNode := nodes.Items[1].Name
	args := []string{"extender", "--kubeconfig", env.extender, "--bind-address", address, "--config", write(t, "extender.yaml", fmt.Sprintf(extenderNodes, nodes.Items[1].Labels[corev1.LabelHostname], clean.zone))}
	b.shifts()
	for _, text := range manifestsIn(t, "extender.md", "CarbonPolicy") {
		u := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(text), &u.Object))
		u.SetNamespace(b.ns)
		u.SetName("documented")
		must(t, env.client.Create(ctx, u, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)))
		var p v1alpha1.CarbonPolicy
		must(t, yaml.Unmarshal([]byte(text), &p))
		state, err := extender.NewState(extender.Configuration{}, clock.RealClock{})
		must(t, errors.Join(err, state.SetPolicy(&p)))
	}
	_, err := extender.ReadConfiguration(strings.NewReader(manifestsIn(t, "extender.md", "ExtenderConfiguration")[0]))
	must(t, err)
	for _, bad := range []string{`{"spec":{"planner":{"name":"joint"}}}`, `{"spec":{"queues":["q"]}}`, `{"spec":{"via":"Magic"}}`} {
		p := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shift", Namespace: b.ns}}
		if err := env.client.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(bad)), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "via") {
			t.Errorf("%s: %v; want it refused for via", bad, err)
		}
	}
	answers := start(t, args)
	names := []string{nodes.Items[0].Name, cleanNode}
	known := func(b bed) func() bool {
		return func() bool {
			probe := b.podOf("probe", true)
			probe.CreationTimestamp = metav1.Now()
			return strings.Contains(askExtender(address+extender.FilterPath, probe, names), "Lull: waits until") && // by the zone of the bed
				strings.Contains(askExtender(address+extender.PrioritizePath, probe, names), fmt.Sprintf(`"Host":%q`, cleanNode)) // by that of the clean node: the worst are left out
		}
	}
	b.eventually("the extender to know both zones", known(b))

	b.pod("waits", true, nil)
	b.pod("critical", true, func(p *corev1.Pod) { p.Spec.PriorityClassName = "urgent" })
	b.pod("other", false, nil)
	for _, name := range []string{"critical", "other"} {
		b.eventually(name+" to be scheduled", func() bool { at, _, _ := b.scheduled(name); return !at.IsZero() })
	}
	if _, node, _ := b.scheduled("critical"); node != cleanNode {
		t.Errorf("the critical Pod went to %s, want %s where it emits least", node, cleanNode)
	}
	b.eventually("the reason why the other waits", func() bool {
		_, _, why := b.scheduled("waits")
		return strings.Contains(why, "Lull: waits until 2023-05-10T16:00:00Z, 100 gCO2eq/kWh then")
	})
	if at, _, _ := b.scheduled("waits"); !at.IsZero() {
		t.Fatal("a Pod was scheduled outside the window although the extender was there")
	}
	b.jump(16)
	// kube-scheduler asks again when something changes, as it always does in a cluster at work; else
	// after minutes.
	looks := 0
	b.eventually("the Pod that waits to be scheduled", func() bool {
		if looks++; looks%10 == 0 {
			b.pod(fmt.Sprint("traffic-", looks), false, func(p *corev1.Pod) { p.Annotations["lab.lull.dev/runtime"] = "15m" })
		}
		at, _, _ := b.scheduled("waits")
		return !at.IsZero()
	})
	at, node, _ := b.scheduled("waits")
	// The times of the API server and of the jump have whole seconds.
	if grid, window := b.gridTime(at), gridStart.Add(16*time.Hour); grid.Before(window) {
		t.Errorf("scheduled at %v, want inside the window from %v", grid, window)
	}
	if node != cleanNode {
		t.Errorf("went to %s, want %s where it emits least", node, cleanNode)
	}

	// Outside of a window again, in a zone of its own: down, and standing still, the extender keeps nobody waiting.
	b = newStandingBed(t, dirtyDay(), nil)
	b.shifts()
	b.eventually("the extender to know the next zone", known(b))
	must(t, answers.Process.Signal(syscall.SIGSTOP))
	b.pod("slow", true, nil)
	b.eventually("a Pod to be scheduled while the extender does not answer", func() bool { at, _, _ := b.scheduled("slow"); return !at.IsZero() })
	must(t, answers.Process.Signal(syscall.SIGCONT))
	must(t, answers.Process.Kill())
	_ = answers.Wait()
	b.pod("down", true, nil)
	b.eventually("a Pod to be scheduled while the extender is down", func() bool { at, _, _ := b.scheduled("down"); return !at.IsZero() })
	start(t, args)
	b.eventually("the extender to listen again", func() bool {
		c, err := net.DialTimeout("tcp", address, patience)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	b.pod("again", true, nil)
	b.eventually("it to be asked again", func() bool {
		at, _, why := b.scheduled("again")
		if !at.IsZero() {
			t.Fatal("a Pod was scheduled outside the window although the extender was there")
		}
		return strings.Contains(why, "Lull: waits until 2023-05-10T16:00:00Z")
	})
}
